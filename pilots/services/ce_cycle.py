"""A round at one computing element: submit what was decided, look after what is there, ask how much it could take.

Each CE has rounds of its own, so that one which is dead, or slow, delays nobody; one that fails is left alone for
longer and longer, and says why.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import Event, Thread

from django.db import DatabaseError, connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from pilots.backends.commands import CommandLostError
from pilots.backends.interface import Backend, BackendError, BatchRequest, PilotOrder, SubmitResult
from pilots.domain.ce_backoff import BUSY_FOR, pause_after, paused_until
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.queries import latest_outcomes, left_alone, stall_pauses
from pilots.services import ce_changes
from pilots.services.ce_backends import backend_of, note_doubts
from pilots.services.reports import end_pilot
from pilots.services.secrets import secret_of
from pilots.services.status_agent import look_after, note_silence
from resources.models import ComputingElement

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]

_RENEWED_EVERY_S = 15.0
#: Of one call to the CE; the next pilots go with the next call, so that none is kept waiting by hundreds.
_AT_ONCE = 50
_PILOTS_FAIL = "Its last pilots all failed"


def serve(ce_id: int, *, clock: Clock = timezone.now) -> None:
    """Have a round at the CE, unless another is under way; no failure of the CE leaves here."""
    # Before it is read: what is changed in between is noted next time, not overlooked.
    ce_changes.note_changes(CEHealth.objects.filter(ce=ce_id), now=clock())
    ce = ComputingElement.objects.select_related("site").filter(pk=ce_id).first()
    if ce is None:
        return
    try:
        # What was decided meanwhile found the CE busy; it goes at once too.
        while _begin(ce, now=clock()):
            with _kept_busy(ce, clock=clock):
                _round(ce, clock=clock)
            if not _ordered(ce):
                break
    except DatabaseError:
        raise  # our own; the round's mark ends by itself
    except Exception as error:  # noqa: BLE001 - the border to foreign systems: what fails there is noted, and left alone
        _note_failure(ce, _said(error), now=clock())
        note_silence(ce, now=clock())


@transaction.atomic(durable=True)
def ask_again(rows: QuerySet[CEHealth], *, now: datetime) -> Sequence[int]:
    """Forget until when computing elements were to be left alone; return them. How often they failed is kept.

    Pilots that were submitted before *now* are not held against them, or the next round would find the same pause.
    """
    ce_ids = list(rows.order_by("pk").values_list("pk", flat=True))
    CEHealth.objects.filter(pk__in=ce_ids).update(ask_after=None, send_after=None, stalls="", judged_from=now)
    return ce_ids


def _begin(ce: ComputingElement, *, now: datetime) -> bool:
    CEHealth.objects.get_or_create(ce=ce)
    return bool(CEHealth.objects.filter(~left_alone(now=now), ce=ce).update(busy_until=now + BUSY_FOR))


@contextmanager
def _kept_busy(ce: ComputingElement, *, clock: Clock) -> Iterator[None]:
    """Renew the mark that a round is under way; hundreds of pilots, or a slow batch system, take minutes."""
    over = Event()

    def renew() -> None:
        try:
            while not over.wait(_RENEWED_EVERY_S):
                marked = CEHealth.objects.filter(ce=ce, busy_until__isnull=False)
                marked.update(busy_until=clock() + BUSY_FOR)
        except DatabaseError as error:  # of which the round will have more to say
            logger.warning("ce.not_marked: %s", error, extra={"ce_id": ce.pk})
        finally:
            connection.close()  # this thread's own

    Thread(target=renew, name=f"busy at {ce.name}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _round(ce: ComputingElement, *, clock: Clock) -> None:
    backend = backend_of(ce)
    while orders := _ordered(ce):
        _submit(ce, backend, orders, clock=clock)
    look_after(ce, backend, now=clock())
    note_doubts(ce, backend)
    asked_at = clock()
    free = max(0, backend.capacity())
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
    """Return pilots that the CE has not been told of, as far as is known."""
    # Uses index: pilot_alive_at_queue
    ordered = Pilot.objects.filter(queue__ce=ce, ended_at=None, status=PilotStatus.SUBMITTED, batch_id="")
    wanted = ordered.filter(tried_at=None, drained_at=None, revoked_at=None)
    return list(wanted.select_related("vo", "queue").order_by("pk")[:_AT_ONCE])


def _submit(ce: ComputingElement, backend: Backend, pilots: Sequence[Pilot], *, clock: Clock) -> None:
    """Submit the pilots and commit what came of it.

    Raises:
        BackendError: the CE cannot be used; the pilots have ended, unless their submission was lost on its way.
        Exception: a fault of the backend, after which the CE may have got them: the status agent finds out.
    """
    with transaction.atomic(durable=True):
        # A round that was suspended for longer than its mark holds may not be the only one.
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
        _conclude([SubmitResult(stamp=order.stamp, error=str(error)) for order in orders], of_stamp, now=clock())
        raise
    _conclude(submissions, of_stamp, now=clock())


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
def _conclude(submissions: Sequence[SubmitResult], pilots: Mapping[str, Pilot], *, now: datetime) -> None:
    """Note by which id the CE knows each pilot, or end it; one may be running, or have ended, by now."""
    for submission in submissions:
        pilot_id = pilots[submission.stamp].pk
        if submission.error:
            end_pilot(pilot_id, status=PilotStatus.ABORTED, reason=submission.error, now=now)
        elif submission.batch_id:
            Pilot.objects.filter(pk=pilot_id).update(batch_id=submission.batch_id)
            Pilot.objects.filter(pk=pilot_id, status=PilotStatus.SUBMITTED).update(status=PilotStatus.WAITING)
            logger.info("pilot.submitted", extra={"pilot_id": pilot_id, "batch_id": submission.batch_id})


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BackendError) else repr(error)


def _note_failure(ce: ComputingElement, sentence: str, *, now: datetime) -> None:
    with transaction.atomic(durable=True):
        health = CEHealth.objects.select_for_update().filter(ce=ce).first()
        if health is None:
            return  # the CE was removed meanwhile
        if health.trouble != sentence[:500]:  # once, not in each round
            logger.warning("ce.failed: %s at %s: %s", ce.name, ce.site.name, sentence, extra={"ce_id": ce.pk})
        health.failures += 1
        health.ask_after = health.send_after = now + pause_after(health.failures)
        health.busy_until, health.trouble = None, sentence[:500]
        health.save()
