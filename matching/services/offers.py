"""Offers of pilots, resolved against the configuration."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from django.conf import settings

from pilots.models import Pilot
from pilots.services.registration import refuse_type
from resources.domain.enums import PilotType
from resources.models import ComputingElement, Queue, Site
from resources.queries.places import ResourcePlace, resolve_place
from resources.queries.possible_queues import PossiblePlaces, possible_places
from taskqueues.domain.offer import NO_SETUP, ResourceOffer, SlotBound, exceeded_by, smallest
from taskqueues.queries import limits_by_place
from taskqueues.services.offers import OfferedSlot, resolve
from wms.accounts.models import VO, Group, Membership
from wms.kernel.errors import ForbiddenError, RejectedError
from wms.kernel.fast.statements import query_prepared
from wms.kernel.memo import CachedLookups, RecentlyUsed
from wms.kernel.names import did_you_mean, listed
from wms.wire.amounts import divided_amounts_of

#: No user has this primary key.
NOBODY = 0
#: In an offer: this condition is not compared.
ANY = "ANY"
#: Pilots whose bindings are read together with that of one pilot, before and after it.
NEIGHBOURS = 50
#: Of a core, relative to the reference core; a node that reports more is not believed.
MAX_SPEED: Final = 100.0
#: Bindings kept in memory, so that 100,000 idle pilots find theirs again.
MAX_BONDS: Final = 200_000
#: Seconds without use after which one is dropped: an idle pilot asks again within LONGEST_S of ``retry_after``.
BONDS_UNUSED_S: Final = 600.0


class NotYourQueueError(ForbiddenError):
    """The offer of a pilot names another place, or VO, than that of its registration."""

    code = "not_your_queue"


class BadOfferError(RejectedError):
    """The offer contradicts itself, or names something that does not exist."""

    code = "bad_offer"

    @classmethod
    def of_field(cls, field: str, sentence: str) -> "BadOfferError":
        """Return the error with *sentence* for *field*."""
        return cls(sentence, errors={field: [sentence]})


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRequest(OfferedSlot):
    """An offer as received; None: left out, with the meaning that docs/rest.md (Offer) gives."""

    vo: str | None = None
    queue: str | None = None


class PilotBinding(NamedTuple):
    """Primary keys of the VO, group, owner, queue and site of a pilot, and its setup; they never change."""

    vo_id: int
    #: None: a generic pilot.
    group_id: int | None
    owner_id: int | None
    #: None: made by hand, not for one queue.
    queue_id: int | None
    #: Site of a pilot made by hand; None: any site that serves its VO.
    site_id: int | None = None
    ce_id: int | None = None
    #: Empty: not chosen for the pilot itself.
    setup: str = ""


_BINDINGS: Final[RecentlyUsed[int, PilotBinding]] = RecentlyUsed(most=MAX_BONDS, unused_s=BONDS_UNUSED_S)
_SPEED: Final = (
    "SELECT (node -> 'speed')::float8 FROM pilots_pilot WHERE id = %s AND jsonb_typeof(node -> 'speed') = 'number'"
)
_BONDS_AROUND: Final = (
    "SELECT id, vo_id, group_id, owner_id, queue_id, site_id, ce_id, setup FROM pilots_pilot WHERE id BETWEEN %s AND %s"
)


def binding_of(pilot_id: int) -> PilotBinding:
    """Return the binding of the pilot.

    Raises:
        Pilot.DoesNotExist: there is no such pilot.
    """
    binding = _BINDINGS.get(pilot_id)
    if binding is None:
        # Pilots that were submitted together request together: one statement for all of them.
        rows = query_prepared(_BONDS_AROUND, pilot_id - NEIGHBOURS, pilot_id + NEIGHBOURS)
        distinct: dict[PilotBinding, PilotBinding] = {}  # pilots of a queue share one: a third of the memory
        for pk, *values in rows:
            of_this = PilotBinding(*values)
            _BINDINGS.keep(pk, distinct.setdefault(of_this, of_this))
        binding = _BINDINGS.get(pilot_id)
    if binding is None:
        raise Pilot.DoesNotExist
    return binding


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPlace:
    """The place of a pilot: the rows that are known and, if its queue is not, all places where it may be (ADR 27)."""

    #: The rows that are known.
    place: ResourcePlace
    #: Places where the pilot may be if its queue is unknown.
    possible: PossiblePlaces | None = None
    #: The slot of its queue, or the smallest slot of the places where it may be.
    slot: SlotBound


def of_pilot(
    request: OfferRequest,
    binding: PilotBinding,
    *,
    now: datetime,
    lookups: CachedLookups,
    some_name_software: bool = True,
) -> tuple[ResourceOffer, PilotPlace]:
    """Return the offer of a pilot and its place.

    Unknown parts of the place can only narrow the offer (ADR 27).

    Args:
        request: the offer as received.
        binding: of the pilot.
        now: time for which bans are evaluated.
        lookups: memoised lookups of the configuration.
        some_name_software: as for ``taskqueues.services.offers.resolve``.

    Raises:
        NotYourQueueError: it names another place, VO or setup than its own.
        PilotTypeRefusedError: it names a computing element that does not accept such pilots.
        BadOfferError, UnknownPlaceError: it names something that does not exist, or contradicts itself.
    """
    vo = lookups.get(vo_of, binding.vo_id)
    if request.vo is not None and request.vo != vo.name:
        raise NotYourQueueError(f"This pilot serves {vo}; leave vo out, or register a pilot for {request.vo}.")
    if binding.setup and request.setup not in {None, binding.setup}:
        raise NotYourQueueError(f"This pilot has the setup {binding.setup}; leave setup out of the offer.")
    where = place_of(request, binding, vo=vo, lookups=lookups)
    offer = offer_at(
        request,
        # A node that reports no platform has only those configured for its queue.
        platforms=request.platforms or (),
        vo=vo,
        place=where.place,
        now=now,
        lookups=lookups,
        possible=where.possible,
        own_setup=binding.setup,
        some_name_software=some_name_software,
    )
    return _narrowed(within_slot(offer, where.slot), binding, where, lookups=lookups), where


def _narrowed(
    offer: ResourceOffer, binding: PilotBinding, where: PilotPlace, *, lookups: CachedLookups
) -> ResourceOffer:
    """Return the offer for the jobs that the pilot may run wherever it may be."""
    offer = _with_elsewhere_closed(offer, where, lookups=lookups)
    if binding.queue_id is None:
        offer = _with_type_refused(offer, where, binding)
    if binding.group_id is not None:
        offer = replace(offer, group_id=binding.group_id, owner_id=_owner_of(binding, lookups=lookups))
    return offer


def within_slot(offer: ResourceOffer, bound: SlotBound) -> ResourceOffer:
    """Return the offer, with no amount above the bound."""
    beyond = exceeded_by(offer, bound)
    return replace(offer, **beyond) if beyond else offer


def with_reported_platform(request: OfferRequest, *, pilot_id: int) -> OfferRequest:
    """Return the offer with the platform reported by the pilot's node, if the offer itself has none."""
    if request.platforms:
        return request
    # For agents that leave the platform out of their offers.
    rows = query_prepared("SELECT node ->> 'platform' FROM pilots_pilot WHERE id = %s", pilot_id)
    reported = [platform for (platform,) in rows if platform]
    return replace(request, platforms=tuple(reported)) if reported else request


def with_own_speed(offer: ResourceOffer, *, pilot_id: int) -> ResourceOffer:
    """Return the offer whose CPU time until a downtime is that of the pilot's node, as far as it measured its speed."""
    if offer.downtime is None:
        return offer
    measured = [speed for (speed,) in query_prepared(_SPEED, pilot_id) if 0 < speed <= MAX_SPEED]
    if not measured:
        return offer
    cpu_time_s = int(offer.downtime.wall_time_s * measured[0])
    return replace(offer, downtime=replace(offer.downtime, cpu_time_s=cpu_time_s))


def place_of(request: OfferRequest, binding: PilotBinding, *, vo: VO, lookups: CachedLookups) -> PilotPlace:
    """Return the place of a pilot: that of its binding, narrowed by the names in the offer.

    Raises:
        NotYourQueueError, UnknownPlaceError: see ``of_pilot``.
    """
    if binding.queue_id is not None:
        place = lookups.get(_place, binding.queue_id)
    elif binding.site_id is not None:
        place = lookups.get(_place_of_site, binding.site_id, binding.ce_id)
    else:
        place = ResourcePlace()
    for level, own in (("site", place.site), ("ce", place.ce), ("queue", place.queue)):
        named = getattr(request, level)
        # A pilot without a queue of its own may send ANY.
        if own is not None and named is not None and named != str(own) and (binding.queue_id or named != ANY):
            raise NotYourQueueError(f"This pilot is registered at {level} {own}; leave {level} out of the offer.")
    if place.queue is not None:
        return PilotPlace(place=place, slot=_slot_of(place.queue))
    site = name_in(request.site) if place.site is None else place.site.name
    ce = name_in(request.ce) if place.ce is None else place.ce.name
    queue = name_in(request.queue)
    place = lookups.get(_rows_of_names, vo, site, ce, queue)
    if place.queue is not None:
        queue_place = place.queue
        place = ResourcePlace(site=queue_place.ce.site, ce=queue_place.ce, queue=queue_place)
        return PilotPlace(place=place, slot=_slot_of(queue_place))
    if place.ce is not None:
        place = replace(place, site=place.ce.site)
    possible = lookups.get(possible_places, vo, site, ce, queue)
    slot = lookups.get(_smallest_slot, possible)
    return PilotPlace(place=place, possible=possible, slot=slot)


def _slot_of(queue: Queue) -> SlotBound:
    # An amount is 0 if the queue does not state it.
    return {name: most for name, most in divided_amounts_of(queue).items() if most}


def _smallest_slot(possible: PossiblePlaces) -> SlotBound:
    if not possible.queues:
        return {"processors": settings.WMS_MAX_PILOT_PROCESSORS}
    return smallest(map(_slot_of, possible.queues))


def _with_elsewhere_closed(offer: ResourceOffer, where: PilotPlace, *, lookups: CachedLookups) -> ResourceOffer:
    """Return the offer without jobs that a throttle or limit of a place where the pilot may be could refuse."""
    possible = where.possible
    if possible is None:
        return offer
    site_id, ce_id, _ = where.place.ids
    limits = tuple(
        scope
        for (at_site, at_ce), scopes in lookups.get(limits_by_place).items()
        if not (at_site in {None, site_id} and at_ce in {None, ce_id})
        and possible.include(site_id=at_site, ce_id=at_ce)
        for scope in scopes
    )
    throttled = ", ".join(possible.throttled_sites) if where.place.site is None else ""
    return replace(offer, throttled=throttled, full_limits=limits)


def _with_type_refused(offer: ResourceOffer, where: PilotPlace, binding: PilotBinding) -> ResourceOffer:
    """Return the offer, closed if the pilot may be at a computing element that does not accept its type (PIL §3.1).

    Raises:
        PilotTypeRefusedError: it is at such a computing element.
    """
    pilot_type = PilotType.GENERIC if binding.group_id is None else PilotType.PRIVATE
    if where.place.ce is not None:
        refuse_type(where.place.ce, pilot_type)
    elif where.possible is not None and where.possible.why_refused(pilot_type):
        return replace(offer, accepting=False)
    return offer


def why_narrowed(where: PilotPlace, offer: ResourceOffer, *, now: datetime) -> str:
    """Return in one sentence how an offer is narrowed because the queue is unknown; empty: the queue is known."""
    possible = where.possible
    if possible is None:
        return ""
    closed = possible.why_closed(now=now) or possible.why_refused(offer.pilot_type)
    if closed:
        why = f"{closed}, and the pilot may be there: it gets no job"
    elif offer.setup == NO_SETUP:
        why = "pilots of the queues at which it may be have different setups: it gets no job unless it names its setup"
    elif offer.throttled:
        why = f"sites where the pilot may be are throttled ({listed(possible.throttled_sites)}): it gets no job"
    else:
        why = "the pilot gets only jobs that fit each queue at which it may be"
    return f"The queue of this pilot is not known, and {why}. Name site, ce and queue in the offer."


def why_beyond_slot(request: OfferRequest, queue_id: int, *, lookups: CachedLookups) -> str:
    """Return in one sentence which amounts of the offer exceed a slot of the queue; empty: none."""
    queue = lookups.get(_queue, queue_id)
    beyond = [f"{name} {most}" for name, most in exceeded_by(request, _slot_of(queue)).items()]
    if not beyond:
        return ""
    return (
        f"The offer exceeds a slot of queue {queue} ({listed(beyond)}); the pilot gets jobs for one slot only. "
        "If the slots are larger, correct the configuration of the queue."
    )


def _owner_of(binding: PilotBinding, *, lookups: CachedLookups) -> int | None:
    shares_jobs = lookups.get(_group, binding.group_id).shares_jobs
    if binding.owner_id is None:
        # A pilot of a whole group that has stopped sharing jobs serves nobody.
        return None if shares_jobs else NOBODY
    # Only members share: a user who left the group, or is suspended, gets no jobs of other members.
    return None if shares_jobs and lookups.get(_is_member, binding.owner_id, binding.group_id) else binding.owner_id


def vo_of(pk: int) -> VO:
    """Return the VO with this primary key."""
    return VO.objects.get(pk=pk)


def _group(pk: int) -> Group:
    return Group.objects.get(pk=pk)


def _is_member(user_id: int, group_id: int) -> bool:
    return Membership.objects.filter(user=user_id, group=group_id, user__is_active=True).exists()


def _place_of_site(site_id: int, ce_id: int | None) -> ResourcePlace:
    site = Site.objects.get(pk=site_id)
    ce = None if ce_id is None else ComputingElement.objects.select_related("site").get(pk=ce_id)
    return ResourcePlace(site=site, ce=ce)


def _queue(queue_id: int) -> Queue:
    return Queue.objects.select_related("ce__site").get(pk=queue_id)


def _place(queue_id: int) -> ResourcePlace:
    queue = _queue(queue_id)
    return ResourcePlace(site=queue.ce.site, ce=queue.ce, queue=queue)


def offer_at(
    request: OfferRequest,
    *,
    platforms: tuple[str, ...] | None,
    vo: VO,
    place: ResourcePlace,
    now: datetime,
    lookups: CachedLookups,
    possible: PossiblePlaces | None = None,
    own_setup: str = "",
    some_name_software: bool = True,
) -> ResourceOffer:
    """Return the offer at a place.

    Args:
        request: the offer as received.
        own_setup: chosen for the pilot itself; empty: none.
        platforms, vo, place, now, lookups, possible, some_name_software: as of ``taskqueues.services.offers.resolve``.

    Raises:
        BadOfferError: it contradicts itself, or names something that does not exist.
    """
    if missing := sorted(set(request.required_tags) - set(request.tags)):
        raise BadOfferError.of_field("required_tags", f"Required tags must also be in tags; add {', '.join(missing)}.")
    setup = request.setup
    if setup is None:
        setup = own_setup or _setup_at(place, possible, vo=vo, lookups=lookups)
    elif setup not in vo.setups:
        raise BadOfferError.of_field("setup", f'{vo} has no setup "{setup}".{did_you_mean(setup, vo.setups)}')
    slot = replace(request, setup=setup, site=name_in(request.site), ce=name_in(request.ce), platforms=platforms)
    return resolve(
        slot, vo=vo, place=place, now=now, lookups=lookups, possible=possible, some_name_software=some_name_software
    )


def _setup_at(place: ResourcePlace, possible: PossiblePlaces | None, *, vo: VO, lookups: CachedLookups) -> str:
    """Return the setup of pilots that do not choose their own: that of the place, else the default of the VO."""
    if place.queue is not None or possible is None:
        return place.setup_for(vo) or vo.setup
    return lookups.get(_setup_of_all, possible, vo)


def _setup_of_all(possible: PossiblePlaces, vo: VO) -> str:
    setups = possible.setups_for(vo)
    return next(iter(setups)) if len(setups) == 1 else NO_SETUP


def name_in(named: str | None) -> str | None:
    """Return a name in an offer; None: any."""
    return None if named == ANY else named


def _rows_of_names(vo: VO, site: str | None, ce: str | None, queue: str | None) -> ResourcePlace:
    return resolve_place(vo, site=site, ce=ce, queue=queue)
