"""Reports of pilots on leases, the last of which ends the lease (docs/architecture.md, Leases).

Lock order: Pilot, Job, Match. A job that returns to its task queue does so as the last locking step.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce, Greatest

from matching.models import Match
from matching.services import attempts, ordinary_reports
from matching.services.lease_ends import EndReason, end_finished, end_killed, source_of
from matching.services.ordinary_reports import LeaseRenewal
from pilots.models import Pilot
from pilots.services.reports import PilotRevokedError
from taskqueues.services.index.shared import index
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, JobCommand
from wms.jobs.services import sandboxes, transitions
from wms.kernel.db import database_now
from wms.kernel.errors import ConflictError
from wms.wire.protocol import KILL, LEASE_ENDED, NO_TAILS, RESCHEDULE_EXIT_CODE, Tails, Usage


class LeaseEndedError(ConflictError):
    """The lease has ended; the pilot must stop the payload, whose job may already run elsewhere."""

    code = LEASE_ENDED


def report_status(
    match_id: UUID, *, status: JobStatus, minor: str | None = None, application: str | None = None
) -> LeaseRenewal:
    """Set the job to Running or Completing; a job that was killed or rescheduled keeps its status.

    Raises:
        LeaseEndedError: the lease has ended; nothing has changed.
        IllegalTransitionError: the job cannot become *status* any more.
    """
    if answer := ordinary_reports.report_ordinary_status(match_id, status=status, minor=minor, application=application):
        return answer
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock_open(match_id, now=now)
        if job.status == status:
            transitions.annotate(
                job.pk,
                minor=minor,
                application=application,
                source=source_of(match),
                now=now,
                only_from=LEASED,
            )
        elif job.status in LEASED:
            transitions.move(
                job.pk, status=status, minor=minor or "", application=application, source=source_of(match), now=now
            )
        Match.objects.filter(pk=match.pk).update(reported_status=status)
        return _renewed(match, now=now)


def heartbeat(match_id: UUID, *, usage: Usage, tails: Tails, acknowledged: Collection[int]) -> LeaseRenewal:
    """Renew the lease, record the usage and the last lines of the payload, and return the commands to execute.

    An acknowledged kill command ends the lease: the payload is gone.

    Raises:
        PilotRevokedError: the credentials of the lease's pilot were revoked; nothing has changed.
        LeaseEndedError: the lease has ended; nothing has changed.
    """
    if not acknowledged and (answer := ordinary_reports.renew(match_id, usage=usage, tails=tails)):
        return answer
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock_open(match_id, now=now)
        _note_usage(job, usage, now=now)
        attempts.store_tails(job, tails)
        attempts.sample_usage(job, usage, reported_at=match.reported_at, now=now)
        if job.status == JobStatus.STALLED:
            transitions.move(
                job.pk,
                status=JobStatus(match.reported_status),
                minor="Heartbeats resumed",
                source=source_of(match),
                now=now,
            )
        obeyed = JobCommand.objects.filter(job=job, pk__in=acknowledged, acknowledged_at__isnull=True)
        killed = obeyed.filter(name=KILL).exists()
        obeyed.update(acknowledged_at=now)
        if killed:
            end_killed(match, job, now=now)
            return LeaseRenewal(commands=[], expires_at=now)
        return _renewed(match, now=now)


def finish(
    match_id: UUID,
    *,
    exit_code: int | None,
    minor: str | None,
    usage: Usage,
    output_sandbox: str | None,
    tails: Tails = NO_TAILS,
    job_at_fault: bool = False,
    supervisor_died: bool = False,
) -> JobStatus:
    """End the lease with the payload's exit code: 0 Done, 222 back to the queue, anything else Failed.

    A job that was killed or rescheduled keeps its status; usage, output and last lines are recorded all the same.
    Repeating it is harmless.

    Args:
        match_id: the lease.
        exit_code: of the payload; None: none (never started, or stopped by the watchdog).
        minor: the reason in words; None: derived from the exit code.
        usage: over the payload's whole life.
        output_sandbox: ``sha256:…`` of the archive that was uploaded for the job.
        tails: last lines of the payload.
        job_at_fault: whether it ended because the node lacks what the job itself requires; ignored if *exit_code* shows
            that the payload has run.
        supervisor_died: whether the pilot returns the job because its process for the job died.

    Returns:
        The new status of the job.

    Raises:
        LeaseEndedError: the lease has expired, or was not ended by the pilot; nothing has changed.
        UnusableSandboxError: *output_sandbox* was not uploaded for this job.
    """
    if exit_code != RESCHEDULE_EXIT_CODE:
        ended = ordinary_reports.end_ordinarily(
            match_id,
            exit_code=exit_code,
            minor=minor,
            usage=usage,
            output_sandbox=output_sandbox,
            tails=tails,
            job_at_fault=job_at_fault,
        )
        if ended is not None:
            return ended
    # Before the transaction: inside a transaction the index keeps no memo.
    memo = index.current().memo if exit_code == RESCHEDULE_EXIT_CODE else {}
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock(match_id, now=now)
        if match.end_reason == EndReason.FINISHED:
            return JobStatus(job.status)
        if match.ended_at is not None and not _is_last_word(match, job):
            raise _ended(match)
        _note_usage(job, usage, now=now)
        attempts.store_tails(job, tails)
        _note_output(job, output_sandbox, exit_code=exit_code)
        if match.ended_at is None:
            end_finished(
                match,
                job,
                exit_code=exit_code,
                minor=minor,
                job_at_fault=job_at_fault,
                supervisor_died=supervisor_died,
                now=now,
                memo=memo,
            )
        return JobStatus(Job.objects.values_list("status", flat=True).get(pk=job.pk))


def open_job(match_id: UUID) -> Job:
    """Return the job of an open lease, with its owner and VO.

    Raises:
        PilotRevokedError: the credentials of the lease's pilot were revoked.
        LeaseEndedError: the lease has ended.
    """
    match = Match.objects.select_related("job__owner", "job__vo", "job__stored_description", "pilot").get(pk=match_id)
    if match.pilot.revoked_at is not None:
        raise _revoked()
    if match.ended_at is not None:
        raise _ended(match)
    return match.job


def _lock(match_id: UUID, *, now: datetime) -> tuple[Match, Job]:
    seen = Match.objects.only("job_id", "pilot_id").get(pk=match_id)
    # Pilot first: the lock order.
    alive = Pilot.objects.filter(pk=seen.pilot_id, revoked_at__isnull=True).update(last_seen_at=now)
    if not alive:
        raise _revoked()
    job = Job.objects.select_for_update(of=("self",)).get(pk=seen.job_id)
    match = Match.objects.select_for_update(of=("self",)).get(pk=match_id)
    return match, job


def _lock_open(match_id: UUID, *, now: datetime) -> tuple[Match, Job]:
    match, job = _lock(match_id, now=now)
    if match.ended_at is not None:
        raise _ended(match)
    return match, job


def _revoked() -> PilotRevokedError:
    return PilotRevokedError("The credentials of this pilot were revoked; stop the payload and leave.")


def _ended(match: Match) -> LeaseEndedError:
    return LeaseEndedError(f"This lease has ended ({match.end_reason}); stop the payload, and request another job.")


def _is_last_word(match: Match, job: Job) -> bool:
    """Return whether a pilot that executed a kill command may still add usage and output: it had the job last."""
    obeyed = match.end_reason == EndReason.KILLED and job.status == JobStatus.KILLED
    return obeyed and not Match.objects.filter(job=job, leased_at__gt=match.leased_at).exists()


def _renewed(match: Match, *, now: datetime) -> LeaseRenewal:
    # Never shorter: the expirer may have extended it after its own outage.
    lease_end = now + timedelta(seconds=settings.WMS_LEASE_S)
    expires_at = lease_end if match.reported_at is None else max(match.expires_at, lease_end)
    Match.objects.filter(pk=match.pk).update(expires_at=expires_at, reported_at=now)
    # Uses index: command_to_be_obeyed
    commands = JobCommand.objects.filter(job=match.job_id, acknowledged_at__isnull=True)
    return LeaseRenewal(commands=list(commands.order_by("pk")), expires_at=expires_at)


def _note_usage(job: Job, usage: Usage, *, now: datetime) -> None:
    columns: dict[str, object] = {"heartbeat_at": now}
    # The highest value: reports may arrive late.
    for column, value in (
        ("cpu_s", usage.cpu_s),
        ("wall_s", usage.wall_s),
        ("max_memory_mb", usage.memory_mb),
        ("max_disk_mb", usage.disk_mb),
    ):
        if value is not None:
            columns[column] = Greatest(Coalesce(F(column), Value(value)), Value(value))
    Job.objects.filter(pk=job.pk).update(**columns)


def _note_output(job: Job, reference: str | None, *, exit_code: int | None) -> None:
    output = None if reference is None else sandboxes.output_of(job, reference=reference)
    Job.objects.filter(pk=job.pk).update(exit_code=exit_code, output_sandbox=output)
