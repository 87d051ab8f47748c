"""Advice on a waiting job: changes of its requirements, each evaluated by the conditions of the match.

A change is proposed for the queues that one condition alone excludes, and counts for those that the changed job fits.
The type of a job is not changed, because it says what the job is, nor are its owner and group.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from types import MappingProxyType
from typing import Final

from matching.domain.facts import Change, WaitFact, fact
from matching.domain.findings import Advice, Effect, RequiredOf, WaitingRequirements
from matching.domain.sentences import shorter
from matching.queries.explain.comparison import ComparedPlace, judge_of
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.services.queueing import rounding
from wms.kernel.names import counted, listed
from wms.wire.amounts import AMOUNTS, Amount

#: Changes at most.
MOST_CHANGES: Final = 5
#: Queues for which all changes together are tried, if no single one helps.
_NEAREST: Final = 10
#: Names that are proposed for one condition.
_MOST_NAMES: Final = 2

Places = Sequence[ComparedPlace]


@dataclass(frozen=True, slots=True)
class _Proposal:
    """One change of a job's requirements."""

    change: WaitFact
    #: {field of the definition of its task queue: new value}.
    updates: Mapping[str, object]
    #: Queues that meet the changed requirements on resources; None: these are not changed.
    admits: frozenset[int] | None = None
    #: Whether queues that fit now may no longer fit.
    may_lose: bool = False


Proposals = Callable[[WaitingRequirements, Places], Iterator[_Proposal]]


def advice(needs: WaitingRequirements, places: Places) -> Advice:
    """Return changes that would let the job fit more queues; empty if none helps, or if it fits all queues.

    Args:
        needs: the requirements.
        places: every queue that serves its VO, compared with its task queue.
    """
    excluded: dict[str, list[ComparedPlace]] = {}
    for place in places:
        if len(place.unmet) == 1:
            excluded.setdefault(place.unmet[0], []).append(place)
    fitting = [place for place in places if not place.unmet]
    # A change that admits most queues is proposed for the condition that alone excludes most.
    order = sorted(excluded, key=lambda name: -len(excluded[name]))
    effects = [
        _effect(proposal, needs, excluded[name], fitting=fitting)
        for name in order
        for proposal in _proposals(name, needs, excluded[name])
    ]
    helpful = best(effects, most=MOST_CHANGES)
    if helpful or fitting:
        return Advice(effects=helpful, fits_some=bool(fitting))
    return _about_nearest(needs, places)


def _about_nearest(needs: WaitingRequirements, places: Places) -> Advice:
    """Return what the queue that lacks least would need, if changes of the job are enough."""
    for place in nsmallest(_NEAREST, places, key=lambda place: len(place.unmet)):
        proposals = [next(iter(_proposals(name, needs, [place])), None) for name in place.unmet]
        chosen = [proposal for proposal in proposals if proposal is not None]
        updates = {name: value for proposal in chosen for name, value in proposal.updates.items()}
        if len(chosen) == len(proposals) and not _changed(needs, updates).unmet(place.offer):
            name = f"{place.queue.ce.site}/{place.queue.ce}/{place.queue}"
            return Advice(nearest=name, together=[proposal.change for proposal in chosen])
    return Advice()


def _effect(proposal: _Proposal, needs: WaitingRequirements, excluded: Places, *, fitting: Places) -> Effect:
    judge = _changed(needs, proposal.updates)
    gained = [
        place
        for place in excluded
        if (proposal.admits is None or place.queue.pk in proposal.admits) and not judge.unmet(place.offer)
    ]
    return Effect(
        change=proposal.change,
        gained=len(gained),
        closed=sum(not place.offer.accepting for place in gained),
        lost=sum(bool(judge.unmet(place.offer)) for place in fitting) if proposal.may_lose else 0,
        sites=sorted({place.queue.ce.site.name for place in gained}),
    )


def _changed(needs: WaitingRequirements, updates: Mapping[str, object]) -> Judge:
    """Return the conditions for jobs with other requirements; their owner is taken as trusted."""
    definition = QueueDefinition.of_columns({**needs.definition.columns(), **updates})
    return judge_of(replace(needs, definition=definition, is_active=True, is_member=True))


def _proposals(name: str, needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    """Yield the changes that may let the job fit these queues, which one condition excludes."""
    proposals = _PROPOSALS.get(name)
    return iter(()) if proposals is None else proposals(needs, places)


def lowered(required: int, offered: Iterable[int]) -> tuple[int, ...]:
    """Return the values to which a required number can be lowered, the largest first.

    The first is the smallest change that admits a queue, the last the smallest one that admits all of them.

    Args:
        required: as task queues count it.
        offered: by each queue that only this requirement excludes, rounded down to a value that jobs can require.
    """
    values = sorted({value for value in offered if value < required}, reverse=True)
    return tuple(dict.fromkeys([*values[:1], *values[-1:]]))


def best(effects: Iterable[Effect], *, most: int) -> list[Effect]:
    """Return the changes that admit most queues, most first; of equal ones the earlier comes first."""
    helpful = [effect for effect in effects if effect.gained]
    return sorted(helpful, key=lambda effect: (-effect.gained, effect.lost))[:most]


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _of_cpu_time(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    segments = rounding().cpu_segments_s
    offered = [max((s for s in segments if s <= place.offer.cpu_time_s), default=0) for place in places]
    for value in filter(None, lowered(needs.definition.cpu_time_s, offered)):
        lower, present = shorter(value, own_s=needs.description["cpu_time_s"])
        yield _Proposal(fact(Change.CPU_TIME, value=lower, own=present), {"cpu_time_s": value})


def _of_amount(amount: Amount) -> Proposals:
    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        step = rounding().steps.get(amount.name, 1)
        offered = [(getattr(place.offer, amount.name) or 0) // step * step for place in places]
        counts_as = getattr(needs.definition, amount.name)
        own = needs.description.get(amount.name) or counts_as
        for value in lowered(counts_as, offered):
            if value >= amount.least:
                yield _Proposal(_with_amount(amount, value, own=own), {amount.name: value})

    return proposals


def _with_amount(amount: Amount, value: int, *, own: int) -> WaitFact:
    if value == 0:
        return fact(Change.NO_AMOUNT, noun=amount.noun if amount.unit else f"{amount.noun}s")
    if not amount.unit:
        return fact(Change.FEWER, value=counted(value, amount.noun), own=own)
    as_durations = shorter(value, own_s=own) if amount.unit == "s" else None
    lower, present = as_durations or (f"{value} {amount.unit}", f"{own} {amount.unit}")
    return fact(Change.LESS_OF_AMOUNT, value=lower, noun=amount.noun, own=present)


# ---- names -----------------------------------------------------------------------------------------------------------


def _most_common(names: Counter[str]) -> Iterator[str]:
    yield from (name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES])


def _alternatives(kind: str, field_name: str, offered: Callable[[ResourceOffer], Sequence[str]]) -> Proposals:
    """Return the proposals for a list of names of which a queue must have one."""

    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        present = getattr(needs.definition, field_name)
        for name in _most_common(Counter(name for place in places for name in offered(place.offer))):
            yield _Proposal(fact(Change.ALTERNATIVE, kind=kind, name=name), {field_name: (*present, name)})
        yield _Proposal(fact(Change.NO_NAMES, kind=kind), {field_name: ()})

    return proposals


def _of_site(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    present, description = needs.definition.sites, needs.description
    by_site = Counter(place.offer.site for place in places if place.offer.site)
    has_data = bool(description["input_data"])
    if has_data:
        # Its sites are those that hold its files: only replicas can change that.
        banned, named = description["banned_sites"], description["sites"] or by_site
        by_site = Counter({name: n for name, n in by_site.items() if name in named and name not in banned})
    for name in _most_common(by_site):
        kind = Change.REPLICAS if has_data else Change.ANOTHER_SITE
        yield _Proposal(fact(kind, site=name), {"sites": tuple(sorted([*present, name]))})
    if not has_data:
        banned = tuple(sorted(description["banned_sites"]))
        yield _Proposal(fact(Change.ANY_SITE), {"sites": (), "banned_sites": banned})


def _of_banned_site(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    banned = needs.definition.banned_sites
    for name in _most_common(Counter(place.offer.site for place in places if place.offer.site)):
        left = tuple(site for site in banned if site != name)
        yield _Proposal(fact(Change.NOT_BANNED, site=name), {"banned_sites": left})
    if len(banned) > 1:
        yield _Proposal(fact(Change.NONE_BANNED), {"banned_sites": ()})


def _without(kind: str, field_name: str, lacking: Callable[[Sequence[str], ResourceOffer], Sequence[str]]) -> Proposals:
    """Return the proposals for a list of names all of which a queue must have."""

    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        present = getattr(needs.definition, field_name)
        for names, _ in Counter(tuple(lacking(present, place.offer)) for place in places).most_common(_MOST_NAMES):
            left = tuple(name for name in present if name not in names)
            # "Software" has no plural.
            shown = listed(names) if kind == "software" else names
            yield _Proposal(fact(Change.FEWER_NAMES, kind=kind, names=shown), {field_name: left})

    return proposals


def _of_required_tags(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    present = needs.definition.tags
    kinds = Counter(tuple(tag for tag in place.offer.required_tags if tag not in present) for place in places)
    for names, _ in kinds.most_common(_MOST_NAMES):
        tags = tuple(sorted([*present, *names]))
        yield _Proposal(fact(Change.MORE_TAGS, names=names), {"tags": tags}, may_lose=True)


def _of_setup(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    for name in _most_common(Counter(place.offer.setup for place in places if place.offer.setup is not None)):
        yield _Proposal(
            fact(Change.OTHER_SETUP, setup=name, own=needs.definition.setup), {"setup": name}, may_lose=True
        )


# ---- requirements on resources ---------------------------------------------------------------------------------------


def _of_submit_pool(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    resources = needs.resources
    if resources is None:
        yield _Proposal(fact(Change.NO_POOLS), {"submit_pools": ()})
        return
    by_names: dict[tuple[str, ...], list[ComparedPlace]] = {}
    for place in places:
        if unmet := resources.unmet_at(place.queue.pk):
            by_names.setdefault(unmet, []).append(place)
    for names, of_names in sorted(by_names.items(), key=lambda item: -len(item[1]))[:_MOST_NAMES]:
        if len(names) == 1:
            yield from _lowered_requirement(resources, names[0], of_names)
        left = {name: value for name, value in resources.required.items() if name not in names}
        spelled = tuple(resources.spelled[name] for name in names)
        admits = frozenset(resources.supply.eligible(left))
        yield _Proposal(
            fact(Change.FEWER_NAMES, kind="requirement", names=spelled), {"submit_pools": ()}, admits=admits
        )


def _lowered_requirement(resources: RequiredOf, name: str, places: Places) -> Iterator[_Proposal]:
    """Yield the numbers that a required number can be changed to."""
    own = resources.required[name]
    if isinstance(own, bool) or not isinstance(own, int):
        return
    offered = [resources.supply.offered(place.queue.pk, [name]).get(name) for place in places]
    numbers = [value for value in offered if isinstance(value, int) and not isinstance(value, bool)]
    unit = f" {resources.units[name]}" if name in resources.units else ""
    for value in lowered(own, numbers):
        yield _Proposal(
            fact(Change.LOWER_REQUIREMENT, name=resources.spelled[name], value=f"{value}{unit}", own=f"{own}{unit}"),
            {"submit_pools": ()},
            admits=frozenset(resources.supply.eligible({**resources.required, name: value})),
        )


_PROPOSALS: Final[Mapping[str, Proposals]] = MappingProxyType(
    {
        "setup": _of_setup,
        "cpu_time": _of_cpu_time,
        "pilot_type": lambda _needs, _places: iter(
            [_Proposal(fact(Change.NO_NAMES, kind="pilot type"), {"pilot_types": ()})]
        ),
        "site": _of_site,
        "banned_site": _of_banned_site,
        "ce": _alternatives("computing element", "grid_ces", lambda offer: [offer.ce] if offer.ce else []),
        "platform": _alternatives("platform", "platforms", lambda offer: offer.platforms or ()),
        "submit_pool": _of_submit_pool,
        "software": _without(
            "software", "software", lambda names, offer: [name for name in names if name in offer.lacking_software]
        ),
        "tags": _without("tag", "tags", lambda names, offer: [name for name in names if name not in offer.tags]),
        "required_tags": _of_required_tags,
        **{amount.condition: _of_amount(amount) for amount in AMOUNTS},
        "container": lambda _needs, _places: iter([_Proposal(fact(Change.NO_CONTAINER), {"container": False})]),
    }
)
