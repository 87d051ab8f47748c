"""Logs of pilots: stored chunk by chunk, and removed after a time without changes."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Concat, Length

from pilots.domain.logs import MOST_PARTS, PART_LENGTH, LogPart, left_out_of, new_part_of, shortened
from pilots.models import Pilot, PilotLog, PilotLogPart
from pilots.services.reports import PilotRevokedError
from wms.kernel.db import transaction_required

#: Logs removed in one transaction.
_BATCH = 1000


@transaction.atomic(durable=True)
def append(chunk: LogPart, *, pilot_id: int, now: datetime) -> int:
    """Store the new part of *chunk*; return how many characters of the log have been received: the next offset.

    A repeated chunk changes nothing, and of a partly repeated one the new rest is stored. An ended pilot may still
    send,
    because its log says why it ended.

    Raises:
        PilotRevokedError: nothing is stored.
    """
    log = _locked(pilot_id, now=now)
    new = new_part_of(chunk, received=log.received)
    if new is None:
        return log.received
    _write(new, pilot_id=pilot_id)
    PilotLog.objects.filter(pk=pilot_id).update(received=new.end, changed_at=now)
    left_out = left_out_of(new.end)
    if left_out:
        PilotLogPart.objects.filter(log=pilot_id, offset__gte=left_out.start, offset__lt=left_out.stop).delete()
    return new.end


@transaction.atomic(durable=True)
def keep_output(text: str, *, pilot_id: int, now: datetime) -> None:
    """Store the pilot's output as its batch system kept it, in place of any stored before; long text loses its middle.

    It is the only log of a pilot that could not register.
    """
    # PostgreSQL stores no NUL, and UTF-8 no lone surrogate.
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
    PilotLog.objects.update_or_create(pk=pilot_id, defaults={"batch_output": shortened(clean), "changed_at": now})


def remove_old(*, now: datetime) -> int:
    """Remove the logs that have not changed for WMS_PILOT_LOG_S; return how many."""
    removed = 0
    while batch := _remove_some(before=now - timedelta(seconds=settings.WMS_PILOT_LOG_S)):
        removed += batch
    return removed


@transaction.atomic(durable=True)
def _remove_some(*, before: datetime) -> int:
    # Uses index: pilot_log_by_age. Locked before their parts are deleted: a log that grows right now has a new time.
    old = PilotLog.objects.filter(changed_at__lt=before).order_by("changed_at").select_for_update(skip_locked=True)
    keys = [log.pk for log in old[:_BATCH]]
    PilotLog.objects.filter(pk__in=keys).delete()  # with their parts
    return len(keys)


@transaction_required
def _locked(pilot_id: int, *, now: datetime) -> PilotLog:
    """Return the locked log of a pilot that is not revoked; the lock puts two chunks of one log in sequence."""
    trusted = PilotLog.objects.filter(pk=pilot_id, pilot__revoked_at__isnull=True).only("received")
    trusted = trusted.select_for_update(of=("self",))
    log = trusted.first()
    if log is None and Pilot.objects.filter(pk=pilot_id, revoked_at__isnull=True).exists():
        PilotLog.objects.bulk_create([PilotLog(pilot_id=pilot_id, changed_at=now)], ignore_conflicts=True)
        log = trusted.first()
    if log is None:  # also if it was revoked between the statements
        raise PilotRevokedError("The credentials of this pilot were revoked; leave.")
    return log


@transaction_required
def _write(new: LogPart, *, pilot_id: int) -> None:
    before = PilotLogPart.objects.filter(log=pilot_id, offset__range=(new.offset - PART_LENGTH, new.offset - 1))
    ends_here = before.alias(length=Length("text")).filter(
        length=new.offset - F("offset"), length__lte=PART_LENGTH - len(new.text)
    )
    # Ten thousand pilots send a few lines a minute each: appending leaves the text before it in place.
    if ends_here.update(text=Concat(F("text"), Value(new.text))):
        return
    if PilotLogPart.objects.filter(log=pilot_id).count() < MOST_PARTS:
        PilotLogPart.objects.create(log_id=pilot_id, offset=new.offset, text=new.text)
