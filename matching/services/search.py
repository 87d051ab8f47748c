"""The search of one request for jobs, in one snapshot of the task queues."""

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Final
from uuid import UUID

import numpy as np

from matching.domain.draw import Drawn, Lottery
from matching.services import limits
from matching.services.claim import Claimant, Claimed, ClaimOutcome, HeldFor, SeenThrottle, claim, close
from matching.services.empty_answers import EmptyAnswer, empty_answer
from matching.services.limits import full_limits
from matching.services.offers import (
    OfferRequest,
    PilotBinding,
    PilotPlace,
    of_pilot,
    vo_of,
    with_own_speed,
    within_slot,
)
from matching.services.site_throttle import (
    MOVED,
    THROTTLED,
    ExpressionRefusal,
    ThrottleBusyError,
    ThrottleCheck,
    throttle_lock,
)
from pilots.services.exclusions import no_more_jobs_error
from resources.models import ComputingElement, Queue, Site
from taskqueues.domain.conditions import within
from taskqueues.domain.limits import LimitScope
from taskqueues.domain.offer import ResourceOffer
from taskqueues.queries import limits_by_place
from taskqueues.services import queueing
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import published_at
from wms.kernel.clock import current_time
from wms.kernel.errors import ForbiddenError
from wms.kernel.fast.statements import query_prepared
from wms.kernel.life import LifeEvent, tell
from wms.kernel.memo import CachedLookups
from wms.kernel.names import composed
from wms.wire.amounts import DIVIDED
from wms.wire.protocol import PILOT_DRAINED, PILOT_ENDED, PILOT_REVOKED

logger = logging.getLogger(__name__)

#: Sentences for the claim's reasons to give a pilot no job any more.
REFUSALS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pilot_unknown": "This pilot is unknown; register again.",
        PILOT_REVOKED: "The credentials of this pilot were revoked; leave.",
        PILOT_ENDED: "This pilot has ended; leave.",
        "queue_removed": "The queue of this pilot is no longer configured; leave.",
        "place_removed": "The site or computing element of this pilot is no longer configured; leave.",
    }
)
#: The claim's reasons for which a pilot gets no further job but keeps its leases.
_NO_MORE: Final = frozenset({"black_hole", PILOT_DRAINED})
#: The claim's reason if the pilot's open leases leave too little of its slot for a job of the task queue.
_SLOT: Final = "slot"
_IN_USE: Final = (
    "SELECT * FROM wms_required_by("
    "ARRAY(SELECT job_id FROM matching_match WHERE pilot_id = %s AND ended_at IS NULL), %s::text[])"
)
#: Task queues read before, and after, the drawn one when the attributes that a site's expression uses are read.
BESIDE: Final = 50


class PilotRefusedError(ForbiddenError):
    """The pilot has ended, or its credentials were revoked; it gets no job."""

    code = "pilot_not_welcome"


@dataclass(slots=True, kw_only=True)
class QueueSearch:
    """One request in one snapshot of the task queues."""

    snapshot: Snapshot
    offer: ResourceOffer
    claimant: Claimant
    throttle: ThrottleCheck
    #: Limits that apply at the place, by primary key.
    limits: Mapping[int, LimitScope]
    #: Fraction of the matches that ignore the rule of the highest CPU segment.
    any_segment_fraction: float
    #: Names, for the log; no site: it is unknown.
    vo_name: str
    #: Returns the software published at the place.
    published: Callable[[], frozenset[str]]
    chance: Random
    #: Task queues refused by the site's expression.
    refused: set[int] = field(default_factory=set)
    #: Whether a claim found that the configuration has changed since the snapshot.
    is_outdated: bool = False
    #: Task queues left after each condition, when the search ended.
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_throttled(self) -> bool:
        """Return whether the site takes no more matches."""
        return bool(self.offer.throttled)

    @property
    def full(self) -> Sequence[LimitScope]:
        """Return the limits that were assumed, or found, to be full."""
        return self.offer.full_limits

    def leave_out_full(self) -> None:
        """Draw no jobs of the limits that were recently found full."""
        self._assume_full(full_limits.recent())

    def _assume_full(self, limit_ids: Collection[int]) -> None:
        """Draw no jobs of these limits, some of which may not apply here."""
        if scopes := [scope for limit_id, scope in self.limits.items() if limit_id in limit_ids]:
            self.offer = replace(self.offer, full_limits=(*self.offer.full_limits, *scopes))

    def fill(self, leases: Sequence[Claimed], *, up_to: int) -> list[Claimed]:
        """Return these leases and newly drawn ones, *up_to* in all.

        Raises:
            ThrottleBusyError: there is no lease, and it is not certain that no job fits.
        """
        filled = list(leases)
        try:
            while len(filled) < up_to and (lease := self._one_more(filled)) is not None:
                filled.append(lease)
        except ThrottleBusyError:
            if not filled:
                raise
            self.offer = replace(self.offer, throttled=ThrottleBusyError.code)
        return filled

    def empty_answer(self, *, unless_changed: bool) -> EmptyAnswer:
        """Return the facts about the answer that there is no job.

        Args:
            unless_changed: whether it matters that the task queues have changed since the snapshot.
        """
        return empty_answer(self.claimant, left=self._note_left(), searched=self.snapshot if unless_changed else None)

    def close(self) -> list[Claimed]:
        """End the request with its leases, and return them."""
        leases = close(self.claimant, left=self._note_left())
        for lease in leases:
            if lease.answer == ClaimOutcome.CLOSED:
                if lease.reason in _NO_MORE:
                    raise no_more_jobs_error(self.claimant.pilot_id)
                raise PilotRefusedError(REFUSALS[str(lease.reason)])
        return leases

    def without_published_software(self, lease: Claimed) -> Claimed:
        """Return the lease without the software published here, which is not to be looked for on the node."""
        needed: Sequence[str] = lease.description.get("software", ())
        if not needed:
            return lease
        published = self.published()
        left = [name for name in needed if composed(name) not in published]
        return lease._replace(description={**lease.description, "software": left})

    def _note_left(self) -> Mapping[str, int]:
        """Note and return the number of task queues with jobs that are left after each condition."""
        offer = replace(self.offer, refused=tuple(sorted(self.refused)))
        self.left = self.snapshot.masks.numbers_left(offer, among=self.snapshot.has_jobs)
        return self.left

    def _one_more(self, leases: Sequence[Claimed]) -> Claimed | None:
        """Draw until a claim succeeds; None if every level that fits is empty or closed."""
        lottery = self._lottery(leases)
        while drawn := lottery.draw(queue_chance=self.chance.random(), level_chance=self.chance.random()):
            claimed = self._claim_in_turn(drawn, ordinal=len(leases))
            if claimed is ExpressionRefusal.ALL:
                self.offer = replace(self.offer, throttled="throttle")
                return None
            if claimed is ExpressionRefusal.JOB:
                self._leave_out_refused(lottery, drawn)
                continue
            if claimed.answer == ClaimOutcome.LEASED:
                self._after_lease(drawn, claimed)
                return claimed
            if claimed.reason == _SLOT:
                self._offer_what_is_left(leases)
                lottery = self._lottery(leases)
                continue
            if not self._goes_on(lottery, drawn, claimed):
                return None
        return None

    def _claim_in_turn(self, drawn: Drawn, *, ordinal: int) -> Claimed | ExpressionRefusal:
        """Claim a job of the level, or return that the throttle's expression refuses it in its current state.

        After too many claims that found the state changed, the expression is evaluated under the throttle's lock, if
        only matches have changed it. Each level has its own transaction, so that locks are always taken in the order of
        a claim (ADR 29).
        """
        seen = self._seen(drawn)
        if isinstance(seen, ExpressionRefusal):
            return seen
        if not self.throttle.is_to_be_locked:
            return self._claim(drawn, ordinal=ordinal, seen=seen)
        with throttle_lock():
            claimed = self._claim(drawn, ordinal=ordinal, seen=seen, locks_throttle=True)
            if claimed.reason != MOVED or not self.throttle.read_matches():
                return claimed
            seen = self._seen(drawn)
            if isinstance(seen, ExpressionRefusal):
                return seen
            # The claim already holds a job of the level: there is nothing to wait for.
            return self._claim(drawn._replace(is_last_resort=False), ordinal=ordinal, seen=seen)

    def _seen(self, drawn: Drawn) -> SeenThrottle | ExpressionRefusal | None:
        return self.throttle.seen_by(self._task_queue_id(drawn), beside=partial(self._beside, drawn))

    def _offer_what_is_left(self, leases: Sequence[Claimed]) -> None:
        """Narrow the offer to what the pilot's other leases leave of its slot."""
        slot = self.claimant.slot
        in_use = dict(query_prepared(_IN_USE, self.claimant.pilot_id, list(slot)))
        ours = _required_by(leases)
        self.offer = within_slot(self.offer, {name: most - in_use[name] + ours[name] for name, most in slot.items()})

    def _goes_on(self, lottery: Lottery, drawn: Drawn, claimed: Claimed) -> bool:
        """Remove from the draw what a claim found unavailable; False if there is nothing else."""
        match claimed.answer:
            case ClaimOutcome.EMPTY_LEVEL:
                index.note_empty(self._task_queue_id(drawn), drawn.user_priority, snapshot=self.snapshot)
                lottery.leave_out(drawn)
            case ClaimOutcome.HELD_BACK:
                self._note_held_back(drawn, claimed)
                lottery.leave_out(drawn)
            case ClaimOutcome.CONTENDED:
                if claimed.reason:
                    logger.error("match.job_in_queue_does_not_wait", extra={"job_id": claimed.job_id})
                lottery.set_aside(drawn)
            case ClaimOutcome.CLOSED if claimed.reason in REFUSALS:
                raise PilotRefusedError(REFUSALS[str(claimed.reason)])
            case ClaimOutcome.CLOSED if claimed.limit_id is not None:
                self._leave_out_limit(lottery, drawn, claimed.limit_id)
            case ClaimOutcome.CLOSED if claimed.reason in THROTTLED:
                if not self.throttle.has_opened(str(claimed.reason)):
                    self.offer = replace(self.offer, throttled=str(claimed.reason))
                return not self.is_throttled
            case ClaimOutcome.OUTDATED:
                self.is_outdated = True
                return False
            case _:
                return False
        return True

    def _note_held_back(self, drawn: Drawn, claimed: Claimed) -> None:
        """Exclude the level from the draws of those from whom its jobs are held back, until that ends."""
        if claimed.opens_at is not None:
            index.note_held_back(
                self._task_queue_id(drawn),
                drawn.user_priority,
                of=self._held_for[HeldFor(str(claimed.reason))],
                until=claimed.opens_at,
                snapshot=self.snapshot,
            )

    @property
    def _held_for(self) -> Mapping[HeldFor, Hashable]:
        """Return the keys of the scopes for which jobs of a level are held back."""
        claimant = self.claimant
        return {
            HeldFor.ALL: HeldFor.ALL,
            HeldFor.QUEUE: (HeldFor.QUEUE, claimant.queue_id),
            HeldFor.PILOT: (HeldFor.PILOT, claimant.pilot_id),
        }

    def _leave_out_limit(self, lottery: Lottery, drawn: Drawn, limit_id: int) -> None:
        if limits.has_room(limit_id):
            return
        scope = self.limits.get(limit_id)
        full_limits.note(limit_id, delay_s=None if scope is None else scope.delay_s)
        self._assume_full([limit_id])
        if scope is None:
            lottery.leave_out_queue(drawn.row)  # the limit was made after the snapshot
        else:
            lottery.leave_out_queues(within(self.snapshot.columns, scope))

    def _leave_out_refused(self, lottery: Lottery, drawn: Drawn) -> None:
        """Exclude the task queues that the site's expression refuses as it does the drawn one."""
        task_queue_ids = self.snapshot.columns.task_queue_id
        refused = self.throttle.refused_with(self._task_queue_id(drawn))
        rows = np.ones(len(task_queue_ids), np.bool_) if refused is None else np.isin(task_queue_ids, list(refused))
        self.refused.update(task_queue_ids[rows].tolist())
        lottery.leave_out_queues(rows)

    def _lottery(self, leases: Sequence[Claimed]) -> Lottery:
        offer = self.offer
        if leases:
            required = _required_by(leases)
            offer = replace(offer, **{name: getattr(offer, name) - required[name] for name in DIVIDED})
        any_segment = self.any_segment_fraction > 0 and self.chance.random() < self.any_segment_fraction
        masks = self.snapshot.masks
        offered = [rows for segment_s, rows in masks.segments.items() if segment_s <= offer.cpu_time_s]
        together = [slice(0, None)] if any_segment else offered
        lottery = Lottery(
            masks.fitting(offer, among=together),
            priority=self.snapshot.drawn_priority,
            jobs=self.snapshot.jobs,
        )
        lottery.leave_out_levels(*self.snapshot.held_back_for(frozenset(self._held_for.values())))
        return lottery

    def _claim(self, drawn: Drawn, *, ordinal: int, seen: SeenThrottle | None, locks_throttle: bool = False) -> Claimed:
        return claim(
            self.claimant,
            ordinal=ordinal,
            task_queue_id=self._task_queue_id(drawn),
            user_priority=drawn.user_priority,
            cpu_segment_s=int(self.snapshot.columns.numbers["cpu_time_s"][drawn.row]),
            searched=self.snapshot.view.seen,
            chance=self.chance.random(),
            may_wait=drawn.is_last_resort,
            seen=seen,
            locks_throttle=locks_throttle,
        )

    def _after_lease(self, drawn: Drawn, lease: Claimed) -> None:
        tell(
            LifeEvent.JOB_MATCHED,
            job=lease.job_id,
            pilot=self.claimant.pilot_id,
            lease=lease.match_id,
            user=lease.owner,
            group=lease.group_name,
            vo=self.vo_name,
            site=self.claimant.site_name,
        )
        task_queue_id = self._task_queue_id(drawn)
        if lease.remaining != 0:
            index.note_taken(task_queue_id, drawn.user_priority, snapshot=self.snapshot)
            return
        index.note_empty(task_queue_id, drawn.user_priority, snapshot=self.snapshot)
        if self.snapshot.drawn_priority[drawn.row] == 0:
            # The periodic task would do it within 5 s, but a task queue that is gone must not be drawn.
            queueing.remove_empty(now=current_time(), task_queue_ids=[task_queue_id])

    def _beside(self, drawn: Drawn) -> list[int]:
        """Return the task queues of the neighbouring rows, most of them of the same CPU segment."""
        beside: list[int] = self.snapshot.columns.task_queue_id[
            max(0, drawn.row - BESIDE) : drawn.row + BESIDE
        ].tolist()
        return beside

    def _task_queue_id(self, drawn: Drawn) -> int:
        return int(self.snapshot.columns.task_queue_id[drawn.row])


def search_in(
    snapshot: Snapshot,
    *,
    now: datetime,
    request: OfferRequest,
    binding: PilotBinding,
    pilot_id: int,
    request_id: UUID,
    chance: Random,
) -> QueueSearch:
    """Return the search of a request in a snapshot, with the offer as resolved there.

    Args:
        snapshot: of the task queues.
        now: the time of the request, by the database's clock, for expressions of sites.
        request, binding, pilot_id, request_id, chance: as of ``match``.

    Raises:
        PilotRefusedError: the queue, site or computing element of the pilot is no longer configured.
    """
    lookups = CachedLookups(snapshot.memo)
    offer, where = _offer_in(snapshot, request, binding, lookups)
    offer = with_own_speed(offer, pilot_id=pilot_id)
    site_id, ce_id, queue_id = where.place.ids
    site = where.place.its_site
    claimant = Claimant(
        pilot_id=pilot_id,
        request_id=request_id,
        site_id=site_id,
        ce_id=ce_id,
        queue_id=queue_id,
        site_name=None if site is None else site.name,
        is_throttled=site is not None and bool(site.throttle_policy),
        slot=where.slot,
    )
    limits_at = lookups.get(limits_by_place)
    places = {(site, ce) for site in (None, site_id) for ce in (None, ce_id)} if limits_at else ()
    vo = lookups.get(vo_of, binding.vo_id)
    return QueueSearch(
        snapshot=snapshot,
        offer=offer,
        claimant=claimant,
        throttle=ThrottleCheck(site, lookups, now=now),
        limits={scope.limit_id: scope for key in places for scope in limits_at.get(key, ())},
        any_segment_fraction=vo.any_segment_fraction,
        vo_name=vo.name,
        published=partial(published_at, where.place, where.possible, vo=vo, lookups=lookups),
        chance=chance,
    )


def _offer_in(
    snapshot: Snapshot, request: OfferRequest, binding: PilotBinding, lookups: CachedLookups
) -> tuple[ResourceOffer, PilotPlace]:
    some_name_software = snapshot.columns.software.some_listed
    try:
        return of_pilot(request, binding, now=snapshot.now(), lookups=lookups, some_name_software=some_name_software)
    except Queue.DoesNotExist as error:
        raise PilotRefusedError(REFUSALS["queue_removed"]) from error
    except (Site.DoesNotExist, ComputingElement.DoesNotExist) as error:
        raise PilotRefusedError(REFUSALS["place_removed"]) from error


def _required_by(leases: Sequence[Claimed]) -> dict[str, int]:
    """Return the jobs' own divided amounts in sum, not those of their task queues, which are rounded up."""
    return {name: sum(lease.description.get(name, 0) for lease in leases) for name in DIVIDED}
