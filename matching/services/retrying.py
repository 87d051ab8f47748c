"""Retrying failed jobs with changes: each gets a successor, and stays as it ended."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID

from matching.services.submission import submit
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.parsing_budget import MAX_JOBS
from wms.jobs.domain.placeholders import with_literal_ids
from wms.jobs.domain.request import FILES, FORMS, SubmissionIn, parse_submission
from wms.jobs.models import InputSandbox, Job
from wms.jobs.services import submission
from wms.jobs.services.bulk import BulkRefusal, TooManyJobsError
from wms.jobs.services.retries import AlreadyRetriedError, successors_of
from wms.jobs.services.submission import SubmissionResult
from wms.jobs.services.transitions import IllegalTransitionError
from wms.kernel.errors import ConflictError, ForbiddenError, NotFoundError, RejectedError, WmsError
from wms.wire.protocol import SANDBOX_PREFIX

#: Statuses of jobs that can be retried with changes.
RETRIED: Final = frozenset({JobStatus.FAILED, JobStatus.KILLED})
_OF_JOB: Final = re.compile(r"\Ajobs\.\d+\.")
#: What describes several jobs, or is no description.
_NOT_OF_ONE_JOB: Final = frozenset({*FORMS, FILES, "parameters", "group", "request_id"})


class NothingToRetryError(ConflictError):
    """None of the jobs can be retried with changes."""

    code = "nothing_to_retry"


class OthersJobError(ForbiddenError):
    """Only the owner of a job retries it with changes; others retry it as it is, or submit as themselves."""

    code = "others_job"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryChanges:
    """The differences of the new jobs from those that they retry."""

    #: Fields of descriptions, in the place of those of each job.
    fields: Mapping[str, object]
    #: {name: reference of an uploaded file}: in the place of the file of this name in each job, or beside the others.
    files: Mapping[str, str]
    request_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryResult:
    """The new jobs, in the order of the retried ones, and those that were not retried."""

    submission: SubmissionResult
    retried: Sequence[int]
    refused: Sequence[BulkRefusal]


def retry(job_ids: Collection[int], changes: RetryChanges, *, by: User, now: datetime) -> RetryResult:
    """Submit a job with *changes* in the place of each of the jobs, all in one submission.

    Args:
        job_ids: Failed or Killed jobs of *by*; others are refused.
        changes: the changes.
        by: the owner.
        now: the time of the submission.

    Raises:
        TooManyJobsError: there are more than one submission may have.
        NothingToRetryError: none of them can be retried.
        RejectedError, ConflictError: the changes are wrong, or as for ``submit``; nothing has changed.
    """
    if len(job_ids) > MAX_JOBS:
        sentence = f"At most {MAX_JOBS:,} jobs are retried at once, not {len(job_ids):,}; narrow the filter."
        raise TooManyJobsError(sentence, errors={"filter": [sentence]})
    _refuse_wrong(changes)
    digest = _digest(job_ids, changes)
    repeated = SubmissionIn(jobs=(), group=None, request_id=changes.request_id, digest=digest)
    if submission.is_repeated(repeated, owner=by):
        return RetryResult(submission=submit(repeated, owner=by, now=now), retried=(), refused=())
    refused = _refused(job_ids, by=by)
    jobs = [job for job in _jobs(job_ids) if job.pk not in refused]
    if not jobs:
        why = next(iter(refused.values())).detail if refused else "None matches."
        raise NothingToRetryError(f"No job is retried. {why}")
    retried = [job.pk for job in jobs]
    try:
        request = replace(_request(jobs, changes), request_id=changes.request_id, digest=digest, predecessors=retried)
        result = submit(request, owner=by, now=now)
    except RejectedError as error:
        # All jobs have the same changes: the position of one says nothing.
        error.errors = {_OF_JOB.sub("changes.", name): sentences for name, sentences in error.errors.items()}
        raise
    return RetryResult(
        submission=result,
        retried=retried,
        refused=[BulkRefusal(job_id, refused[job_id].code) for job_id in sorted(refused)],
    )


def _refuse_wrong(changes: RetryChanges) -> None:
    if not changes.fields and not changes.files:
        sentence = "Say what to change; to run the jobs again as they are, reschedule them."
        raise RejectedError(sentence, errors={"changes": [sentence]})
    if wrong := sorted(_NOT_OF_ONE_JOB & changes.fields.keys()):
        sentence = f"{wrong[0]} is no field of a single job, so it cannot be changed in each of several jobs."
        raise RejectedError(sentence, errors={"changes": [sentence]})


def _digest(job_ids: Collection[int], changes: RetryChanges) -> bytes:
    told = [sorted(job_ids), dict(changes.fields), dict(changes.files)]
    return sha256(json.dumps(told, sort_keys=True).encode()).digest()


def _jobs(job_ids: Collection[int]) -> list[Job]:
    return list(Job.objects.filter(pk__among=job_ids).with_description().select_related("group", "vo").order_by("pk"))


def _refused(job_ids: Collection[int], *, by: User) -> dict[int, WmsError]:
    visible = Job.objects.visible_to(by).filter(pk__among=job_ids)
    known = {pk: (owner_id, status) for pk, owner_id, status in visible.values_list("pk", "owner_id", "status")}
    retried = successors_of(job_ids)
    refused: dict[int, WmsError] = {}
    for job_id in job_ids:
        owner_id, status = known.get(job_id, (None, ""))
        if owner_id is None:
            refused[job_id] = NotFoundError(f"There is no job {job_id}, or you may not see it.")
        elif owner_id != by.pk:
            refused[job_id] = OthersJobError(
                f"Job {job_id} is not yours: reschedule it as it is, or submit a copy as yourself."
            )
        elif job_id in retried:
            refused[job_id] = AlreadyRetriedError(job_id, successor_id=retried[job_id])
        elif status not in RETRIED:
            refused[job_id] = IllegalTransitionError(
                f"Job {job_id} is {status}; only Failed and Killed jobs are retried with changes."
            )
    return refused


def _request(jobs: Sequence[Job], changes: RetryChanges) -> SubmissionIn:
    """Return the request for the new jobs.

    Raises:
        RejectedError: a change is wrong, or the jobs are of several groups.
    """
    groups = {job.group.name for job in jobs}
    if len(groups) > 1:
        sentence = f"These jobs are of several groups: {', '.join(sorted(groups))}; retry those of one at a time."
        raise RejectedError(sentence, errors={"filter": [sentence]})
    named = _sandboxes_named([job.pk for job in jobs], changes.files.keys())
    descriptions = [_changed(job, changes, replaced=named.get(job.pk, frozenset())) for job in jobs]
    return parse_submission({"jobs": descriptions, "group": groups.pop()})


def _sandboxes_named(job_ids: Sequence[int], names: Collection[str]) -> Mapping[int, frozenset[str]]:
    """Return {job: references of its input sandboxes that have one of the names}."""
    if not names:
        return {}
    found: defaultdict[int, set[str]] = defaultdict(set)
    # Uses index: a_job_names_a_sandbox_once
    rows = InputSandbox.objects.filter(job__in=job_ids, file_name__in=names).values_list("job_id", "sandbox__digest")
    for job_id, digest in rows:
        found[job_id].add(f"{SANDBOX_PREFIX}{digest}")
    return {job_id: frozenset(references) for job_id, references in found.items()}


def _changed(job: Job, changes: RetryChanges, *, replaced: frozenset[str]) -> dict[str, object]:
    description = {**with_literal_ids(job.description), **changes.fields}
    if description.get("setup") == job.vo.setup:
        description["setup"] = None
    references = description["input_sandbox"]
    # Anything else than a list is refused with the other fields.
    if changes.files and isinstance(references, list):
        kept = [reference for reference in references if reference not in replaced]
        description["input_sandbox"] = [*kept, *changes.files.values()]
    return description
