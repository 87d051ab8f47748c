"""Submission of jobs: one transaction, all or nothing.

At the end every job waits in its task queue, or is Checking if no site may run it because of its input data.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from taskqueues.domain.definition import JobRequirements, QueueDefinition
from taskqueues.services import queueing, quotas
from taskqueues.services.queueing import WaitingJob
from wms.accounts.models import Group, User
from wms.accounts.services import acting_group, left_for
from wms.jobs.domain.data import WAITS_FOR_REPLICAS, narrowed
from wms.jobs.domain.description import JobDescription, as_stored
from wms.jobs.domain.findings import Finding, FindingOfJobs
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.placeholders import JobIds
from wms.jobs.domain.request import RequestedJob, SubmissionIn
from wms.jobs.models import Submission
from wms.jobs.queries import group_of_last_job
from wms.jobs.services import canaries, notices, retries, transitions
from wms.jobs.services.enqueueing import queue_definition
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.output_names import plan_output_names
from wms.jobs.services.optimizers.steps import optimize, requirements_of
from wms.jobs.services.submission_limits import count_in_day, refuse_too_many_waiting, warn_of_outputs
from wms.jobs.sql.arrivals import NewJob, NewKind, acted_in_groups_left, copy_rows, insert_submission, reserve_job_ids
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError
from wms.kernel.life import LifeEvent, tell


class RequestIdConflictError(ConflictError):
    """The request id was used for a different request."""

    code = "request_id_conflict"


class SubmittedJob(NamedTuple):
    """The response for one job."""

    id: int
    status: str
    #: Id of the task queue in which it waits; None: it is Checking, until its input data are available.
    task_queue: int | None


class QueuedJobs(NamedTuple):
    """Jobs of one request that wait in one task queue."""

    task_queue_id: int
    definition: QueueDefinition
    #: Description of the first of them, as it is stored, as JSON text.
    description: str
    first_id: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionResult:
    """The response to a submission."""

    job_group_id: UUID
    jobs: Sequence[SubmittedJob]
    #: Sentences on jobs that are accepted but probably not as intended.
    warnings: Sequence[str]
    group: Group
    #: Those of the warnings that have a place.
    findings: Sequence[FindingOfJobs] = ()
    #: The jobs that wait now, which the response does not show; empty: it repeats an earlier one.
    queued: Sequence[QueuedJobs] = field(default=(), compare=False)


def jobs_in_words(first_id: int, jobs: int) -> str:
    """Return the jobs of a request that a warning is about, such as "Job 69 and 2 more"."""
    return f"Job {first_id}{f' and {jobs - 1} more' if jobs > 1 else ''}"


@transaction_required
def accept(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionResult:
    """Accept the jobs of *request*; afterwards each is Waiting in its task queue, or Checking in none.

    Idempotency key: a request with an id that *owner* used before returns the first response and changes nothing.

    Args:
        request, owner, now: the parsed request, the owner of its jobs, and its time.

    Raises:
        RequestIdConflictError: the id was used for a different request.
        InvalidDescriptionError: a job requires something that does not exist, or waits for its input data and is to be
            held for a canary.
        SurelyFailsError: a job would fail when it starts, and the request is strict.
        RejectedError: the group to act in is wrong; with errors of ``group``.
        QuotaExceededError: more jobs would wait than a quota or WMS_MAX_WAITING_JOBS_PER_USER allows.
        DayExceededError: the owner would make more in this day than a user may.
        AlreadyRetriedError: a job that they retry was retried in the meantime.
    """
    if request.request_id is not None and (earlier := _earlier(request, owner=owner)):
        return _answered(earlier, request)
    group = acting_group(owner, request.group)
    submission = Submission(
        owner=owner, group=group, submitted_at=now, request_id=request.request_id, body_digest=request.digest
    )
    # First, so that a second request with the same id waits here for the outcome of the first.
    if not insert_submission(submission):
        return _answered(Submission.objects.get(owner=owner, request_id=request.request_id), request)
    arrival = Arrival(
        owner=owner,
        group=group,
        jobs=tuple(request.jobs),
        now=now,
        strict=request.strict,
        has_held_jobs=request.has_held_jobs,
    )
    arrival.warn_of_all(request.warnings)
    if request.group is None:
        _warn_of_other_group(arrival)
    optimize(arrival)
    refuse_too_many_waiting(owner, group, coming=len(arrival.jobs))
    coming = Counter(job.common.job_type for job in arrival.jobs)
    quotas.refuse_beyond(vo_id=arrival.vo.pk, group_id=group.pk, owner_id=owner.pk, coming=coming)
    if request.predecessors:
        retries.lock_predecessors(request.predecessors)
    result = _insert(submission, arrival, canary_positions=request.canaries)
    if request.predecessors:
        retries.note_retries([job.id for job in result.jobs], request.predecessors)
    notices.expect(submission, owner=owner)
    if request.request_id is not None:
        Submission.objects.filter(pk=submission.pk).update(answer=_as_answer(result))
    tell(
        LifeEvent.JOB_SUBMITTED,
        job=[job.id for job in result.jobs],
        submission=submission.pk,
        user=owner.username,
        group=group.name,
        vo=arrival.vo.name,
    )
    return result


def _warn_of_other_group(arrival: Arrival) -> None:
    """Warn if the last job of the owner was in a group that the owner has left."""
    # For nearly all users no job need be read.
    acted_in = group_of_last_job(arrival.owner) if acted_in_groups_left(arrival.owner.pk) else None
    if sentence := left_for(arrival.group, arrival.owner, acted_in=acted_in):
        arrival.warn(sentence)


def _insert(submission: Submission, arrival: Arrival, *, canary_positions: Sequence[int]) -> SubmissionResult:
    job_ids = reserve_job_ids(len(arrival.jobs))
    kinds = _Kinds(arrival)
    jobs = [kinds.new_job(requested, job_id) for job_id, requested in zip(job_ids, arrival.jobs, strict=True)]
    first = [job_ids[position] for position in canary_positions]
    held = set(job_ids) - set(first) if first else set()
    described_bytes = partial(_description_bytes, [new for new, _ in jobs])
    left = count_in_day(arrival.owner, arrival.group, jobs=len(jobs), description_bytes=described_bytes)
    for sentence in filter(None, [left, warn_of_outputs(arrival.owner)]):
        arrival.warn(sentence)
    transitions.arrive([new for new, _ in jobs], submission=submission, source=arrival.owner.username, now=arrival.now)
    if arrival.input_sandboxes:
        copy_rows(
            "jobs_inputsandbox",
            ("job_id", "sandbox_id", "file_name"),
            (
                (job_id, named.sandbox.pk, named.file_name)
                for job_id, requested in zip(job_ids, arrival.jobs, strict=True)
                for named in arrival.input_sandboxes.get(requested.common.input_sandbox, ())
            ),
        )
    if held:
        canaries.hold(sorted(held), submission=submission, canaries=first, now=arrival.now)
    waiting = [
        WaitingJob(new.id, definition, new.kind.priority)
        for new, definition in jobs
        if definition is not None and new.id not in held
    ]
    task_queue_of = queueing.enqueue(waiting, now=arrival.now)
    # Last: running jobs that store a file of such a name wait for this transaction.
    plan_output_names(arrival, job_ids)
    return SubmissionResult(
        job_group_id=submission.pk,
        jobs=[
            SubmittedJob(new.id, JobStatus.HELD if new.id in held else new.kind.status, task_queue_of.get(new.id))
            for new, _ in jobs
        ],
        warnings=list(_warnings(arrival, job_ids)),
        group=arrival.group,
        findings=arrival.findings,
        queued=_by_queue(jobs, task_queue_of),
    )


def _description_bytes(jobs: Sequence[NewJob]) -> int:
    """Return the size of the descriptions of new jobs, as if none were stored yet; equal ones are stored once."""
    kinds = {id(job.kind): job.kind for job in jobs}
    sizes = {key: len(kind.description.encode()) for key, kind in kinds.items()}
    described = {(id(job.kind), job.arguments) for job in jobs}
    return sum([sizes[key] + len(arguments) for key, arguments in described])


@transaction_required
def add_warnings(request: SubmissionIn, result: SubmissionResult, warnings: Sequence[str]) -> SubmissionResult:
    """Return the response with further warnings, which a repeated request gets too."""
    result = replace(result, warnings=[*result.warnings, *warnings])
    if warnings and request.request_id is not None:
        Submission.objects.filter(pk=result.job_group_id).update(answer=_as_answer(result))
    return result


def _warnings(arrival: Arrival, job_ids: Sequence[int]) -> Iterator[str]:
    """Yield the warnings of the optimizers; those that do not concern all jobs of the request name theirs."""
    for sentence, positions in arrival.warnings.items():
        is_of_all = len(positions) in {0, len(job_ids)}
        yield sentence if is_of_all else f"{jobs_in_words(job_ids[positions[0]], len(positions))}: {sentence}"
    if arrival.left_out:
        warnings = f"{arrival.left_out} more warning{'' if arrival.left_out == 1 else 's'}"
        yield f"{warnings} left out; explain warns of each job."


def _by_queue(
    jobs: Iterable[tuple[NewJob, QueueDefinition | None]], task_queue_of: Mapping[int, int]
) -> list[QueuedJobs]:
    """Return the waiting jobs by task queue, each with the description of its first job."""
    first: dict[int, tuple[NewJob, QueueDefinition]] = {}
    for new, definition in jobs:
        # A job that is held for a canary has a definition, and is in no task queue.
        if definition is not None and new.id in task_queue_of:
            first.setdefault(task_queue_of[new.id], (new, definition))
    count = Counter(task_queue_of.values())
    return [
        QueuedJobs(pk, definition, new.kind.description, new.id, count[pk]) for pk, (new, definition) in first.items()
    ]


class _Kinds:
    """The kinds of jobs of a request: what follows from the common part of their descriptions, once for each."""

    def __init__(self, arrival: Arrival) -> None:
        self._arrival = arrival
        self._ids = JobIds()
        #: By ``id()`` of the common part, which is kept alive here.
        self._kinds: dict[int, tuple[JobDescription, NewKind, QueueDefinition | None]] = {}
        #: Kinds with equal requirements share a task queue.
        self._definitions: dict[JobRequirements, QueueDefinition] = {}

    def new_job(self, requested: RequestedJob, job_id: int) -> tuple[NewJob, QueueDefinition | None]:
        """Return the job and the definition of its task queue; None: it does not enter one yet."""
        described = self._ids.put(requested.described, job_id, parametric=requested.parametric)
        key = id(described.common)
        if key not in self._kinds:
            self._kinds[key] = (described.common, *self._kind(described.common, requested.common))
        _, kind, definition = self._kinds[key]
        return NewJob(job_id, described.job_name, described.arguments, kind), definition

    def _kind(self, description: JobDescription, requested: JobDescription) -> tuple[NewKind, QueueDefinition | None]:
        arrival = self._arrival
        holding = arrival.input_sites.get(requested.input_data)
        sites = narrowed(requested.sites, banned_sites=requested.banned_sites, holding=holding)
        requirements = requirements_of(arrival, description, sites=sites or ())
        kind = NewKind(
            job_group=description.job_group,
            job_type=description.job_type,
            priority=description.priority,
            submit_pools=requirements.submit_pools,
            status=JobStatus.CHECKING if sites is None else JobStatus.WAITING,
            minor_status=WAITS_FOR_REPLICAS if sites is None else "",
            input_sites=holding,
            description=as_stored(description, setup=requirements.setup),
        )
        if sites is None:
            return kind, None
        if requirements not in self._definitions:
            self._definitions[requirements] = queue_definition(requirements)
        return kind, self._definitions[requirements]


# ---- Repeated requests -----------------------------------------------------------------------------------------------


def is_repeated(request: SubmissionIn, *, owner: User) -> bool:
    """Return whether *owner* used the id of the request before."""
    return request.request_id is not None and _earlier(request, owner=owner) is not None


def _earlier(request: SubmissionIn, *, owner: User) -> Submission | None:
    return Submission.objects.filter(owner=owner, request_id=request.request_id).first()


def _answered(earlier: Submission, request: SubmissionIn) -> SubmissionResult:
    if bytes(earlier.body_digest) != request.digest:
        sentence = "This request_id was used before with another body; give each new request a new one."
        raise RequestIdConflictError(sentence, errors={"request_id": [sentence]})
    answer: Mapping[str, list[list[Any]]] = earlier.answer or {"jobs": [], "warnings": []}
    return SubmissionResult(
        job_group_id=earlier.pk,
        jobs=[SubmittedJob._make(job) for job in answer["jobs"]],
        warnings=[str(warning) for warning in answer["warnings"]],
        group=earlier.group,
        findings=[FindingOfJobs(Finding(*finding), *of) for finding, *of in answer.get("findings", [])],
    )


def _as_answer(result: SubmissionResult) -> dict[str, object]:
    findings = {"findings": result.findings} if result.findings else {}
    return {"jobs": result.jobs, "warnings": result.warnings, **findings}
