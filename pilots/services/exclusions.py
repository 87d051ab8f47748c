"""Hosts and pilots that get no new jobs: black holes, drained pilots, revoked pilots."""

import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery

from pilots.models import BlackHole, Pilot
from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.kernel.errors import ForbiddenError
from wms.wire.protocol import PILOT_DRAINED

logger = logging.getLogger(__name__)

_REASON_LENGTH: Final = 255


class BlackHoleError(ForbiddenError):
    """The host is a black hole: jobs end badly and fast there, so its pilots get none for a while."""

    code = "black_hole"


class PilotDrainedError(ForbiddenError):
    """The pilot is drained: it gets no new job and may finish those that it has."""

    code = PILOT_DRAINED


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedPilots:
    """Number of the pilots that were revoked, and their computing elements."""

    pilots: int
    ce_ids: frozenset[int]


def refuse_black_hole(*, site_id: int, host_name: str, now: datetime) -> None:
    """Refuse a host that is a black hole now.

    Raises:
        BlackHoleError: it is.
    """
    # Uses index: a_host_is_one_black_hole_at_a_time
    black_hole = BlackHole.objects.in_force(now=now).filter(site=site_id, host_name=host_name).first()
    if black_hole is not None:
        raise _black_hole_error(black_hole)


def no_more_jobs_error(pilot_id: int) -> ForbiddenError:
    """Return the error for a pilot that requests a job and is drained, or whose host is a black hole."""
    pilot = Pilot.objects.select_related("black_hole").get(pk=pilot_id)
    if pilot.black_hole is not None:
        return _black_hole_error(pilot.black_hole)
    why = f": {pilot.drain_reason}" if pilot.drain_reason else ""
    return PilotDrainedError(f"This pilot gets no new jobs; finish those that run, and leave{why}")


def shut(black_hole: BlackHole) -> bool:
    """Store a new black hole; return False if the host is one already.

    Its pilots are marked by :func:`mark_pilots`.
    """
    # Another worker may detect it at the same moment.
    columns = ("found_at", "until", "fetched", "failed", "reason")
    _, is_new = BlackHole.objects.get_or_create(
        site_id=black_hole.site_id,
        host_name=black_hole.host_name,
        lifted_at=None,
        defaults={column: getattr(black_hole, column) for column in columns},
    )
    if is_new:
        logger.warning(
            "black_hole.found: %s: %s",
            black_hole.host_name,
            black_hole.reason,
            extra={
                "site_id": black_hole.site_id,
                "host_name": black_hole.host_name,
                "until": black_hole.until.isoformat(),
            },
        )
    return is_new


@transaction.atomic
def lift(rows: QuerySet[BlackHole], *, by: str, now: datetime, reason: str = "") -> int:
    """Lift the black holes; return how many were in force. Each is in the history of its site, with the reason."""
    return _lift(BlackHole.objects.filter(pk__in=rows.values("pk")), by=by, now=now, reason=reason)


@transaction.atomic(durable=True)
def lift_over(*, now: datetime) -> int:
    """Lift the black holes whose time is over; return how many."""
    return _lift(BlackHole.objects.filter(until__lte=now), by="", now=now)


@transaction.atomic(durable=True)
def mark_pilots() -> int:
    """Mark the living pilots of black holes, so that the match reads only the pilot's row; return how many are new."""
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
    ).annotate(host_black_hole=Subquery(of_host.values("pk")[:1]))
    marked = 0
    # In the order of primary keys, one by one: each claim locks one pilot.
    for pilot_id, black_hole_id in (
        living.exclude(host_black_hole=None).order_by("pk").values_list("pk", "host_black_hole")
    ):
        marked += Pilot.objects.filter(pk=pilot_id, black_hole=None).update(black_hole=black_hole_id)
    return marked


@transaction.atomic(durable=True)
def drain(pilots: QuerySet[Pilot], *, reason: str, now: datetime) -> int:
    """Drain the pilots: they get no new jobs. ``matching`` sends the drain commands to those that have leases.

    Args:
        pilots: those that have ended or are drained already stay as they are.
        reason: for people and the pilot's log; cut to 255 characters.
        now: the time of the request.

    Returns:
        How many pilots this call drained.
    """
    drained = 0
    living = _living(pilots)
    rows_of = Pilot.objects.in_bulk(living)
    for pilot_id in living:
        rows = Pilot.objects.filter(pk=pilot_id, ended_at=None, drained_at=None)
        if rows.update(drained_at=now, drain_reason=reason[:_REASON_LENGTH]):
            drained += 1
            kind = SecurityEventKind.PILOT_DRAINED
            record(kind, target=f"pilot {pilot_id}", row=rows_of[pilot_id], reason=reason)
            logger.info("pilot.drained", extra={"pilot_id": pilot_id, "reason": reason})
    return drained


@transaction.atomic(durable=True)
def revoke(pilots: QuerySet[Pilot], *, by: str, now: datetime) -> RevokedPilots:
    """Invalidate the pilots' tokens; the status agent kills the pilots at their CEs."""
    revoked = 0
    ce_ids: set[int | None] = set()
    for pilot_id in _living(pilots):
        rows = Pilot.objects.filter(pk=pilot_id, ended_at=None, revoked_at=None)
        if rows.update(revoked_at=now, status_reason=f"Revoked by {by}"[:_REASON_LENGTH]):
            revoked += 1
            pilot = Pilot.objects.select_related("queue").get(pk=pilot_id)
            ce_ids.add(pilot.queue.ce_id if pilot.queue else None)
            record(SecurityEventKind.PILOT_REVOKED, target=f"pilot {pilot_id}", row=pilot, reason=f"revoked by {by}")
    return RevokedPilots(pilots=revoked, ce_ids=frozenset(ce_id for ce_id in ce_ids if ce_id is not None))


def _living(pilots: QuerySet[Pilot]) -> list[int]:
    return list(pilots.filter(ended_at=None).order_by("pk").values_list("pk", flat=True))


def _lift(rows: QuerySet[BlackHole], *, by: str, now: datetime, reason: str = "") -> int:
    locked = rows.filter(lifted_at=None).order_by("pk").select_for_update(of=("self",))
    lifted = list(locked.select_related("site"))
    for row in lifted:
        if by:
            changes = {"black_hole": f"{row.host_name}: lifted", **({"reason": reason} if reason else {})}
            kind = SecurityEventKind.CONFIGURATION_CHANGED
            record(kind, target=f"site {row.site}", row=row.site, what="changed", changes=changes)
        # Uses index: pilot_alive_at_queue
        marked = Pilot.objects.filter(ended_at=None, queue__ce__site=row.site_id, black_hole=row)
        for pilot_id in list(marked.order_by("pk").values_list("pk", flat=True)):
            Pilot.objects.filter(pk=pilot_id).update(black_hole=None)
        extra = {"site_id": row.site_id, "host_name": row.host_name, "by": by}
        transaction.on_commit(partial(logger.info, "black_hole.lifted", extra=extra), robust=True)
    BlackHole.objects.filter(pk__in=[row.pk for row in lifted]).update(lifted_at=now, lifted_by=by)
    return len(lifted)


def _black_hole_error(black_hole: BlackHole) -> BlackHoleError:
    return BlackHoleError(
        f"Jobs end badly and fast on {black_hole.host_name}; it gets none until"
        f" {black_hole.until:%Y-%m-%d %H:%M %Z}, so leave."
    )
