"""Advice for a waiting job: changes of its requirements, each evaluated by the conditions of the match.

A change is proposed for the queues that one condition alone excludes, and counts for those that the changed job fits.
The type of a job is not changed, because it says what the job is, nor are its owner and group.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from heapq import nsmallest
from types import MappingProxyType
from typing import Any, Final

from matching.domain.advice import Effect, best, lowered, sentence, sentence_about_nearest, shorter
from matching.queries.explain.condition_texts import RequiredOf, WaitingRequirements, counted
from matching.queries.explain.places import ComparedPlace
from resources.domain.requirements import canonical
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.services.queueing import rounding
from wms.kernel.names import listed
from wms.wire.amounts import AMOUNTS, Amount

#: Sentences at most.
MOST_SENTENCES: Final = 5
#: Queues for which all changes together are tried, if no single one helps.
_NEAREST: Final = 10
#: Names that are proposed for one condition.
_MOST_NAMES: Final = 2

Places = Sequence[ComparedPlace]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """One change of a job's requirements."""

    words: str
    #: {field of the definition of its task queue: new value}.
    updates: Mapping[str, Any] = field(default_factory=dict)
    #: Queues that meet the changed requirements on resources; None: these are not changed.
    admits: frozenset[int] | None = None
    #: Whether queues that fit now may no longer fit.
    may_lose: bool = False


def advice(needs: WaitingRequirements, places: Places) -> list[str]:
    """Return sentences about changes that would let the job fit more queues, the most helpful first.

    Empty if none helps, or if it fits all queues.

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
    helpful = best(effects, most=MOST_SENTENCES)
    if helpful or fitting:
        return [sentence(effect, fits_some=bool(fitting)) for effect in helpful]
    return _about_nearest(needs, places)


def _about_nearest(needs: WaitingRequirements, places: Places) -> list[str]:
    """Return what the queue that lacks least would need, if changes of the job are enough."""
    for place in nsmallest(_NEAREST, places, key=lambda place: len(place.unmet)):
        proposals = [next(iter(_proposals(name, needs, [place])), None) for name in place.unmet]
        chosen = [proposal for proposal in proposals if proposal is not None]
        updates: dict[str, Any] = {}
        for proposal in chosen:
            updates |= proposal.updates
        if len(chosen) == len(proposals) and not _changed(needs.task_queue, updates).unmet(place.offer):
            name = f"{place.queue.ce.site}/{place.queue.ce}/{place.queue}"
            return [sentence_about_nearest(name, [proposal.words for proposal in chosen])]
    return []


def _effect(proposal: _Proposal, needs: WaitingRequirements, excluded: Places, *, fitting: Places) -> Effect:
    judge = _changed(needs.task_queue, proposal.updates)
    gained = [
        place
        for place in excluded
        if (proposal.admits is None or place.queue.pk in proposal.admits) and not judge.unmet(place.offer)
    ]
    return Effect(
        words=proposal.words,
        gained=len(gained),
        closed=sum(not place.offer.accepting for place in gained),
        lost=sum(bool(judge.unmet(place.offer)) for place in fitting) if proposal.may_lose else 0,
        sites=sorted({place.queue.ce.site.name for place in gained}),
    )


def _changed(task_queue: TaskQueue, updates: Mapping[str, Any]) -> Judge:
    """Return the conditions for the jobs of a task queue with other requirements; its owner is taken as trusted."""
    definition = replace(definition_of(task_queue), **updates)
    return Judge(Columns.of([QueueRow(task_queue_id=task_queue.pk, definition=definition, trusted=True)]))


def definition_of(task_queue: TaskQueue) -> QueueDefinition:
    """Return the definition that the row of a task queue holds."""
    values: dict[str, Any] = {each.name: getattr(task_queue, each.name) for each in fields(QueueDefinition)}
    values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return QueueDefinition(**values)


def _proposals(name: str, needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    """Yield the changes that may let the job fit these queues, which one condition excludes."""
    proposals = _PROPOSALS.get(name)
    return iter(()) if proposals is None else proposals(needs, places)


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _of_cpu_time(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    segments = rounding().cpu_segments_s
    offered = [max((s for s in segments if s <= place.offer.cpu_time_s), default=0) for place in places]
    own = needs.description["cpu_time_s"]
    for value in filter(None, lowered(needs.task_queue.cpu_time_s, offered)):
        words = "with a CPU time of {} instead of {}".format(*shorter(value, own_s=own))
        yield _Proposal(words=words, updates={"cpu_time_s": value})


def _of_amount(amount: Amount) -> Callable[[WaitingRequirements, Places], Iterator[_Proposal]]:
    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        step = rounding().steps.get(amount.name, 1)
        offered = [(getattr(place.offer, amount.name) or 0) // step * step for place in places]
        own = needs.description.get(amount.name) or getattr(needs.task_queue, amount.name)
        for value in lowered(getattr(needs.task_queue, amount.name), offered):
            if value >= amount.least:
                words = _with_amount(amount, value, own=own)
                yield _Proposal(words=words, updates={amount.name: value})

    return proposals


def _with_amount(amount: Amount, value: int, *, own: int) -> str:
    if value == 0:
        return f"without a requirement of {amount.noun if amount.unit else f'{amount.noun}s'}"
    if not amount.unit:
        return f"with {counted(value, amount.noun)} instead of {own}"
    as_durations = shorter(value, own_s=own) if amount.unit == "s" else None
    lower, present = as_durations or (f"{value} {amount.unit}", f"{own} {amount.unit}")
    return f"with {lower} of {amount.noun} instead of {present}"


# ---- names -----------------------------------------------------------------------------------------------------------


def _most_common(names: Counter[str]) -> Iterator[str]:
    yield from (name for name, _ in sorted(names.items(), key=lambda item: (-item[1], item[0]))[:_MOST_NAMES])


def _alternatives(
    kind: str, field_name: str, offered: Callable[[ResourceOffer], Sequence[str]]
) -> Callable[[WaitingRequirements, Places], Iterator[_Proposal]]:
    """Return the proposals for a list of names of which a queue must have one."""

    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        present = list(getattr(needs.task_queue, field_name))
        for name in _most_common(Counter(name for place in places for name in offered(place.offer))):
            words = f"with the {kind} {name} as an alternative"
            yield _Proposal(words=words, updates={field_name: (*present, name)})
        yield _Proposal(words=f"without a required {kind}", updates={field_name: ()})

    return proposals


def _of_site(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    present, description = needs.task_queue.sites, needs.description
    by_site = Counter(place.offer.site for place in places if place.offer.site)
    if description["input_data"]:
        # Its sites are those that hold its files: only replicas can change that.
        by_site = Counter({name: number for name, number in by_site.items() if _may_run_at(name, description)})
        for name in _most_common(by_site):
            yield _Proposal(
                words=f"with replicas of its input data at {name}", updates={"sites": tuple(sorted([*present, name]))}
            )
        return
    for name in _most_common(by_site):
        yield _Proposal(words=f"with {name} among its sites", updates={"sites": tuple(sorted([*present, name]))})
    banned = tuple(sorted(description["banned_sites"]))
    yield _Proposal(words="without a list of sites", updates={"sites": (), "banned_sites": banned})


def _may_run_at(site: str, description: Mapping[str, Any]) -> bool:
    named = description["sites"]
    return site not in description["banned_sites"] and (not named or site in named)


def _of_banned_site(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    banned = needs.task_queue.banned_sites
    for name in _most_common(Counter(place.offer.site for place in places if place.offer.site)):
        left = tuple(site for site in banned if site != name)
        yield _Proposal(words=f"without {name} among its banned sites", updates={"banned_sites": left})
    if len(banned) > 1:
        yield _Proposal(words="without banned sites", updates={"banned_sites": ()})


def _without(
    kind: str, field_name: str, lacking: Callable[[Sequence[str], ResourceOffer], Sequence[str]]
) -> Callable[[WaitingRequirements, Places], Iterator[_Proposal]]:
    """Return the proposals for a list of names all of which a queue must have."""

    def proposals(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
        present = getattr(needs.task_queue, field_name)
        kinds = Counter(tuple(lacking(present, place.offer)) for place in places)
        for names, _ in kinds.most_common(_MOST_NAMES):
            left = tuple(name for name in present if name not in names)
            words = f"without the {kind}{'s' if len(names) > 1 and kind != 'software' else ''} {listed(names)}"
            yield _Proposal(words=words, updates={field_name: left})

    return proposals


def _of_required_tags(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    present = needs.task_queue.tags
    kinds = Counter(tuple(tag for tag in place.offer.required_tags if tag not in present) for place in places)
    for names, _ in kinds.most_common(_MOST_NAMES):
        words = f"with the tag{'s' if len(names) > 1 else ''} {listed(names)}"
        yield _Proposal(words=words, updates={"tags": tuple(sorted([*present, *names]))}, may_lose=True)


def _of_setup(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    for name in _most_common(Counter(place.offer.setup for place in places)):
        words = f"with the setup {name} instead of {needs.task_queue.setup}"
        yield _Proposal(words=words, updates={"setup": name}, may_lose=True)


# ---- requirements on resources ---------------------------------------------------------------------------------------


def _of_submit_pool(needs: WaitingRequirements, places: Places) -> Iterator[_Proposal]:
    required = needs.requirements
    if required is None:
        yield _Proposal(words="without its submit pools", updates={"submit_pools": ()})
        return
    asked = canonical(required.stated)
    by_names: dict[tuple[str, ...], list[ComparedPlace]] = {}
    for place in places:
        if unmet := required.unmet_at(place.queue.pk):
            by_names.setdefault(unmet, []).append(place)
    for names, of_names in sorted(by_names.items(), key=lambda item: -len(item[1]))[:_MOST_NAMES]:
        if len(names) == 1:
            yield from _lowered_requirement(required, names[0], of_names)
        spelled = listed([required.spelling(name) for name in names])
        left = {name: value for name, value in asked.items() if name not in names}
        words = f"without the requirement{'s' if len(names) > 1 else ''} {spelled}"
        yield _Proposal(words=words, updates={"submit_pools": ()}, admits=frozenset(required.supply.eligible(left)))


def _lowered_requirement(required: RequiredOf, name: str, places: Places) -> Iterator[_Proposal]:
    """Yield the numbers that a required number can be changed to."""
    asked = canonical(required.stated)
    own = asked[name]
    if isinstance(own, bool) or not isinstance(own, int):
        return
    offered = [required.supply.offered(place.queue.pk, [name]).get(name) for place in places]
    numbers = [value for value in offered if isinstance(value, int) and not isinstance(value, bool)]
    unit = f" {required.units[name]}" if name in required.units else ""
    for value in lowered(own, numbers):
        yield _Proposal(
            words=f"with {required.spelling(name)} = {value}{unit} instead of {own}{unit}",
            updates={"submit_pools": ()},
            admits=frozenset(required.supply.eligible({**asked, name: value})),
        )


_PROPOSALS: Final[Mapping[str, Callable[[WaitingRequirements, Places], Iterator[_Proposal]]]] = MappingProxyType(
    {
        "setup": _of_setup,
        "cpu_time": _of_cpu_time,
        "pilot_type": lambda _needs, _places: iter(
            [_Proposal(words="without a required pilot type", updates={"pilot_types": ()})]
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
        "container": lambda _needs, _places: iter(
            [_Proposal(words="without a container", updates={"container": False})]
        ),
    }
)
