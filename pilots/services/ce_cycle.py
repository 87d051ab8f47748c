"""A round at one computing element: submit planned pilots, check submitted ones, read its free capacity.

Each CE has its own rounds, so that a dead or slow CE delays no other. A failing CE is retried after growing pauses,
and its health stores the reason.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Event, Thread

from django.db import DatabaseError, Error, connection, transaction
from django.db.models import QuerySet

from pilots.backends.commands import CommandLostError
from pilots.backends.interface import Backend, BackendError, BatchRequest, PilotOrder, SubmitResult
from pilots.domain.ce_backoff import BUSY_FOR, pause_after, paused_until
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.queries import ces_left_to_site, latest_outcomes, stall_pauses, without_rounds
from pilots.services import ce_changes
from pilots.services.ce_backends import backend_of, note_shortfalls
from pilots.services.reports import end_pilot
from pilots.services.secrets import secret_of
from pilots.services.status_agent import check_pilots, note_silence
from resources.models import ComputingElement
from resources.services.states import full_name
from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.kernel.clock import current_time
from wms.kernel.db import is_database_away
from wms.kernel.life import LifeEvent, tell
from wms.wire.protocol import LARGEST_INTEGER

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]

#: Seconds between two renewals of the mark that a round is under way.
_RENEWED_EVERY_S = 15.0
#: Pilots submitted by one call to the CE; the others follow with the next call, so that no single call is long.
_AT_ONCE = 50
_PILOTS_FAIL = "Its last pilots all failed"


def serve(ce_id: int, *, clock: Clock = current_time) -> None:
    """Run a round at the CE, unless another is under way; failures of the CE are stored, not raised."""
    # Before the CE is read: a change in between is then detected by the next round.
    ce_changes.note_changes(CEHealth.objects.filter(ce=ce_id), now=clock())
    ce = ComputingElement.objects.select_related("site").filter(pk=ce_id).first()
    if ce is None:
        return
    try:
        # Pilots planned during the round are submitted at once too.
        while _begin(ce, now=clock()):
            with _kept_busy(ce, clock=clock):
                _round(ce, clock=clock)
            if not _ordered(ce):
                break
    except DatabaseError:
        raise  # our own database failed; the mark of the round expires by itself
    except Exception as error:  # the border to foreign systems: each failure is stored, and the CE paused
        if is_database_away(error):
            raise
        _note_failure(ce, _sentence_of(error), now=clock())
        note_silence(ce, now=clock())


@transaction.atomic
def ask_again(rows: QuerySet[CEHealth], *, now: datetime, reason: str = "") -> Sequence[int]:
    """End the back-off of computing elements and return their ids; their numbers of failures stay.

    Pilots submitted before *now* no longer count as their failures, or the next round would set the same pause. It is
    in the history of each computing element, with the reason.
    """
    found = list(rows.order_by("pk").select_related("ce__site"))
    ce_ids = [each.pk for each in found]
    for each in found:
        changes = {"health": "contacted again", **({"reason": reason} if reason else {})}
        kind = SecurityEventKind.CONFIGURATION_CHANGED
        record(kind, target=full_name(each.ce), row=each.ce, what="changed", changes=changes)
    CEHealth.objects.filter(pk__in=ce_ids).update(ask_after=None, send_after=None, stalls="", judged_from=now)
    return ce_ids


def _begin(ce: ComputingElement, *, now: datetime) -> bool:
    CEHealth.objects.get_or_create(ce=ce)
    return bool(CEHealth.objects.filter(~without_rounds(now=now), ce=ce).update(busy_until=now + BUSY_FOR))


@contextmanager
def _kept_busy(ce: ComputingElement, *, clock: Clock) -> Iterator[None]:
    """Renew the mark that a round is under way: many pilots, or a slow batch system, take minutes."""
    over = Event()

    def renew() -> None:
        try:
            while not over.wait(_RENEWED_EVERY_S):
                marked = CEHealth.objects.filter(ce=ce, busy_until__isnull=False)
                marked.update(busy_until=clock() + BUSY_FOR)
        except Error as error:  # the round itself will fail of it too
            logger.warning("ce.not_marked: %s", error, extra={"ce_id": ce.pk})
        finally:
            connection.close()  # this thread's own

    Thread(target=renew, name=f"busy at {ce.name}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _round(ce: ComputingElement, *, clock: Clock) -> None:
    if ces_left_to_site().filter(pk=ce.pk).exists():
        note_silence(ce, now=clock())
        quiet = {"busy_until": None, "failures": 0, "ask_after": None, "send_after": None}
        CEHealth.objects.filter(ce=ce).update(**quiet, trouble="", shortfalls="", stalls="")
        return
    backend = backend_of(ce)
    while orders := _ordered(ce):
        _submit(ce, backend, orders, clock=clock)
    check_pilots(ce, backend, now=clock())
    note_shortfalls(ce, backend)
    asked_at = clock()
    free = min(max(0, backend.capacity()), LARGEST_INTEGER)
    now = clock()
    judged_from = CEHealth.objects.filter(ce=ce).values_list("judged_from", flat=True).first()
    send_after = paused_until(latest_outcomes(ce, judged_from=judged_from, now=now))
    paused = send_after is not None and send_after > now
    CEHealth.objects.filter(ce=ce).update(
        busy_until=None,
        asked_at=asked_at,
        free_slots=free,
        failures=0,
        ask_after=None,
        send_after=send_after if paused else None,
        trouble=_PILOTS_FAIL if paused else "",
        stalls=_stalls(ce, now=now),
    )


def _stalls(ce: ComputingElement, *, now: datetime) -> str:
    """Return a sentence for each queue of the CE that gets no pilots, because some did not start there in time."""
    pauses = stall_pauses(now=now)
    queues = ce.queues.filter(pk__in=pauses).order_by("name") if pauses else ()
    return "\n".join(
        f"Pilots in the queue {queue.name} did not start in time; the next is sent at "
        f"{pauses[queue.pk]:%Y-%m-%d %H:%M %Z}."
        for queue in queues
    )


def _ordered(ce: ComputingElement) -> Sequence[Pilot]:
    """Return planned pilots that have not been submitted to the CE yet, at most _AT_ONCE."""
    # Uses index: pilot_alive_at_queue
    planned = Pilot.objects.filter(queue__ce=ce, ended_at=None, status=PilotStatus.SUBMITTED, batch_id="")
    untried = planned.filter(tried_at=None, drained_at=None, revoked_at=None)
    return list(untried.select_related("vo", "queue").order_by("pk")[:_AT_ONCE])


def _submit(ce: ComputingElement, backend: Backend, pilots: Sequence[Pilot], *, clock: Clock) -> None:
    """Submit the pilots and commit the results.

    Raises:
        BackendError: the CE cannot be used; the pilots have ended, unless the reply to their submission was lost.
        Exception: a fault of the backend; the CE may have accepted the pilots, which the status agent finds out.
    """
    with transaction.atomic(durable=True):
        # A round that was suspended until its mark expired may run beside another one.
        rows = {pilot: Pilot.objects.filter(pk=pilot.pk, tried_at=None) for pilot in pilots}
        pilots = [pilot for pilot, untried in rows.items() if untried.update(tried_at=clock())]
    if not pilots:
        return
    orders = [_order(pilot, ce) for pilot in pilots]
    of_stamp = {pilot.stamp: pilot for pilot in pilots}
    try:
        submissions = backend.submit(orders)
    except CommandLostError:
        raise
    except BackendError as error:
        _conclude([SubmitResult(stamp=order.stamp, error=str(error)) for order in orders], of_stamp, ce=ce, now=clock())
        raise
    _conclude(submissions, of_stamp, ce=ce, now=clock())


def _order(pilot: Pilot, ce: ComputingElement) -> PilotOrder:
    if pilot.queue is None:
        raise AssertionError("only pilots at queues are submitted")
    return PilotOrder(
        stamp=pilot.stamp,
        secret=secret_of(pilot),
        vo=pilot.vo.name,
        site=ce.site.name,
        ce=ce.name,
        queue=pilot.queue.name,
        slot=BatchRequest.of(pilot.slot),
    )


@transaction.atomic(durable=True)
def _conclude(
    submissions: Sequence[SubmitResult], pilots: Mapping[str, Pilot], *, ce: ComputingElement, now: datetime
) -> None:
    """Store the batch id of each accepted pilot and end each refused one; an accepted one may have started already."""
    for submission in submissions:
        pilot = pilots[submission.stamp]
        pilot_id = pilot.pk
        if submission.error:
            end_pilot(pilot_id, status=PilotStatus.ABORTED, reason=submission.error, now=now)
        elif submission.batch_id:
            Pilot.objects.filter(pk=pilot_id).update(batch_id=submission.batch_id)
            Pilot.objects.filter(pk=pilot_id, status=PilotStatus.SUBMITTED).update(status=PilotStatus.WAITING)
            tell(
                LifeEvent.PILOT_SUBMITTED,
                pilot=pilot_id,
                vo=pilot.vo.name,
                site=ce.site.name,
                ce=ce.name,
                queue=pilot.queue.name if pilot.queue else None,
                batch_id=submission.batch_id,
            )


def _sentence_of(error: Exception) -> str:
    return str(error) if isinstance(error, BackendError) else repr(error)


def _note_failure(ce: ComputingElement, sentence: str, *, now: datetime) -> None:
    with transaction.atomic(durable=True):
        health = CEHealth.objects.select_for_update().filter(ce=ce).first()
        if health is None:
            return  # the CE was removed meanwhile
        if health.trouble != sentence[:500]:  # log a new failure once, not in each round
            logger.warning("ce.failed: %s at %s: %s", ce.name, ce.site.name, sentence, extra={"ce_id": ce.pk})
        health.failures += 1
        health.ask_after = health.send_after = now + pause_after(health.failures)
        health.busy_until, health.trouble = None, sentence[:500]
        health.save()
