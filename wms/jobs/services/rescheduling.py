"""Back into the queue: what was rescheduled waits again as soon as no pilot can run it any more (DESIGN §3.1)."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.conf import settings

from resources.queries.places import place_in_words
from taskqueues.domain.held_back import HeldBack
from taskqueues.services import avoided_places
from taskqueues.services.avoided_places import GivenBack
from wms.jobs.domain.lifecycle import LEASED, JobStatus, sources_of
from wms.jobs.models import Job, JobCommand
from wms.jobs.services import enqueueing, transitions
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, WmsError
from wms.kernel.time_texts import to_the_second

_MINOR_LENGTH: Final = 255


class RescheduleLimitError(ConflictError):
    """The job went back to its queue as often as this system allows (WMS_MAX_RESCHEDULES)."""

    code = "reschedule_limit"


@transaction_required
def requeue(
    job_ids: Iterable[int],
    *,
    source: str,
    now: datetime,
    minor: str = "",
    held_back: Mapping[int, HeldBack] = MappingProxyType({}),
) -> frozenset[int]:
    """Let Rescheduled jobs wait again; call it when no lease on them is open. Returns those that now wait.

    Jobs in another status (killed meanwhile) are left alone. It is the last step of a transaction that locks task
    queues, so give all jobs of a transaction in one call.

    Args:
        job_ids: in any order.
        source: who or what caused it, for the history.
        now: the time of the change.
        minor: new minor status.
        held_back: {job: when and where it may be matched}; a job that is missing may be at once and everywhere.
    """
    recorded = transitions.record(
        job_ids, status=JobStatus.WAITING, minor=minor, source=source, now=now, only_from={JobStatus.RESCHEDULED}
    )
    # An order to the pilot that held it must not reach the next one.
    JobCommand.objects.filter(job__in=recorded.moved, acknowledged_at__isnull=True).delete()
    enqueueing.put_back_in_queues(
        list(Job.objects.filter(pk__among=recorded.moved.keys())), now=now, held_back=held_back
    )
    return frozenset(recorded.moved)


@transaction_required
def reschedule_or_fail(
    job_id: int, *, minor: str, source: str, now: datetime, given_back: GivenBack | None = None, deaths: int = 0
) -> JobStatus:
    """Put a job whose lease has just ended without a result back into its queue, or fail it after too many times.

    A job that its owner rescheduled while the pilot held it waits again; one that was killed stays as it is.

    Args:
        job_id: the job; no lease on it may stay open.
        minor: why, at most 255 characters.
        source: who or what caused it, for the history.
        now: the time of the change.
        given_back: by which places; None: it waits for nothing and avoids no place.
        deaths: so many pilots, or their processes for the job, died so far while its payload ran.

    Returns:
        The status of the job after it: Waiting, Failed, or an end that it had before.
    """
    job = Job.objects.select_related("vo").select_for_update(of=("self",)).get(pk=job_id)
    status = JobStatus(job.status)
    if status in LEASED and 0 < settings.WMS_MAX_PILOT_DEATHS <= deaths:
        poison = f"{minor}: the pilot, or its process for the job, died {deaths} times while the payload ran"
        transitions.move(job_id, status=JobStatus.FAILED, minor=poison[:_MINOR_LENGTH], source=source, now=now)
        return JobStatus.FAILED
    if status in LEASED and job.reschedules >= settings.WMS_MAX_RESCHEDULES:
        exhausted = f"{minor} (and rescheduled {job.reschedules} times before)"
        transitions.move(job_id, status=JobStatus.FAILED, minor=exhausted[:_MINOR_LENGTH], source=source, now=now)
        return JobStatus.FAILED
    if status in LEASED:
        transitions.move(job_id, status=JobStatus.RESCHEDULED, minor=minor, application="", source=source, now=now)
    elif status is not JobStatus.RESCHEDULED:
        return status
    held_back = None
    if given_back is not None and status in LEASED:  # else it is somebody's wish, which is done at once
        definition = enqueueing.definition_of(job)
        held_back = avoided_places.held_back(definition, given_back, vo=job.vo, reschedules=job.reschedules, now=now)
    requeue(
        [job_id],
        source=source,
        now=now,
        minor=minor if held_back is None else _with_wait(minor, held_back, now=now),
        held_back={} if held_back is None else {job_id: held_back},
    )
    return JobStatus.WAITING


@transaction_required
def reschedule(job_ids: Collection[int], *, source: str, now: datetime) -> tuple[frozenset[int], dict[int, WmsError]]:
    """Reschedule jobs on somebody's wish; those that a pilot holds wait again when it has let go of them.

    Args:
        job_ids: in any order.
        source: whose wish, for the history.
        now: the time of the change.

    Returns:
        The jobs that were rescheduled, and for each other one why not.
    """
    locked = Job.objects.filter(pk__among=frozenset(job_ids)).order_by("pk").select_for_update(of=("self",))
    refused: dict[int, WmsError] = {
        job_id: RescheduleLimitError(f"Job {job_id} was rescheduled {times} times already; submit it anew instead.")
        for job_id, status, times in locked.values_list("pk", "status", "reschedules")
        if times >= settings.WMS_MAX_RESCHEDULES and status in sources_of(JobStatus.RESCHEDULED)
    }
    recorded = transitions.record(
        frozenset(job_ids) - refused.keys(),
        status=JobStatus.RESCHEDULED,
        minor=f"Rescheduled by {source}",
        application="",
        source=source,
        now=now,
    )
    order_to_kill(held(recorded), now=now)
    requeue(recorded.moved.keys() - held(recorded), source=source, now=now)
    refused |= recorded.errors(JobStatus.RESCHEDULED)
    return frozenset(recorded.moved), refused


def _with_wait(minor: str, held_back: HeldBack, *, now: datetime) -> str:
    """Return the reason of a reschedule with what the job waits for, within the length of a minor status."""
    waits = f"waits until {to_the_second(held_back.not_before)}" if held_back.not_before > now else ""
    if held_back.avoided_queue_ids:
        place = place_in_words(held_back.avoided_queue_ids[-1], host=held_back.avoided_host)
        waits = f"{waits}{', then' if waits else 'goes'} elsewhere than {place} first"
    return f"{minor[: max(0, _MINOR_LENGTH - len(waits) - 2)]}; {waits}"[:_MINOR_LENGTH]


def held(recorded: transitions.Recorded) -> frozenset[int]:
    """Return the jobs that a pilot held before the change, and whose lease is still open."""
    return frozenset(job_id for job_id, before in recorded.moved.items() if before in LEASED)


@transaction_required
def order_to_kill(job_ids: Collection[int], *, now: datetime) -> None:
    """Tell the pilots that hold the jobs to stop them; they hear it with their next heartbeat."""
    JobCommand.objects.bulk_create(JobCommand(job_id=job_id, name="kill", created_at=now) for job_id in sorted(job_ids))
