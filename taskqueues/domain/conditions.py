"""The conditions of a match, one implementation of each, in their order (TQM, PIL; docs/architecture.md, Matching).

Each returns the task queues for which it accepts an offer. Match, directors, preview, explain and simulation use them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from taskqueues.domain.columns import Columns, Mask
from taskqueues.domain.limits import LimitScope
from taskqueues.domain.offer import ResourceOffer
from wms.wire.amounts import AMOUNTS


@dataclass(frozen=True, slots=True)
class MatchCondition:
    """One condition of the match."""

    #: Returns the task queues for which it accepts an offer; None: all, without a computation.
    accepts: Callable[[Columns, ResourceOffer], Mask | None]
    #: Fields of the offer that it uses: offers with equal values get the same result.
    looks_at: tuple[str, ...] = ()
    #: Numbers of task queues with which the fields are compared, one for each: offers that reach the same of them get
    #: the same result. Empty: the fields are no numbers.
    numbers: tuple[str, ...] = ()


def _at_most(name: str) -> MatchCondition:
    """Return the condition that task queues require no more than is offered of the number *name*; None: any."""

    def accepts(queues: Columns, offer: ResourceOffer) -> Mask | None:
        offered: int | None = getattr(offer, name)
        if offered is None:
            return None
        enough: Mask = queues.numbers[name] <= offered
        return enough

    return MatchCondition(accepts, (name,), numbers=(name,))


def _owner_group(queues: Columns, offer: ResourceOffer) -> Mask:
    # Jobs of a suspended owner wait, and those of an owner who is no longer a member of the group (ADR 39).
    accepted: Mask = queues.trusted & (queues.vo_id == offer.vo_id)
    if offer.group_id is not None:
        accepted &= queues.group_id == offer.group_id
        if offer.owner_id is not None:
            accepted &= queues.owner_id == offer.owner_id
    return accepted


def _site(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if not offer.accepting:
        return np.zeros(len(queues), dtype=np.bool_)
    if offer.possible_sites is not None:
        return queues.sites.accepts_all(offer.possible_sites)
    return None if offer.site is None else queues.sites.accepts(offer.site)


def _banned_site(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if offer.possible_sites is None:
        return None if offer.site is None else ~queues.banned_sites.lists(offer.site)
    if not offer.possible_sites:
        return queues.banned_sites.empty()
    return ~queues.banned_sites.lists_one_of(offer.possible_sites)


def _ce(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if offer.possible_ces is not None:
        return queues.grid_ces.accepts_all(offer.possible_ces)
    return None if offer.ce is None else queues.grid_ces.accepts(offer.ce)


def _platform(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if offer.possible_platforms is not None:
        accepted = np.ones(len(queues), dtype=np.bool_)
        for platforms in offer.possible_platforms:
            accepted &= queues.platforms.accepts_one_of(platforms)
        return accepted
    return None if offer.platforms is None else queues.platforms.accepts_one_of(offer.platforms)


def _submit_pool(queues: Columns, offer: ResourceOffer) -> Mask | None:
    return None if offer.submit_pools is None else queues.submit_pools.accepts_one_of(offer.submit_pools)


def _software(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if not offer.lacking_software or not queues.software.some_listed:
        return None
    return ~queues.software.lists_one_of(offer.lacking_software)


def _required_tags(queues: Columns, offer: ResourceOffer) -> Mask | None:
    return queues.tags.holds_all(offer.required_tags) if offer.required_tags else None


def _job_type(queues: Columns, offer: ResourceOffer) -> Mask | None:
    return queues.job_type.is_one_of(offer.job_types) if offer.job_types else None


def _downtime(queues: Columns, offer: ResourceOffer) -> Mask | None:
    """Jobs must end by the next downtime; those without a wall-clock limit count by their CPU time."""
    if offer.downtime is None:
        return None
    wall_time_s, left = queues.numbers["wall_time_s"], offer.downtime
    ends: Mask = np.where(wall_time_s > 0, wall_time_s <= left.wall_time_s, queues.cpu_time_s <= left.cpu_time_s)
    return ends


def _throttle(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if offer.throttled:
        return np.zeros(len(queues), dtype=np.bool_)
    return ~np.isin(queues.task_queue_id, offer.refused) if offer.refused else None


def _limit(queues: Columns, offer: ResourceOffer) -> Mask | None:
    if not offer.full_limits:
        return None
    accepted = np.ones(len(queues), dtype=np.bool_)
    for scope in offer.full_limits:
        accepted &= ~within(queues, scope)
    return accepted


def within(queues: Columns, scope: LimitScope) -> Mask:
    """Return the task queues to whose jobs a limit applies, at its places."""
    theirs = np.ones(len(queues), dtype=np.bool_)
    for column, required in (
        (queues.vo_id, scope.vo_id),
        (queues.group_id, scope.group_id),
        (queues.owner_id, scope.owner_id),
    ):
        if required is not None:
            theirs &= column == required
    if scope.job_type:
        theirs &= queues.job_type.is_(scope.job_type)
    return theirs


CONDITIONS: Mapping[str, MatchCondition] = MappingProxyType(
    {
        "owner_group": MatchCondition(_owner_group, ("vo_id", "group_id", "owner_id")),
        "setup": MatchCondition(
            lambda queues, offer: None if offer.setup is None else queues.setup.is_(offer.setup), ("setup",)
        ),
        "cpu_time": _at_most("cpu_time_s"),
        "pilot_type": MatchCondition(
            lambda queues, offer: queues.pilot_types.accepts(offer.pilot_type), ("pilot_type",)
        ),
        "site": MatchCondition(_site, ("site", "possible_sites", "accepting")),
        "banned_site": MatchCondition(_banned_site, ("site", "possible_sites")),
        "ce": MatchCondition(_ce, ("ce", "possible_ces")),
        "platform": MatchCondition(_platform, ("platforms", "possible_platforms")),
        "submit_pool": MatchCondition(_submit_pool, ("submit_pools",)),
        "software": MatchCondition(_software, ("lacking_software",)),
        "tags": MatchCondition(lambda queues, offer: queues.tags.within(offer.tags), ("tags",)),
        "required_tags": MatchCondition(_required_tags, ("required_tags",)),
        "job_type": MatchCondition(_job_type, ("job_types",)),
        **{amount.condition: _at_most(amount.name) for amount in AMOUNTS},
        # Required or not, offered or not: an amount of 0 or 1.
        "container": _at_most("container"),
        "downtime": MatchCondition(
            _downtime, ("wall_time_to_downtime_s", "cpu_time_to_downtime_s"), numbers=("wall_time_s", "cpu_time_s")
        ),
        "throttle": MatchCondition(_throttle, ("throttled", "refused")),
        "limit": MatchCondition(_limit, ("full_limits",)),
    }
)


def fitting(queues: Columns, offer: ResourceOffer) -> Mask:
    """Return the task queues that fit *offer*: all conditions accept it."""
    fits = np.ones(len(queues), dtype=np.bool_)
    for condition in CONDITIONS.values():
        accepted = condition.accepts(queues, offer)
        if accepted is not None:
            fits &= accepted
    return fits
