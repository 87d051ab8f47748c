"""Rescheduling: a job returns to its task queue as soon as no pilot can run it any more."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
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
from wms.kernel.memo import CachedLookups
from wms.kernel.time_texts import to_the_second
from wms.wire.protocol import KILL

_MINOR_LENGTH: Final = 255


class RescheduleLimitError(ConflictError):
    """The job was rescheduled as often as allowed (WMS_MAX_RESCHEDULES)."""

    code = "reschedule_limit"


@transaction_required
def requeue(
    job_ids: Iterable[int],
    *,
    source: str,
    now: datetime,
    minor: str | Mapping[int, str] = "",
    held_back: Mapping[int, HeldBack] = MappingProxyType({}),
) -> frozenset[int]:
    """Make Rescheduled jobs wait again, which must have no open lease; return those that now wait.

    Jobs in another status (killed meanwhile) do not change. It is the last step of a transaction, because it locks task
    queues, so pass all jobs of a transaction in one call.

    Args:
        job_ids: in any order.
        source: who or what caused it, for the history.
        now: the time of the change.
        minor: new minor status; or {job: its own}, with each of *job_ids*.
        held_back: {job: when and where it may be matched}; missing jobs may be matched at once and everywhere.
    """
    recorded = transitions.record(
        job_ids, status=JobStatus.WAITING, minor=minor, source=source, now=now, only_from={JobStatus.RESCHEDULED}
    )
    # A command to the last pilot must not reach the next one.
    JobCommand.objects.filter(job__in=recorded.moved, acknowledged_at__isnull=True).delete()
    enqueueing.put_back_in_queues(
        list(Job.objects.with_description().filter(pk__among=recorded.moved.keys())), now=now, held_back=held_back
    )
    return frozenset(recorded.moved)


@transaction_required
def reschedule_or_fail(
    minors: Mapping[int, str],
    *,
    source: str,
    now: datetime,
    given_back: Mapping[int, GivenBack] = MappingProxyType({}),
    deaths: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, JobStatus]:
    """Return jobs whose leases ended without a result to their task queues; after too many times, a job fails.

    A job that its owner rescheduled while it was leased waits again; one that was killed does not change. It is the
    last step of a transaction, as ``requeue``.

    Args:
        minors: {job without an open lease: the reason, at most 255 characters}.
        source: who or what caused it, for the history.
        now: the time of the change.
        given_back: {job: the places that gave it back}; missing jobs wait for nothing and avoid no place.
        deaths: {job: pilots, or their processes for it, that died so far while its payload ran}; missing: none.

    Returns:
        {job: new status: Waiting, Failed, or an earlier final one}.
    """
    locked = Job.objects.with_description().select_related("vo").order_by("pk").select_for_update(of=("self",))
    jobs = list(locked.filter(pk__among=minors.keys()))
    held = [job for job in jobs if job.status in LEASED]
    why_given_up = {
        job.pk: why[:_MINOR_LENGTH]
        for job in held
        if (why := _why_given_up(job, minors[job.pk], deaths=deaths.get(job.pk, 0)))
    }
    coming_back = [job for job in held if job.pk not in why_given_up]
    record = partial(transitions.record, only_from=LEASED, source=source, now=now)
    record(why_given_up, status=JobStatus.FAILED, minor=why_given_up)
    record([job.pk for job in coming_back], status=JobStatus.RESCHEDULED, minor=minors, application="")
    # Without those that a user rescheduled: that takes effect at once.
    held_back = _held_back([job for job in coming_back if job.pk in given_back], given_back, now=now)
    lookups = CachedLookups({})
    waits = {pk: _with_wait(minors[pk], its, now=now, lookups=lookups) for pk, its in held_back.items()}
    returning = [*(job.pk for job in coming_back), *(job.pk for job in jobs if job.status == JobStatus.RESCHEDULED)]
    waiting = requeue(returning, source=source, now=now, minor={**minors, **waits}, held_back=held_back)
    statuses = {job.pk: JobStatus(job.status) for job in jobs} | dict.fromkeys(waiting, JobStatus.WAITING)
    return statuses | dict.fromkeys(why_given_up, JobStatus.FAILED)


def _held_back(jobs: Sequence[Job], given_back: Mapping[int, GivenBack], *, now: datetime) -> dict[int, HeldBack]:
    definitions = enqueueing.definitions_of(jobs)
    held_back = {
        job.pk: avoided_places.held_back(
            definitions.get(job.pk), given_back[job.pk], vo=job.vo, reschedules=job.reschedules, now=now
        )
        for job in jobs
    }
    return {pk: its for pk, its in held_back.items() if its is not None}


def _why_given_up(job: Job, minor: str, *, deaths: int) -> str:
    """Return why the job is not rescheduled once more; empty: it is."""
    if 0 < settings.WMS_MAX_PILOT_DEATHS <= deaths:
        return f"{minor}: the pilot, or its process for the job, died {deaths} times while the payload ran"
    if job.reschedules >= settings.WMS_MAX_RESCHEDULES:
        return f"{minor} (and rescheduled {job.reschedules} times before)"
    return ""


@transaction_required
def reschedule(job_ids: Collection[int], *, source: str, now: datetime) -> tuple[frozenset[int], dict[int, WmsError]]:
    """Reschedule jobs on request; a leased job waits again after its lease has ended.

    Args:
        job_ids: in any order.
        source: the user, for the history.
        now: the time of the change.

    Returns:
        The rescheduled jobs, and the errors of the others.
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


def _with_wait(minor: str, held_back: HeldBack, *, now: datetime, lookups: CachedLookups) -> str:
    """Return the reason of a reschedule and what the job waits for, within the length of a minor status."""
    waits = f"waits until {to_the_second(held_back.not_before)}" if held_back.not_before > now else ""
    if held_back.avoided_queue_ids:
        place = place_in_words(held_back.avoided_queue_ids[-1], host=held_back.avoided_host, lookups=lookups)
        waits = f"{waits}{', then' if waits else 'goes'} elsewhere than {place} first"
    return f"{minor[: max(0, _MINOR_LENGTH - len(waits) - 2)]}; {waits}"[:_MINOR_LENGTH]


def held(recorded: transitions.Recorded) -> frozenset[int]:
    """Return the jobs that were leased before the change; their leases are still open."""
    return frozenset(job_id for job_id, before in recorded.moved.items() if before in LEASED)


@transaction_required
def order_to_kill(job_ids: Collection[int], *, now: datetime) -> None:
    """Write kill commands for the jobs; their pilots get them with their next heartbeats."""
    JobCommand.objects.bulk_create(JobCommand(job_id=job_id, name=KILL, created_at=now) for job_id in sorted(job_ids))
