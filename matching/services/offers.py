"""What is offered, resolved against the configuration: by a pilot that wants jobs, or by a person who asks what if."""

from dataclasses import dataclass, replace
from datetime import datetime

from pilots.models import Pilot
from resources.queries import Place, resolve_place
from taskqueues.domain.offer import ResourceOffer
from taskqueues.services.offers import Slot, resolve
from wms.accounts.models import VO, Group, User
from wms.kernel.errors import ForbiddenError, RejectedError
from wms.kernel.names import did_you_mean

#: No user has this primary key.
NOBODY = 0
#: On the wire: this is not compared.
ANY = "ANY"


class NotYourQueueError(ForbiddenError):
    """A registered pilot offers another place than the one that it was registered for."""

    code = "not_your_queue"


class BadOfferError(RejectedError):
    """The offer contradicts itself, or names what does not exist."""

    code = "bad_offer"

    @classmethod
    def of_field(cls, field: str, sentence: str) -> "BadOfferError":
        """Return the error that *sentence* says of *field*."""
        return cls(sentence, errors={field: [sentence]})


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRequest:
    """An offer as it came in; None is left out (API.md says what that means for each)."""

    vo: str | None = None
    setup: str | None = None
    site: str | None = None
    ce: str | None = None
    queue: str | None = None
    platforms: tuple[str, ...] | None = None
    cpu_time_s: int
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    processors: int = 1
    memory_mb: int = 0
    job_types: tuple[str, ...] | None = None
    submit_pools: tuple[str, ...] | None = None


def of_pilot(request: OfferRequest, *, pilot: Pilot, now: datetime) -> tuple[ResourceOffer, Place]:
    """Return the offer of a pilot and where it runs.

    Raises:
        NotYourQueueError: it names another place, or another VO, than its own.
        BadOfferError, UnknownPlaceError: it names what does not exist, or contradicts itself.
    """
    if request.vo is not None and request.vo != pilot.vo.name:
        raise NotYourQueueError(f"This pilot serves {pilot.vo}; leave vo out, or register a pilot for {request.vo}.")
    if pilot.queue is None:
        place = _named_place(pilot.vo, request)
    else:
        place = Place(site=pilot.queue.ce.site, ce=pilot.queue.ce, queue=pilot.queue)
        for level, own in (("site", place.site), ("ce", place.ce), ("queue", place.queue)):
            named = getattr(request, level)
            if named is not None and named != str(own):
                raise NotYourQueueError(f"This pilot is registered at {level} {own}; leave {level} out of the offer.")
    # What a node does not say about its platforms, it does not have.
    request = replace(request, platforms=request.platforms or ())
    offer = _offer(request, vo=pilot.vo, place=place, now=now)
    return replace(offer, group_id=pilot.group_id, owner_id=_owner_of(pilot)), place


def _owner_of(pilot: Pilot) -> int | None:
    if pilot.group is None or pilot.group.shares_jobs:
        return None
    # A pilot of a whole group that has stopped sharing jobs since is nobody's.
    return NOBODY if pilot.owner_id is None else pilot.owner_id


def of_preview(
    request: OfferRequest, *, owner: str | None, group: str | None, actor: User, now: datetime
) -> ResourceOffer:
    """Return the offer that a VO manager or an operator imagines.

    Args:
        owner, group: of an imagined private pilot; None, None: a generic one.

    Raises:
        BadOfferError, UnknownPlaceError: it names what does not exist (for the actor), or contradicts itself.
    """
    vo = _managed_vo(actor, request.vo)
    offer = _offer(request, vo=vo, place=_named_place(vo, request), now=now)
    if group is None:
        if owner is not None:
            raise BadOfferError.of_field(
                "owner", "An owner makes a private pilot only together with a group; name one."
            )
        return offer
    row = Group.objects.filter(vo=vo, name=group).first()
    if row is None:
        groups = Group.objects.filter(vo=vo).values_list("name", flat=True)
        raise BadOfferError.of_field("group", f'{vo} has no group "{group}".{did_you_mean(group, groups)}')
    owner_id = _owner_id(row, owner)
    return replace(offer, group_id=row.pk, owner_id=None if row.shares_jobs else owner_id)


def _offer(request: OfferRequest, *, vo: VO, place: Place, now: datetime) -> ResourceOffer:
    if missing := sorted(set(request.required_tags) - set(request.tags)):
        raise BadOfferError.of_field("required_tags", f"Required but not among the tags: {', '.join(missing)}.")
    setup = vo.setup if request.setup is None else request.setup
    if setup not in vo.setups:
        raise BadOfferError.of_field("setup", f'{vo} has no setup "{setup}".{did_you_mean(setup, vo.setups)}')
    slot = Slot(
        setup=setup,
        site=_name(request.site),
        ce=_name(request.ce),
        platforms=request.platforms,
        cpu_time_s=request.cpu_time_s,
        tags=request.tags,
        required_tags=request.required_tags,
        processors=request.processors,
        memory_mb=request.memory_mb,
        job_types=request.job_types,
        submit_pools=request.submit_pools,
    )
    return resolve(slot, vo=vo, place=place, now=now)


def _name(named: str | None) -> str | None:
    return None if named == ANY else named


def _named_place(vo: VO, request: OfferRequest) -> Place:
    return resolve_place(vo, site=_name(request.site), ce=_name(request.ce), queue=_name(request.queue))


def _managed_vo(actor: User, name: str | None) -> VO:
    managed = VO.objects.managed_by(actor).order_by("name")
    if name is None:
        choices = list(managed[:2])
        if len(choices) == 1:
            return choices[0]
        raise BadOfferError.of_field("vo", "You manage several VOs; say for which one the offer is.")
    vo = managed.filter(name=name).first()
    if vo is None:
        hint = did_you_mean(name, managed.values_list("name", flat=True))
        raise BadOfferError.of_field("vo", f'You manage no VO "{name}".{hint}')
    return vo


def _owner_id(group: Group, owner: str | None) -> int | None:
    if owner is None:
        if group.shares_jobs:
            return None
        raise BadOfferError.of_field("owner", f"{group} does not share jobs; say whose private pilot it is.")
    members = User.objects.filter(memberships__group=group)
    user = members.filter(username=owner).first()
    if user is None:
        hint = did_you_mean(owner, members.values_list("username", flat=True))
        raise BadOfferError.of_field("owner", f'{group} has no member "{owner}".{hint}')
    return user.pk
