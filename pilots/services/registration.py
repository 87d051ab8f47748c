"""Registration of pilots: of those that directors or sites started, and of pilots made by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.exclusions import refuse_black_hole
from pilots.services.reports import living_pilot
from pilots.services.secrets import use_secret
from pilots.services.tokens import issue_pilot_token
from resources.domain.enums import PilotType, ResourceState
from resources.models import ComputingElement, Queue, Site, SiteToken
from resources.queries.places import ResourcePlace, resolve_place
from resources.queries.visible_sites import vos_of_token
from resources.services.setups import refuse_unknown_setup
from resources.services.site_tokens import count_registration
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, Group, Membership, User
from wms.accounts.security_log import record
from wms.kernel.db import LockKey, lock
from wms.kernel.errors import ConflictError, ForbiddenError, RejectedError
from wms.kernel.life import LifeEvent, tell
from wms.kernel.names import did_you_mean

#: Registrations at a queue in a minute that are always accepted, however few pilots it may have.
_MOST_OF_A_MINUTE: Final = 60
_MINUTE: Final = timedelta(minutes=1)


class NotYourSiteError(ForbiddenError):
    """The site of the token is not the site of the pilot."""

    code = "not_your_site"


class SiteBannedError(ConflictError):
    """The site, its CE or its queue is banned; the pilot may register when the ban is over."""

    code = "site_banned"


class PilotTypeRefusedError(ForbiddenError):
    """The computing element does not accept pilots of this type (PIL §3.1)."""

    code = "pilot_type_refused"


class QueueFullError(ConflictError):
    """As many pilots live at the queue as its ``max_pilots``, or twice as many came within a minute."""

    code = "queue_full"


class NotYourPlaceError(ForbiddenError):
    """The pilot's VO or place differs from that for which the director's secret was issued."""

    code = "not_your_place"


class UnknownVOError(RejectedError):
    """No VO served by this server has this name."""

    code = "unknown_vo"


class ImpossiblePilotError(RejectedError):
    """The pilot to be made by hand is inconsistent, or names unknown groups or members."""

    code = "impossible_pilot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration request of a pilot that has just started."""

    vo: str
    site: str
    ce: str
    queue: str
    stamp: str = ""
    host_name: str = ""
    #: Chosen by the agent; empty: not.
    setup: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPilot:
    """A pilot and its first token, which is shown only once."""

    pilot: Pilot
    token: str = field(repr=False)
    expires_at: datetime


@transaction.atomic(durable=True)
def register(request: Registration, *, site_id: int, token_id: int, now: datetime) -> RegisteredPilot:
    """Register a generic pilot with the registration token of its site; its status is Running at once.

    Args:
        request: the pilot's own data.
        site_id: the site of the token.
        token_id: the token.
        now: the time of the request.

    Raises:
        NotYourSiteError: it names another site than that of the token.
        UnknownVOError: there is no such VO, or the site does not serve it, or did not when the token was made; the
            error does not say which.
        UnknownPlaceError: the CE or queue does not exist.
        UnknownSetupError: the VO does not have the setup that it names.
        PilotTypeRefusedError: the CE accepts no generic pilots.
        SiteBannedError: site, CE or queue is banned.
        BlackHoleError: its host is a black hole now.
        QueueFullError: ``max_pilots`` of the queue is reached.
    """
    token = SiteToken.objects.select_related("site").get(pk=token_id, site=site_id)
    site = token.site
    if request.site != site.name:
        sentence = f'The token is of site {site.name} and registers no pilots of "{request.site[:128]}".'
        raise NotYourSiteError(sentence, errors={"site": [sentence]})
    vo, queue = _vo_and_queue(request, token=token)
    refuse_unknown_setup(request.setup, vos=[vo])
    _refuse_banned([queue.ce.site, queue.ce, queue], now=now)
    refuse_black_hole(site_id=site.pk, host_name=request.host_name, now=now)
    refuse_type(queue.ce, PilotType.GENERIC)
    _refuse_beyond_limit(queue, now=now)
    count_registration(token_id=token_id, now=now)
    pilot = Pilot.objects.create(
        vo=vo,
        queue=queue,
        setup=request.setup or vo.setup_among(token.setup) or "",
        stamp=request.stamp,
        host_name=request.host_name,
        status=PilotStatus.RUNNING,
        submitted_at=now,
        started_at=now,
        last_seen_at=now,
    )
    _tell_of_start(pilot, request)
    return _with_token(pilot, now=now)


def _vo_and_queue(request: Registration, *, token: SiteToken) -> tuple[VO, Queue]:
    # NB: a site's token must not reveal even the names of other VOs.
    vo = _vo(request.vo, among=vos_of_token(token))
    queue = resolve_place(vo, site=request.site, ce=request.ce, queue=request.queue).queue
    if queue is None:  # names are unique within their level, so the three names give one queue
        raise AssertionError("a site, a CE and a queue by name are one queue")
    return vo, queue


def _refuse_beyond_limit(queue: Queue, *, now: datetime) -> None:
    """Refuse a pilot beyond the queue's ``max_pilots``; all living pilots there count, whoever sent them.

    So are pilots that come faster than two generations a minute: each leaves a row when it ends.
    """
    lock(LockKey.REGISTER_PILOTS, of=queue.pk)
    living = Pilot.objects.filter(queue=queue, ended_at__isnull=True).count()
    if living >= queue.max_pilots:
        sentence = f"Queue {queue.name} has {living} pilots and may have {queue.max_pilots} (max_pilots)"
        raise QueueFullError(f"{sentence}; register again when one of them has ended.")
    most = max(2 * queue.max_pilots, _MOST_OF_A_MINUTE)
    # Uses index: pilot_latest_at_queue
    latest = Pilot.objects.filter(queue=queue).order_by("-pk").values_list("submitted_at", flat=True)
    if any(made_at > now - _MINUTE for made_at in latest[most - 1 : most]):
        raise QueueFullError(f"Queue {queue.name} got {most} pilots within a minute; register again in a minute.")


@transaction.atomic(durable=True)
def register_sent(request: Registration, *, pilot_id: int, now: datetime) -> RegisteredPilot:
    """Register a pilot that a director sent, in exchange for its secret; its status is Running at once.

    A stalled pilot may still register.

    Args:
        request: the pilot's own data.
        pilot_id: the pilot of the secret.
        now: the time of the request.

    Raises:
        PilotRevokedError, PilotEndedError, SecretUsedError: it is too late, or the secret was used already.
        NotYourPlaceError: it names another VO, place or setup than those of the secret.
        SiteBannedError: site, CE or queue is banned; the secret stays valid.
        BlackHoleError: its host is a black hole now.
    """
    # Locked: the status agent may be ending it at the same moment.
    Pilot.objects.select_for_update(of=("self",)).filter(pk=pilot_id).first()
    pilot = living_pilot(pilot_id)
    use_secret(pilot_id, now=now)
    _refuse_other_place(pilot, request)
    if pilot.queue is not None:
        _refuse_banned([pilot.queue.ce.site, pilot.queue.ce, pilot.queue], now=now)
        refuse_black_hole(site_id=pilot.queue.ce.site_id, host_name=request.host_name, now=now)
    pilot.status, pilot.status_reason = PilotStatus.RUNNING, ""
    pilot.host_name, pilot.started_at, pilot.last_seen_at = request.host_name, now, now
    pilot.save(update_fields=["status", "status_reason", "host_name", "started_at", "last_seen_at"])
    _tell_of_start(pilot, request)
    return _with_token(pilot, now=now)


def _tell_of_start(pilot: Pilot, request: Registration) -> None:
    tell(
        LifeEvent.PILOT_STARTED,
        pilot=pilot.pk,
        vo=pilot.vo.name,
        site=request.site,
        ce=request.ce,
        queue=request.queue,
        host=request.host_name,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPlace:
    """The place that a pilot is made for, by names; None: any within the outer level, or anywhere."""

    site: str | None = None
    ce: str | None = None
    queue: str | None = None


#: Any site that serves the VO.
ANYWHERE = WantedPlace()


@transaction.atomic(durable=True)
def make_by_hand(
    *,
    vo_name: str,
    owner_name: str | None,
    group_name: str | None,
    lifetime: timedelta,
    now: datetime,
    at: WantedPlace = ANYWHERE,
    setup: str = "",
) -> RegisteredPilot:
    """Make a pilot without a director; it is private when a group is named.

    Its token fixes its place and, unless it is empty, its *setup*: its offers may name no other. A pilot for a queue
    counts as started with its first request for a job.

    Raises:
        UnknownVOError, ImpossiblePilotError: the VO, group or owner does not exist, or they do not belong together; a
            CE is named without its site, or a queue without its CE.
        UnknownPlaceError: no such site serves the VO, or it has no such CE or queue.
        UnknownSetupError: the VO does not have the setup.
        PilotTypeRefusedError: the CE does not accept such pilots.
        SiteBannedError: the place is banned.
    """
    vo = _vo(vo_name, among=VO.objects.all())
    refuse_unknown_setup(setup, vos=[vo])
    group, owner = _group_and_owner(vo, group_name=group_name, owner_name=owner_name)
    place = _open_place(at, vo=vo, pilot_type=PilotType.GENERIC if group is None else PilotType.PRIVATE, now=now)
    pilot = _created(vo, group, owner, place=place, setup=setup, now=now)
    issued = _with_token(pilot, now=now, lifetime=lifetime)
    record(
        SecurityEventKind.TOKEN_ISSUED,
        target=f"pilot {pilot.pk}",
        vo=vo.name,
        group=group_name,
        owner=owner_name,
        site=at.site,
        ce=at.ce,
        queue=at.queue,
        setup=setup or None,
        expires_at=issued.expires_at,
    )
    return issued


def _created(
    vo: VO, group: Group | None, owner: User | None, *, place: ResourcePlace, setup: str, now: datetime
) -> Pilot:
    started_at = now if place.queue is None else None
    return Pilot.objects.create(
        vo=vo,
        group=group,
        owner=owner,
        queue=place.queue,
        site=place.site if place.queue is None else None,
        ce=place.ce if place.queue is None else None,
        setup=setup,
        status=PilotStatus.RUNNING if started_at else PilotStatus.WAITING,
        submitted_at=now,
        started_at=started_at,
        last_seen_at=started_at,
    )


def _open_place(at: WantedPlace, *, vo: VO, pilot_type: PilotType, now: datetime) -> ResourcePlace:
    if (at.ce is not None and at.site is None) or (at.queue is not None and at.ce is None):
        raise ImpossiblePilotError("Name the site of the computing element, and the computing element of the queue.")
    place = resolve_place(vo, site=at.site, ce=at.ce, queue=at.queue)
    if place.ce is not None:
        refuse_type(place.ce, pilot_type)
    _refuse_banned([level for level in (place.site, place.ce, place.queue) if level is not None], now=now)
    return place


def _refuse_other_place(pilot: Pilot, request: Registration) -> None:
    queue = pilot.queue
    own = {"vo": pilot.vo.name}
    if queue is not None:  # else the queue was deleted meanwhile
        own |= {"site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}
    if pilot.setup and request.setup:
        own["setup"] = pilot.setup
    errors = {
        field: [f"This secret belongs to a pilot of {name}."]
        for field, name in own.items()
        if getattr(request, field) != name
    }
    if errors:
        raise NotYourPlaceError("This secret belongs to a pilot of another place.", errors=errors)


def _with_token(pilot: Pilot, *, now: datetime, lifetime: timedelta | None = None) -> RegisteredPilot:
    issued = issue_pilot_token(pilot, now=now, lifetime=lifetime)
    return RegisteredPilot(pilot=pilot, token=issued.token, expires_at=issued.expires_at)


def _vo(name: str, *, among: QuerySet[VO]) -> VO:
    vo = among.filter(name=name).first()
    if vo is None:
        hint = did_you_mean(name, among.order_by("name").values_list("name", flat=True))
        sentence = f'There is no VO "{name[:64]}" here.{hint}'
        raise UnknownVOError(sentence, errors={"vo": [sentence]})
    return vo


def refuse_type(ce: ComputingElement, pilot_type: PilotType) -> None:
    """Refuse a pilot type that the computing element does not accept.

    Raises:
        PilotTypeRefusedError: it is not accepted.
    """
    if not ce.accepts(pilot_type):
        raise PilotTypeRefusedError(f"{ce.name} accepts {' and '.join(ce.pilot_types)} pilots only.")


def _refuse_banned(levels: Sequence[Site | ComputingElement | Queue], *, now: datetime) -> None:
    # A pilot may register at a drained place: it was sent before, gets no job, and ends normally.
    for level in levels:
        if level.state_at(now) is ResourceState.BANNED:
            reason = f": {level.state_reason}" if level.state_reason else ""
            until = f" until {level.state_until:%Y-%m-%d %H:%M %Z}" if level.state_until else ""
            raise SiteBannedError(f"{level.name} is banned{until}{reason}")


def _group_and_owner(
    vo: VO, *, group_name: str | None, owner_name: str | None
) -> tuple[Group, User | None] | tuple[None, None]:
    group = None if group_name is None else _group_of(vo, name=group_name)
    owner = None if owner_name is None else _member_of(group, name=owner_name)
    if group is None:
        return None, None
    if owner is None and not group.shares_jobs:
        raise ImpossiblePilotError(f"The members of {group} do not share jobs: name the owner of the pilot.")
    return group, owner


def _group_of(vo: VO, *, name: str) -> Group:
    groups = {group.name: group for group in vo.groups.order_by("name")}
    if name not in groups:
        hint = did_you_mean(name, groups) or f" It has: {', '.join(groups) or 'none'}."
        raise ImpossiblePilotError(f'VO {vo} has no group "{name}".{hint}')
    return groups[name]


def _member_of(group: Group | None, *, name: str) -> User:
    if group is None:
        raise ImpossiblePilotError("An owner requires a group; name the group too.")
    members = {
        membership.user.username: membership.user
        for membership in Membership.objects.filter(group=group).select_related("user").order_by("user__username")
    }
    if name not in members:
        raise ImpossiblePilotError(f'Group {group} has no member "{name}".{did_you_mean(name, members)}')
    return members[name]
