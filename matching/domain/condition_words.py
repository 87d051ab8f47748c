"""The words of the conditions of a match: the requirement of a job, and the offer of a queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from matching.domain.findings import CLOSED, MIDDLEWARE, RequiredOf, WaitingRequirements
from resources.domain.requirements import requirements_in_words, unmet
from taskqueues.domain.offer import DowntimeAhead, ResourceOffer
from wms.jobs.domain.fields import shown
from wms.kernel.names import counted, listed
from wms.wire.amounts import AMOUNTS, Amount

#: {condition that is none of the match: why queues fail it}.
EXCLUDED_BY: Final[Mapping[str, str]] = {
    CLOSED: "banned or draining at present",
    MIDDLEWARE: "not of the middleware that the job names",
}


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one condition."""

    requirement: Callable[[WaitingRequirements], str]
    #: Returns the offer; empty: nothing to mention.
    offers: Callable[[ResourceOffer], str] = lambda _offer: ""
    #: Verb for the offer of one queue, and of several; empty: the offer of several is not mentioned.
    for_one: str = "this queue offers"
    for_several: str = ""


def reason(name: str, needs: WaitingRequirements, offer: ResourceOffer, *, queue_id: int) -> str:
    """Return why the condition refuses the offer of one queue."""
    if name == "submit_pool" and needs.resources is not None:
        lacking = _lacking(needs.resources, queue_id)
        return f"requires {resources_in_words(needs.resources)}; this queue " + (
            f"lacks: {lacking}" if lacking else "has changed, and counts from the next refresh of the submit pools on"
        )
    if name == "software":
        unpublished = [software for software in needs.definition.software if software in offer.lacking_software]
        return f"needs software {listed(unpublished)}, which this queue does not publish"
    words = WORDS[name]
    offered = words.offers(offer)
    return words.requirement(needs) + (f"; {words.for_one} {offered}" if offered else "")


def detail(name: str, needs: WaitingRequirements, offers: Iterable[ResourceOffer]) -> str:
    """Return the requirement of the condition and the offers of all queues."""
    words = WORDS[name]
    if name == "software":
        lacking = frozenset[str]().union(*(offer.lacking_software for offer in offers))
        compared = [software for software in needs.definition.software if software in lacking]
        return words.requirement(needs) + (f"; only some queues publish {listed(compared)}" if compared else "")
    if not words.for_several:
        return words.requirement(needs)
    # Shorter ones first, so that numbers are in order.
    offered = sorted({text for offer in offers if (text := words.offers(offer))}, key=lambda text: (len(text), text))
    return words.requirement(needs) + (f"; {words.for_several} {listed(offered, last=' or ')}" if offered else "")


def throttled_in_words(offer: ResourceOffer) -> str:
    """Return why the throttle of the offer's site holds jobs back; empty: it does not."""
    if offer.throttled:
        return f"the throttle of {offer.site} is closed: {offer.throttled}"
    if not offer.refused:
        return ""
    # Not the expression itself: it may name other users.
    why = f": its expression is not TRUE for their {listed(offer.refused_by, last=' and ')}" if offer.refused_by else ""
    return f"the throttle of {offer.site} does not accept such jobs now{why}"


def would_not_end_in_words(downtime: DowntimeAhead) -> str:
    """Return that a job would not end before a downtime."""
    return f"it would not end before {downtime.words}"


def resources_in_words(resources: RequiredOf) -> str:
    """Return requirements on resources in words, such as "Memory = 4000 MB"."""
    return requirements_in_words(resources.stated, units=resources.units)


def _lacking(resources: RequiredOf, queue_id: int) -> str:
    """Return what one queue lacks; empty: it meets all requirements."""
    required = resources.required
    offered = resources.supply.offered(queue_id, required)
    return "; ".join(unmet(required, offered, resources.kinds, resources.units, spelled=resources.spelled))


def _held_back(resources: RequiredOf) -> str:
    """Return which requirement excludes how many queues; empty: none does."""
    counts = resources.supply.held_back(resources.required).items()
    held = [f"{resources.spelled[name]} holds back {counted(number, 'queue')}" for name, number in counts if number]
    return " and ".join(filter(None, [", ".join(held[:-1]), *held[-1:]]))


def _owner_group(needs: WaitingRequirements) -> str:
    left = "" if needs.is_member else f", of which {needs.owner} is no longer a member"
    suspended = "" if needs.is_active else "; suspended users get no pilot"
    return f"belongs to {needs.owner} in the group {needs.group}{left}{suspended}"


def _site(needs: WaitingRequirements) -> str:
    if needs.description["input_data"]:
        return _names("site", needs.definition.sites, verb="has all of its input data at")
    return _names("site", needs.definition.sites) or "requires no particular site"


def _cpu_time(needs: WaitingRequirements) -> str:
    own_s, segment_s = needs.description["cpu_time_s"], needs.definition.cpu_time_s
    required = f"requires {own_s} s of CPU time per core"
    return required if segment_s == own_s else f"{required}, which counts as {segment_s} s"


def _amount(amount: Amount) -> Words:
    """Return the words of an amount; task queues may have rounded up the one that the job itself requires."""

    def requirement(needs: WaitingRequirements) -> str:
        own, counts_as = needs.description.get(amount.name), getattr(needs.definition, amount.name)
        if not amount.unit:
            return f"requires {counted(counts_as, amount.noun)}" if counts_as else f"requires no {amount.noun}"
        if counts_as == 0:
            return f"requires no particular {amount.noun}"
        words = f"requires {own} {amount.unit} of {amount.noun}"
        return words if own == counts_as else f"{words}, which counts as {counts_as} {amount.unit}"

    def offers(offer: ResourceOffer) -> str:
        offered = getattr(offer, amount.name)
        return "" if offered is None else f"{offered} {amount.unit}".rstrip()

    return Words(requirement, offers, for_several="queues offer")


def _container(needs: WaitingRequirements) -> str:
    if not needs.definition.container:
        return "runs in no container"
    return f"runs in the container {shown(needs.description['container'])}"


def _submit_pool(needs: WaitingRequirements) -> str:
    if needs.resources is None:
        return _names("submit pool", needs.definition.submit_pools) or "has no requirements"
    held_back = _held_back(needs.resources)
    return f"requires {resources_in_words(needs.resources)}" + (f"; {held_back}" if held_back else "")


def _names(kind: str, names: Sequence[str], *, verb: str = "requires") -> str:
    """Return the required names of a kind; empty: none."""
    return f"{verb} the {kind}{'s' if len(names) > 1 else ''} {listed(names)}" if names else ""


def _required(kind: str, field: str, otherwise: str, *, verb: str = "requires") -> Callable[[WaitingRequirements], str]:
    """Return the words of a requirement that is a list of names; *otherwise*: those of an empty one."""
    return lambda needs: _names(kind, getattr(needs.definition, field), verb=verb) or otherwise


WORDS: Final[Mapping[str, Words]] = MappingProxyType(
    {
        "owner_group": Words(_owner_group),
        "setup": Words(
            lambda needs: f"requires the setup {needs.definition.setup}",
            lambda offer: offer.setup or "",
            # A pilot may be started anywhere with another setup of the VO.
            for_one="the pilots that directors send here have",
            for_several="the pilots that directors send to some queues have",
        ),
        "cpu_time": Words(_cpu_time, lambda offer: f"{offer.cpu_time_s} s", for_several="queues offer"),
        "pilot_type": Words(
            _required("pilot type", "pilot_types", "runs in any pilot"),
            lambda offer: f"{offer.pilot_type} pilots",
            for_one="this queue accepts",
        ),
        "site": Words(_site, lambda offer: offer.site or "", for_one="this queue is at"),
        "banned_site": Words(
            _required("site", "banned_sites", "bans no site", verb="bans"),
            lambda offer: offer.site or "",
            for_one="this queue is at",
        ),
        "ce": Words(
            _required("computing element", "grid_ces", "runs at any computing element"),
            lambda offer: offer.ce or "",
            for_one="this queue belongs to",
        ),
        "platform": Words(
            _required("platform", "platforms", "runs on any platform"),
            lambda offer: "" if offer.platforms is None else listed(offer.platforms),
            for_one="this queue runs",
            for_several="queues run",
        ),
        "submit_pool": Words(_submit_pool, lambda _offer: "does not provide that", for_one="this queue"),
        "software": Words(
            lambda needs: (
                f"needs software {listed(needs.definition.software)}"
                if needs.definition.software
                else "needs no software that queues publish"
            )
        ),
        "tags": Words(
            _required("tag", "tags", "requires no tag"),
            lambda offer: listed(offer.tags) or "none",
            for_several="queues offer",
        ),
        "required_tags": Words(
            _required("tag", "tags", "requires no tag"),
            lambda offer: listed(offer.required_tags),
            for_one="this queue accepts only jobs that require",
            for_several="some queues accept only jobs that require",
        ),
        "job_type": Words(
            lambda needs: f"is of the type {needs.definition.job_type}",
            lambda offer: listed(offer.job_types),
            for_one="this queue accepts only",
            for_several="some queues accept only",
        ),
        **{amount.condition: _amount(amount) for amount in AMOUNTS},
        "container": Words(_container, lambda offer: "" if offer.container else "runs none", for_one="this queue"),
        "downtime": Words(
            lambda _needs: "must end before downtimes",
            lambda offer: "" if offer.downtime is None else would_not_end_in_words(offer.downtime),
            for_one="",
            for_several="at present,",
        ),
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
