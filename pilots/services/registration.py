"""How a pilot gets its identity: registered by its director or by the site where it runs, or made by hand."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.exclusions import refuse_black_hole
from pilots.services.reports import living_pilot
from pilots.services.secrets import use_secret
from pilots.services.tokens import issue_pilot_token
from resources.domain.enums import PilotType, ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.queries.places import ResourcePlace, resolve_place
from resources.services.site_tokens import count_registration
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, Group, Membership, User
from wms.accounts.security_log import record
from wms.kernel.db import LockKey, lock
from wms.kernel.errors import ConflictError, ForbiddenError, RejectedError
from wms.kernel.names import did_you_mean

logger = logging.getLogger(__name__)


class NotYourSiteError(ForbiddenError):
    """A site's token registers pilots of that site only."""

    code = "not_your_site"


class SiteBannedError(ConflictError):
    """The site, its computing element or its queue is banned; the pilot may come again when the ban is over."""

    code = "site_banned"


class PilotTypeRefusedError(ForbiddenError):
    """The computing element does not accept pilots of this type (PIL §3.1)."""

    code = "pilot_type_refused"


class QueueFullError(ConflictError):
    """As many pilots live at the queue as it may have; one may come when another has ended."""

    code = "queue_full"


class NotYourPlaceError(ForbiddenError):
    """A director's secret registers one pilot, for the VO and at the queue that it was sent for."""

    code = "not_your_place"


class UnknownVOError(RejectedError):
    """No VO that is served here has this name."""

    code = "unknown_vo"


class ImpossiblePilotError(RejectedError):
    """There is no such pilot as the one that is to be made by hand."""

    code = "impossible_pilot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a pilot that has just started says of itself."""

    vo: str
    site: str
    ce: str
    queue: str
    stamp: str = ""
    host_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPilot:
    """A pilot and its first token, which is shown this once."""

    pilot: Pilot
    token: str = field(repr=False)
    expires_at: datetime


@transaction.atomic(durable=True)
def register(wanted: Registration, *, site_id: int, token_id: int, now: datetime) -> RegisteredPilot:
    """Register a generic pilot that came with the registration token of a site; it is running, for it is calling.

    Args:
        wanted: what it says of itself.
        site_id: whose token it came with.
        token_id: that token.
        now: the edge's clock.

    Raises:
        NotYourSiteError: it names another site than the token's.
        UnknownVOError: there is no such VO, or the site does not serve it; which of them is not told.
        UnknownPlaceError: CE or queue do not exist.
        PilotTypeRefusedError: the CE accepts no generic pilots.
        SiteBannedError: site, CE or queue is banned.
        BlackHoleError: its host gets no jobs now.
        QueueFullError: no further pilot may live there.
    """
    site = Site.objects.get(pk=site_id)
    if wanted.site != site.name:
        sentence = f'The token is of site {site.name} and registers no pilots of "{wanted.site[:128]}".'
        raise NotYourSiteError(sentence, errors={"site": [sentence]})
    # NB: of other VOs the site's token must not even learn the names.
    vo = _vo(wanted.vo, among=VO.objects.filter(pk__in=site.vos.all()) if site.vos.exists() else VO.objects.all())
    queue = resolve_place(vo, site=wanted.site, ce=wanted.ce, queue=wanted.queue).queue
    if queue is None:  # names are unique within their level, so all three together name one queue
        raise AssertionError("a site, a CE and a queue by name are one queue")
    _refuse_banned([queue.ce.site, queue.ce, queue], now=now)
    refuse_black_hole(site_id=site.pk, host_name=wanted.host_name, now=now)
    refuse_type(queue.ce, PilotType.GENERIC)
    _refuse_beyond_limit(queue)
    count_registration(token_id=token_id, now=now)
    pilot = Pilot.objects.create(
        vo=vo,
        queue=queue,
        stamp=wanted.stamp,
        host_name=wanted.host_name,
        status=PilotStatus.RUNNING,
        submitted_at=now,
        started_at=now,
        last_seen_at=now,
    )
    logger.info("pilot.registered", extra={"pilot_id": pilot.pk, "site": site.name, "queue_id": queue.pk})
    return _with_token(pilot, now=now)


def _refuse_beyond_limit(queue: Queue) -> None:
    """Refuse one pilot more than the queue's ``max_pilots``, for which all that live there count, whoever sent them."""
    lock(LockKey.REGISTER_PILOTS, of=queue.pk)
    living = Pilot.objects.filter(queue=queue, ended_at__isnull=True).count()
    if living >= queue.max_pilots:
        sentence = f"{living} pilots live at {queue.name}, which may have {queue.max_pilots} (max_pilots)"
        raise QueueFullError(f"{sentence}; come again when one of them has ended.")


@transaction.atomic(durable=True)
def register_sent(wanted: Registration, *, pilot_id: int, now: datetime) -> RegisteredPilot:
    """Let the pilot that a director sent begin, in exchange for its secret; it is running, for it is calling.

    One that comes too late for its director is welcome all the same (PIL's stalled ones; DESIGN §3.7).

    Args:
        wanted: what it says of itself.
        pilot_id: whose secret it came with.
        now: the edge's clock.

    Raises:
        PilotRevokedError, PilotEndedError, SecretUsedError: it is too late, or the secret was used.
        NotYourPlaceError: it names another VO or place than its own.
        SiteBannedError: site, CE or queue is banned; the secret may be used when that is over.
        BlackHoleError: its host gets no jobs now.
    """
    # Locked: the director may be giving it up at the same moment.
    Pilot.objects.select_for_update(of=("self",)).filter(pk=pilot_id).first()
    pilot = living_pilot(pilot_id)
    use_secret(pilot_id, now=now)
    _refuse_other_place(pilot, wanted)
    if pilot.queue is not None:
        _refuse_banned([pilot.queue.ce.site, pilot.queue.ce, pilot.queue], now=now)
        refuse_black_hole(site_id=pilot.queue.ce.site_id, host_name=wanted.host_name, now=now)
    pilot.status, pilot.status_reason = PilotStatus.RUNNING, ""
    pilot.host_name, pilot.started_at, pilot.last_seen_at = wanted.host_name, now, now
    pilot.save(update_fields=["status", "status_reason", "host_name", "started_at", "last_seen_at"])
    logger.info("pilot.registered", extra={"pilot_id": pilot.pk, "site": wanted.site, "queue_id": pilot.queue_id})
    return _with_token(pilot, now=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPlace:
    """The names of the place that a pilot is made for; None: it may be anywhere, or anywhere within the outer level."""

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
) -> RegisteredPilot:
    """Make a pilot that no director sends; private when a group is named.

    Its token vouches for the place that it is made for: its offers may name no other. Made for a queue, it has not
    started before its first request for a job.

    Raises:
        UnknownVOError, ImpossiblePilotError: no such VO, group or owner, or they do not belong together; a CE is named
            without its site, or a queue without its CE.
        UnknownPlaceError: no such site serves the VO, or it has no such CE or queue.
        PilotTypeRefusedError: the CE does not accept such pilots.
        SiteBannedError: the place is banned.
    """
    vo = _vo(vo_name, among=VO.objects.all())
    group = None if group_name is None else _group_of(vo, name=group_name)
    owner = None if owner_name is None else _member_of(group, name=owner_name)
    if group is not None and owner is None and not group.shares_jobs:
        raise ImpossiblePilotError(f"The members of {group} do not share jobs: name the owner whose jobs it shall run.")
    place = _place_of(at, vo=vo)
    if place.ce is not None:
        refuse_type(place.ce, PilotType.GENERIC if group is None else PilotType.PRIVATE)
    _refuse_banned([level for level in (place.site, place.ce, place.queue) if level is not None], now=now)
    started_at = now if place.queue is None else None
    pilot = Pilot.objects.create(
        vo=vo,
        group=group,
        owner=owner,
        queue=place.queue,
        site=place.site if place.queue is None else None,
        ce=place.ce if place.queue is None else None,
        status=PilotStatus.RUNNING if started_at else PilotStatus.WAITING,
        submitted_at=now,
        started_at=started_at,
        last_seen_at=started_at,
    )
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
        expires_at=issued.expires_at,
    )
    return issued


def _place_of(at: WantedPlace, *, vo: VO) -> ResourcePlace:
    if (at.ce is not None and at.site is None) or (at.queue is not None and at.ce is None):
        raise ImpossiblePilotError("Name the site of the computing element, and the computing element of the queue.")
    return resolve_place(vo, site=at.site, ce=at.ce, queue=at.queue)


def _refuse_other_place(pilot: Pilot, wanted: Registration) -> None:
    queue = pilot.queue
    own = {"vo": pilot.vo.name}
    if queue is not None:  # else it was deleted meanwhile
        own |= {"site": queue.ce.site.name, "ce": queue.ce.name, "queue": queue.name}
    errors = {
        field: [f"The secret is of a pilot for {name}."]
        for field, name in own.items()
        if getattr(wanted, field) != name
    }
    if errors:
        raise NotYourPlaceError("The secret is of a pilot for another place.", errors=errors)


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
    """Refuse a pilot of a type that the computing element does not accept.

    Raises:
        PilotTypeRefusedError: it does not.
    """
    if not ce.accepts(pilot_type):
        raise PilotTypeRefusedError(f"{ce.name} accepts {' and '.join(ce.pilot_types)} pilots only.")


def _refuse_banned(levels: Sequence[Site | ComputingElement | Queue], *, now: datetime) -> None:
    # A drained place may register: such a pilot was sent before, gets no job, and leaves in peace.
    for level in levels:
        if level.state_at(now) is ResourceState.BANNED:
            reason = f": {level.state_reason}" if level.state_reason else ""
            until = f" until {level.state_until:%Y-%m-%d %H:%M %Z}" if level.state_until else ""
            raise SiteBannedError(f"{level.name} is banned{until}{reason}")


def _group_of(vo: VO, *, name: str) -> Group:
    groups = {group.name: group for group in vo.groups.order_by("name")}
    if name not in groups:
        hint = did_you_mean(name, groups) or f" It has: {', '.join(groups) or 'none'}."
        raise ImpossiblePilotError(f'VO {vo} has no group "{name}".{hint}')
    return groups[name]


def _member_of(group: Group | None, *, name: str) -> User:
    if group is None:
        raise ImpossiblePilotError("An owner acts in a group: name the group too.")
    members = {
        membership.user.username: membership.user
        for membership in Membership.objects.filter(group=group).select_related("user").order_by("user__username")
    }
    if name not in members:
        raise ImpossiblePilotError(f'Group {group} has no member "{name}".{did_you_mean(name, members)}')
    return members[name]
