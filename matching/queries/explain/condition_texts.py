"""Texts of the conditions of a match: the requirement of a job, and the offer of a queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from matching.domain.headline import Cause, Ground
from resources.domain.eligibility import Supply
from resources.domain.parameters import canonical_name
from resources.domain.requirements import Kinds, Units, canonical, meets, requirements_in_words, unmet
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.queries import LEAST_SHARE
from wms.jobs.domain.fields import shown
from wms.kernel.names import listed
from wms.wire.amounts import AMOUNTS, Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequirements:
    """The requirements of a waiting job: its task queue, which the match compares, and its description."""

    #: With its owner and group.
    task_queue: TaskQueue
    description: Mapping[str, Any]
    #: Whether its owner is a member of its group.
    is_of_member: bool = True
    #: Its requirements on resources, compared with the queues; None: it has none, or names submit pools itself.
    requirements: "RequiredOf | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredOf:
    """The resource requirements of a job (RFC 7), compared with the properties of its VO's queues."""

    #: As written by the owner.
    stated: Mapping[str, object]
    kinds: Kinds
    units: Units
    supply: Supply

    def in_words(self) -> str:
        """Return the requirements in words, such as "Memory = 4000 MB"."""
        return requirements_in_words(self.stated, units=self.units)

    def held_back(self) -> str:
        """Return which requirement excludes how many queues; empty: none does."""
        spelled = self._spelled()
        counts = self.supply.held_back(canonical(self.stated))
        held = [f"{spelled[name]} holds back {counted(number, 'queue')}" for name, number in counts.items() if number]
        return " and ".join([", ".join(held[:-1]), held[-1]]) if len(held) > 1 else "".join(held)

    def lacking(self, queue_id: int) -> str:
        """Return what one queue lacks; empty: it meets all requirements."""
        required = canonical(self.stated)
        offered = self.supply.offered(queue_id, required)
        return "; ".join(unmet(required, offered, self.kinds, self.units, spelled=self._spelled()))

    def unmet_at(self, queue_id: int) -> tuple[str, ...]:
        """Return the requirements (canonical names) that one queue does not meet."""
        required = canonical(self.stated)
        offered = self.supply.offered(queue_id, required)
        return tuple(name for name, value in required.items() if not meets(name, value, offered.get(name), self.kinds))

    def spelling(self, name: str) -> str:
        """Return a name (canonical) as the owner wrote it."""
        return self._spelled().get(name, name)

    def _spelled(self) -> Mapping[str, str]:
        return {canonical_name(name): name for name in self.stated}


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one condition."""

    requirement: Callable[[WaitingRequirements], str]
    #: Returns the offer; empty: nothing to mention.
    offers: Callable[[ResourceOffer], str] = lambda _offer: ""
    #: Verb for the offer of one queue, and of several; empty: the offer of several is not mentioned.
    for_one: str = "this queue offers"
    for_several: str = ""


def counted(number: int, thing: str) -> str:
    """Return a number and its noun, such as "1 queue" or "2 queues"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def causes_of_job(needs: WaitingRequirements) -> tuple[Cause, ...]:
    """Return why no queue can get the job; empty: some may."""
    owner, group = needs.task_queue.owner, needs.task_queue.group
    causes = []
    if not owner.is_active:
        causes.append(
            Cause(Ground.OWNER, f"its owner {owner} is suspended: no pilot gets the jobs of a suspended user")
        )
    if not needs.is_of_member:
        causes.append(
            Cause(
                Ground.OWNER,
                f"{owner} is no longer a member of {group}, and only jobs of members are matched: rejoin the group "
                f"(a manager of {group.vo} can add {owner}), or submit the job again in another group",
            )
        )
    if group.priority < LEAST_SHARE:
        causes.append(
            Cause(Ground.PRIORITY, f"its group {group} has priority 0; a manager of {group.vo} can change that")
        )
    return tuple(causes)


def reason(name: str, needs: WaitingRequirements, offer: ResourceOffer, *, queue_id: int) -> str:
    """Return why the condition refuses the offer of one queue."""
    if name == "submit_pool" and needs.requirements is not None:
        lacking = needs.requirements.lacking(queue_id)
        return f"requires {needs.requirements.in_words()}; this queue " + (
            f"lacks: {lacking}" if lacking else "has changed, and counts from the next refresh of the submit pools on"
        )
    if name == "software":
        unpublished = [software for software in needs.task_queue.software if software in offer.lacking_software]
        return f"needs software {listed(unpublished)}, which this queue does not publish"
    words = WORDS[name]
    offered = words.offers(offer)
    return words.requirement(needs) + (f"; {words.for_one} {offered}" if offered else "")


def detail(name: str, needs: WaitingRequirements, offers: Iterable[ResourceOffer]) -> str:
    """Return the requirement of the condition and the offers of all queues."""
    words = WORDS[name]
    if name == "software":
        return words.requirement(needs) + _published(needs, offers)
    if not words.for_several:
        return words.requirement(needs)
    # Shorter ones first, so that numbers are in order.
    offered = sorted({text for offer in offers if (text := words.offers(offer))}, key=lambda text: (len(text), text))
    return words.requirement(needs) + (f"; {words.for_several} {listed(offered, last=' or ')}" if offered else "")


def _published(needs: WaitingRequirements, offers: Iterable[ResourceOffer]) -> str:
    """Return the software that only some queues publish; empty: none, so that all is looked for on the node."""
    lacking = frozenset[str]().union(*(offer.lacking_software for offer in offers))
    compared = [software for software in needs.task_queue.software if software in lacking]
    return f"; only some queues publish {listed(compared)}" if compared else ""


def throttled_in_words(offer: ResourceOffer) -> str:
    """Return why the throttle of the offer's site holds jobs back; empty: it does not."""
    if offer.throttled:
        return f"the throttle of {offer.site} is closed: {offer.throttled}"
    if not offer.refused:
        return ""
    # Not the expression itself: it may name other users.
    why = f": its expression is not TRUE for their {listed(offer.refused_by, last=' and ')}" if offer.refused_by else ""
    return f"the throttle of {offer.site} does not accept such jobs now{why}"


def _owner_group(needs: WaitingRequirements) -> str:
    owner, group = needs.task_queue.owner, needs.task_queue.group
    left = "" if needs.is_of_member else f", of which {owner} is no longer a member"
    return f"belongs to {owner} in the group {group}{left}" + (
        "" if owner.is_active else "; suspended users get no pilot"
    )


def _site(needs: WaitingRequirements) -> str:
    if needs.description["input_data"]:
        return _names("site", needs.task_queue.sites, verb="has all of its input data at")
    return _names("site", needs.task_queue.sites) or "requires no particular site"


def _cpu_time(needs: WaitingRequirements) -> str:
    required = f"requires {needs.description['cpu_time_s']} s of CPU time per core"
    segment_s = needs.task_queue.cpu_time_s
    return required if segment_s == needs.description["cpu_time_s"] else f"{required}, which counts as {segment_s} s"


def _amount(amount: Amount) -> Words:
    """Return the words of an amount; task queues may have rounded up the one that the job itself requires."""

    def requirement(needs: WaitingRequirements) -> str:
        own, counted_as = needs.description.get(amount.name), getattr(needs.task_queue, amount.name)
        if not amount.unit:
            return f"requires {counted(counted_as, amount.noun)}" if counted_as else f"requires no {amount.noun}"
        if counted_as == 0:
            return f"requires no particular {amount.noun}"
        words = f"requires {own} {amount.unit} of {amount.noun}"
        return words if own == counted_as else f"{words}, which counts as {counted_as} {amount.unit}"

    def offers(offer: ResourceOffer) -> str:
        offered = getattr(offer, amount.name)
        return "" if offered is None else f"{offered} {amount.unit}".rstrip()

    return Words(requirement, offers, for_several="queues offer")


def _container(needs: WaitingRequirements) -> str:
    return (
        f"runs in the container {shown(needs.description['container'])}"
        if needs.task_queue.container
        else "runs in no container"
    )


def _submit_pool(needs: WaitingRequirements) -> str:
    if needs.requirements is not None:
        held_back = needs.requirements.held_back()
        return f"requires {needs.requirements.in_words()}" + (f"; {held_back}" if held_back else "")
    return _names("submit pool", needs.task_queue.submit_pools) or "has no requirements"


def _names(kind: str, names: Sequence[str], *, verb: str = "requires") -> str:
    """Return the required names of a kind; empty: none."""
    return f"{verb} the {kind}{'s' if len(names) > 1 else ''} {listed(names)}" if names else ""


WORDS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "owner_group": Words(_owner_group),
        "setup": Words(
            lambda needs: f"requires the setup {needs.task_queue.setup}",
            lambda offer: offer.setup,
            # A pilot may be started anywhere with another setup of the VO.
            for_one="the pilots that directors send here have",
            for_several="the pilots that directors send have",
        ),
        "cpu_time": Words(_cpu_time, lambda offer: f"{offer.cpu_time_s} s", for_several="queues offer"),
        "pilot_type": Words(
            lambda needs: _names("pilot type", needs.task_queue.pilot_types) or "runs in any pilot",
            lambda offer: f"{offer.pilot_type} pilots",
            for_one="this queue accepts",
        ),
        "site": Words(
            _site,
            lambda offer: offer.site or "",
            for_one="this queue is at",
        ),
        "banned_site": Words(
            lambda needs: _names("site", needs.task_queue.banned_sites, verb="bans") or "bans no site",
            lambda offer: offer.site or "",
            for_one="this queue is at",
        ),
        "ce": Words(
            lambda needs: _names("computing element", needs.task_queue.grid_ces) or "runs at any computing element",
            lambda offer: offer.ce or "",
            for_one="this queue belongs to",
        ),
        "platform": Words(
            lambda needs: _names("platform", needs.task_queue.platforms) or "runs on any platform",
            lambda offer: "" if offer.platforms is None else listed(offer.platforms),
            for_one="this queue runs",
            for_several="queues run",
        ),
        "submit_pool": Words(_submit_pool, lambda _offer: "does not provide that", for_one="this queue"),
        "software": Words(
            lambda needs: (
                f"needs software {listed(needs.task_queue.software)}"
                if needs.task_queue.software
                else "needs no software that queues publish"
            )
        ),
        "tags": Words(
            lambda needs: _names("tag", needs.task_queue.tags) or "requires no tag",
            lambda offer: listed(offer.tags) or "none",
            for_several="queues offer",
        ),
        "required_tags": Words(
            lambda needs: _names("tag", needs.task_queue.tags) or "requires no tag",
            lambda offer: listed(offer.required_tags),
            for_one="this queue accepts only jobs that require",
            for_several="some queues accept only jobs that require",
        ),
        "job_type": Words(
            lambda needs: f"is of the type {needs.task_queue.job_type}",
            lambda offer: listed(offer.job_types),
            for_one="this queue accepts only",
            for_several="some queues accept only",
        ),
        **{amount.condition: _amount(amount) for amount in AMOUNTS},
        "container": Words(_container, lambda offer: "" if offer.container else "runs none", for_one="this queue"),
        "throttle": Words(
            lambda _needs: "may be held back by throttles of sites",
            throttled_in_words,
            for_one="",
            for_several="at present,",
        ),
        "limit": Words(
            lambda _needs: "may be held back by limits",
            lambda offer: "; ".join(scope.words for scope in offer.full_limits),
            for_one="",
            for_several="at present,",
        ),
    }
)
