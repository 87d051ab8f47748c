"""Which nodes and pilots get no new jobs: hosts that are black holes, and pilots that are drained or revoked."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery

from pilots.models import BlackHole, Pilot
from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.kernel.errors import ForbiddenError

logger = logging.getLogger(__name__)

_REASON_LENGTH: Final = 255


class BlackHoleError(ForbiddenError):
    """Jobs end badly and fast on this host; it gets none for a while, nor do its pilots."""

    code = "black_hole"


class PilotDrainedError(ForbiddenError):
    """The pilot gets no new job; it may finish those that it has."""

    code = "pilot_drained"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedPilots:
    """How many pilots were revoked, and the computing elements where they are."""

    pilots: int
    ce_ids: frozenset[int]


def refuse_black_hole(*, site_id: int, host_name: str, now: datetime) -> None:
    """Return if the host may have pilots.

    Raises:
        BlackHoleError: it may not.
    """
    # Uses index: a_host_is_one_black_hole_at_a_time
    found = BlackHole.objects.in_force(now=now).filter(site=site_id, host_name=host_name).first()
    if found is not None:
        raise _black_hole_error(found)


def why_no_more_jobs(pilot_id: int) -> ForbiddenError:
    """Return what a pilot is told that was drained, or whose host is a black hole, when it asks for a job."""
    pilot = Pilot.objects.select_related("black_hole").get(pk=pilot_id)
    if pilot.black_hole is not None:
        return _black_hole_error(pilot.black_hole)
    why = f": {pilot.drain_reason}" if pilot.drain_reason else ""
    return PilotDrainedError(f"This pilot gets no new jobs; finish those that run, and leave{why}")


def shut(found: BlackHole) -> bool:
    """Keep the host from getting jobs; False when it is kept from them already.

    Its pilots are marked by :func:`mark_pilots`.
    """
    # Another worker may find it at the same moment.
    columns = ("found_at", "until", "fetched", "failed", "reason")
    _, is_new = BlackHole.objects.get_or_create(
        site_id=found.site_id,
        host_name=found.host_name,
        lifted_at=None,
        defaults={column: getattr(found, column) for column in columns},
    )
    if is_new:
        logger.warning(
            "black_hole.found: %s: %s",
            found.host_name,
            found.reason,
            extra={"site_id": found.site_id, "host_name": found.host_name, "until": found.until.isoformat()},
        )
    return is_new


@transaction.atomic(durable=True)
def lift(rows: QuerySet[BlackHole], *, by: str, now: datetime) -> int:
    """Let the hosts get jobs again; return how many did not."""
    return _lift(BlackHole.objects.filter(pk__in=rows.values("pk")), by=by, now=now)


@transaction.atomic(durable=True)
def lift_over(*, now: datetime) -> int:
    """Let the hosts get jobs again whose time is over; return how many there are."""
    return _lift(BlackHole.objects.filter(until__lte=now), by="", now=now)


@transaction.atomic(durable=True)
def mark_pilots() -> int:
    """Mark the living pilots of black holes, so that no match need look for their hosts; return how many are new."""
    of_host = BlackHole.objects.filter(
        lifted_at=None, site=OuterRef("queue__ce__site"), host_name=OuterRef("host_name")
    ).order_by("pk")
    hosts = list(BlackHole.objects.filter(lifted_at=None).values_list("site", "host_name"))
    if not hosts:
        return 0
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(
        ended_at=None,
        black_hole=None,
        queue__ce__site__in={site for site, _ in hosts},
        host_name__in={host_name for _, host_name in hosts},
    ).annotate(found=Subquery(of_host.values("pk")[:1]))
    marked = 0
    # By primary key, one after the other: claims lock one pilot each.
    for pilot_id, found in living.exclude(found=None).order_by("pk").values_list("pk", "found"):
        marked += Pilot.objects.filter(pk=pilot_id, black_hole=None).update(black_hole=found)
    return marked


@transaction.atomic(durable=True)
def drain(pilots: QuerySet[Pilot], *, reason: str, now: datetime) -> int:
    """Have the pilots get no new jobs; those that have jobs are told by ``matching``, which knows their leases.

    Args:
        pilots: those that have ended, or are drained already, are left alone.
        reason: for people and for the pilot's own log; cut to 255 characters.
        now: the edge's clock.

    Returns:
        How many are drained by this.
    """
    drained = 0
    for pilot_id in _living(pilots):
        rows = Pilot.objects.filter(pk=pilot_id, ended_at=None, drained_at=None)
        if rows.update(drained_at=now, drain_reason=reason[:_REASON_LENGTH]):
            drained += 1
            logger.info("pilot.drained", extra={"pilot_id": pilot_id, "reason": reason})
    return drained


@transaction.atomic(durable=True)
def revoke(pilots: QuerySet[Pilot], *, by: str, now: datetime) -> RevokedPilots:
    """Have the pilots' tokens open nothing any more; the status agent kills them where they are."""
    revoked = 0
    ce_ids: set[int | None] = set()
    for pilot_id in _living(pilots):
        rows = Pilot.objects.filter(pk=pilot_id, ended_at=None, revoked_at=None)
        if rows.update(revoked_at=now, status_reason=f"Revoked by {by}"[:_REASON_LENGTH]):
            revoked += 1
            ce_ids.add(Pilot.objects.values_list("queue__ce", flat=True).get(pk=pilot_id))
            record(SecurityEventKind.PILOT_REVOKED, target=f"pilot {pilot_id}")
    return RevokedPilots(pilots=revoked, ce_ids=frozenset(ce_id for ce_id in ce_ids if ce_id is not None))


def _living(pilots: QuerySet[Pilot]) -> list[int]:
    return list(pilots.filter(ended_at=None).order_by("pk").values_list("pk", flat=True))


def _lift(rows: QuerySet[BlackHole], *, by: str, now: datetime) -> int:
    lifted = list(rows.filter(lifted_at=None).order_by("pk").select_for_update(of=("self",)))
    for row in lifted:
        # Uses index: pilot_alive_at_queue
        marked = Pilot.objects.filter(ended_at=None, queue__ce__site=row.site_id, black_hole=row)
        for pilot_id in list(marked.order_by("pk").values_list("pk", flat=True)):
            Pilot.objects.filter(pk=pilot_id).update(black_hole=None)
        logger.info("black_hole.lifted", extra={"site_id": row.site_id, "host_name": row.host_name, "by": by})
    BlackHole.objects.filter(pk__in=[row.pk for row in lifted]).update(lifted_at=now, lifted_by=by)
    return len(lifted)


def _black_hole_error(found: BlackHole) -> BlackHoleError:
    return BlackHoleError(
        f"Jobs end badly and fast on {found.host_name}; it gets none until {found.until:%Y-%m-%d %H:%M %Z}, so leave."
    )
