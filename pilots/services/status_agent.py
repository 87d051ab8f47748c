"""The status agent: asks a CE for the state of its pilots, and ends those that are gone (PIL §2.3)."""

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from pilots.backends.interface import Backend, BackendError, BatchState, Handle, Presence
from pilots.domain.pilot import PilotStatus
from pilots.domain.pilot_checks import PilotObservation, PilotTimeouts, PilotVerdict, verdict_on
from pilots.models import Pilot
from pilots.queries import directors_running_since
from pilots.services import logs
from pilots.services.reports import as_reason, end_pilot
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue
from wms.kernel.clock import current_time

logger = logging.getLogger(__name__)

_UNKNOWN = BatchState(presence=Presence.UNKNOWN)
#: Files of ended pilots are removed from the CE after this time; by then their batch jobs have ended too.
CLEANED_AFTER = timedelta(minutes=10)
#: Pilots cleaned in one round.
_CLEANED_AT_ONCE = 200
#: Ends whose reason people look for: the output is stored, because the pilot may not have sent its log.
_IN_VAIN = frozenset({PilotStatus.ABORTED, PilotStatus.FAILED, PilotStatus.LOST, PilotStatus.STALLED})
#: Outputs fetched in one round; when all pilots of a CE fail, those of some are enough.
_OUTPUTS_AT_ONCE = 10


def check_pilots(ce: ComputingElement, backend: Backend, *, now: datetime) -> None:
    """Check every living pilot of the CE with one call, and clean up after ended ones.

    ``matching`` ends the leases of ended pilots, so that their jobs return to their task queues.

    Raises:
        BackendError: the CE did not answer; results of earlier calls are committed.
    """
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(ended_at=None, queue__ce=ce)
    pilots = list(living.select_related("queue__ce__site", "secret").order_by("pk"))
    sent = [pilot for pilot in pilots if _was_sent(pilot)]
    states = backend.status([_handle(pilot) for pilot in sent]) if sent else {}
    _note_batch_ids(sent, states)
    verdicts = _judge(pilots, states, now=now)
    in_vain = [pilot for pilot, verdict in verdicts.items() if verdict.is_end and verdict.status in _IN_VAIN]
    _keep_output(backend, [pilot for pilot in in_vain if _was_sent(pilot)])
    if doomed := _without_started(
        {pilot: verdict for pilot, verdict in verdicts.items() if verdict.kill and _was_sent(pilot)}
    ):
        backend.kill([_handle(pilot) for pilot in doomed])
    _clean(ce, backend, now=now)


def note_silence(ce: ComputingElement, *, now: datetime) -> None:
    """Check the pilots of a CE that does not answer.

    Started pilots that fall silent end. Revoked ones end when their tokens and leases are no longer valid; otherwise
    the pilots of a CE that is gone for good would stay forever.
    """
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(ended_at=None, queue__ce=ce)
    judged = living.filter(Q(started_at__isnull=False) | Q(revoked_at__isnull=False))
    _judge(list(judged.select_related("queue__ce__site", "secret").order_by("pk")), {}, now=now)


def _judge(pilots: Sequence[Pilot], states: Mapping[str, BatchState], *, now: datetime) -> Mapping[Pilot, PilotVerdict]:
    """Commit the verdicts on the pilots; return them."""
    timeouts = PilotTimeouts(
        start=timedelta(seconds=settings.WMS_PILOT_START_S), silence=timedelta(seconds=settings.WMS_PILOT_LOST_S)
    )
    watched_since = directors_running_since(now=now)
    verdicts = {}
    for pilot in pilots:
        state = states.get(pilot.stamp, _UNKNOWN) if _was_sent(pilot) else _UNKNOWN
        observation = _observation(pilot, state, now=now)
        verdict = verdict_on(observation, timeouts=timeouts, watched_since=watched_since, now=now)
        if verdict is not None and _commit(pilot, verdict, surely=observation.gone, now=now):
            verdicts[pilot] = verdict
    return verdicts


def _observation(pilot: Pilot, state: BatchState, *, now: datetime) -> PilotObservation:
    queue, known = _queue_of(pilot), state.presence is not Presence.UNKNOWN
    return PilotObservation(
        status=PilotStatus(pilot.status),
        sent=_was_sent(pilot),
        accepted=bool(pilot.batch_id) or known,
        gone=state.presence is Presence.ENDED,
        known=known,
        exit_code=state.exit_code,
        batch_reason=state.reason,
        by_system=state.by_system,
        banned=any(level.state_at(now) is ResourceState.BANNED for level in (queue, queue.ce, queue.ce.site)),
        drained=pilot.drained_at is not None,
        revoked_at=pilot.revoked_at,
        why_revoked=pilot.status_reason,
        stalled_at=pilot.stalled_at,
        why_stalled=pilot.status_reason if pilot.status == PilotStatus.STALLED else "",
        matched=pilot.matched_at is not None,
        submitted_at=pilot.submitted_at,
        started_at=pilot.started_at,
        last_seen_at=pilot.last_seen_at,
    )


def _note_batch_ids(pilots: Collection[Pilot], states: Mapping[str, BatchState]) -> None:
    """Store the batch ids of pilots that the CE accepted though its reply was lost."""
    for pilot in pilots:
        batch_id = states.get(pilot.stamp, _UNKNOWN).batch_id
        if batch_id and not pilot.batch_id:
            Pilot.objects.filter(pk=pilot.pk).update(batch_id=batch_id)
            Pilot.objects.filter(pk=pilot.pk, status=PilotStatus.SUBMITTED).update(status=PilotStatus.WAITING)


@transaction.atomic(durable=True)
def _commit(pilot: Pilot, verdict: PilotVerdict, *, surely: bool, now: datetime) -> bool:
    """Commit the verdict; False if the pilot has reported or ended since it was read.

    Args:
        surely: it is gone according to the batch system, whatever it reported last.
    """
    as_seen = Pilot.objects.filter(pk=pilot.pk, ended_at__isnull=True)
    if not surely:
        as_seen = as_seen.filter(started_at=pilot.started_at, last_seen_at=pilot.last_seen_at)
    if not as_seen.select_for_update(of=("self",)).exists():
        return False
    if verdict.revoke:
        as_seen.update(revoked_at=now)
    if verdict.status is PilotStatus.STALLED and pilot.status != PilotStatus.STALLED and pilot.stalled_at is None:
        as_seen.update(stalled_at=now)
    if verdict.is_end:
        return end_pilot(pilot.pk, status=verdict.status, reason=verdict.reason, now=now, died=verdict.died)
    as_seen.update(status=verdict.status, status_reason=as_reason(verdict.reason))
    return True


def _without_started(doomed: Mapping[Pilot, PilotVerdict]) -> Collection[Pilot]:
    """Return the pilots but for stalled ones that have registered since the verdict: these run now."""
    late = [pilot.pk for pilot, verdict in doomed.items() if verdict.status is PilotStatus.STALLED and not verdict.ends]
    started = (
        set(Pilot.objects.filter(pk__in=late, started_at__isnull=False).values_list("pk", flat=True)) if late else ()
    )
    return [pilot for pilot in doomed if pilot.pk not in started]


def _keep_output(backend: Backend, pilots: Sequence[Pilot]) -> None:
    for pilot in pilots[:_OUTPUTS_AT_ONCE]:
        try:
            output = backend.output(_handle(pilot))
        except BackendError as error:
            logger.warning("pilot.output_not_kept: %s", error, extra={"pilot_id": pilot.pk})
            continue
        if output:
            logs.keep_output(output, pilot_id=pilot.pk, now=current_time())


def _clean(ce: ComputingElement, backend: Backend, *, now: datetime) -> None:
    """Remove the files of ended pilots from the CE, and kill batch jobs that outlived their pilot's record."""
    # Uses index: pilot_not_cleaned_at_queue
    ended = Pilot.objects.filter(queue__ce=ce, cleaned_at=None, ended_at__lt=now - CLEANED_AFTER, secret__isnull=False)
    pilots = list(ended.only("pk", "stamp", "batch_id").order_by("pk")[:_CLEANED_AT_ONCE])
    if pilots:
        handles = [_handle(pilot) for pilot in pilots]
        backend.kill(handles)
        backend.clean(handles)
        Pilot.objects.filter(pk__in=[pilot.pk for pilot in pilots]).update(cleaned_at=now)


def _was_sent(pilot: Pilot) -> bool:
    """Return whether a director sent it; the CE is not queried for one that registered itself."""
    return hasattr(pilot, "secret")


def _handle(pilot: Pilot) -> Handle:
    return Handle(stamp=pilot.stamp, batch_id=pilot.batch_id)


def _queue_of(pilot: Pilot) -> Queue:
    if pilot.queue is None:
        raise AssertionError("only pilots at queues are checked")
    return pilot.queue
