"""Changes of a job's description while it waits; the job moves to the task queue of its new requirements."""

import logging
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from django.db import transaction

from resources.queries.known_names import known_sites
from taskqueues.services import queueing
from wms.accounts.models import VO, User
from wms.accounts.services import take_changes
from wms.jobs.domain import description as descriptions
from wms.jobs.domain.data import narrowed
from wms.jobs.domain.description import InvalidDescriptionError, JobDescription
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import enqueueing, input_data, transitions
from wms.jobs.services.control import no_such_job, out_of_queues
from wms.jobs.services.optimizers.arrival import MAX_SENTENCES
from wms.jobs.services.submission_limits import count_in_day
from wms.jobs.services.transitions import Recorded
from wms.jobs.sql.arrivals import store_descriptions
from wms.kernel.errors import ConflictError
from wms.kernel.names import did_you_mean, listed, several_in_one

logger = logging.getLogger(__name__)

EDITABLE_FIELDS: Final = ("priority", "sites", "banned_sites", "job_name")
_SITE_FIELDS: Final = ("sites", "banned_sites")
EDITABLE_STATUSES: Final = frozenset({JobStatus.WAITING, JobStatus.HELD})


class NotEditableError(ConflictError):
    """The job is neither Waiting nor Held."""

    code = "not_editable"


@transaction.atomic(durable=True)
def edit(job_id: int, *, changes: Mapping[str, object], by: User, now: datetime) -> None:
    """Change fields of a job's description; a waiting job moves to the task queue of its new requirements.

    Args:
        job_id: the job.
        changes: {one of EDITABLE_FIELDS: new value as in descriptions}.
        by: any user who may see the job; with a token of scope ``submit`` only its owner.
        now: creation time of a new task queue.

    Raises:
        NotFoundError: there is no such job that *by* may change.
        InvalidDescriptionError: a field cannot be changed, or its new value is wrong.
        NotEditableError: the job is neither Waiting nor Held.
        RateExceededError, DayExceededError: *by* has changed as much as is allowed in this minute, or day.
    """
    take_changes(1, by=by)
    job = Job.objects.changeable_by(by).select_related("vo", "group").filter(pk=job_id).first()
    if job is None:
        raise no_such_job(job_id, by=by)
    _refuse_fields(changes)

    def change() -> Recorded:
        locked = Job.objects.with_description().select_for_update(of=("self",)).get(pk=job_id)
        if locked.status not in EDITABLE_STATUSES:
            raise NotEditableError(f"Job {job_id} is {locked.status}; only a Waiting or Held job can be changed.")
        edited = descriptions.parse({**locked.description, **changes})
        _refuse_unknown_sites(edited, changed=changes.keys(), vo=job.vo)
        _refuse_sites_without_its_files(locked, edited, changed=changes.keys())
        text = descriptions.as_stored(edited, setup=edited.setup)
        count_in_day(by, job.group, jobs=0, description_bytes=lambda: len(text.encode()))
        Job.objects.filter(pk=job_id).update(
            stored_description=store_descriptions([text])[text], job_name=edited.job_name, priority=edited.priority
        )
        transitions.note_edit(locked, fields=changes.keys(), source=by.username, now=now)
        return Recorded(moved={job_id: JobStatus(locked.status)}, refused={})

    held_back = queueing.held_back([job_id])
    before = out_of_queues([job_id], change).moved[job_id]
    if before is JobStatus.WAITING:
        enqueueing.put_back_in_queues([Job.objects.with_description().get(pk=job_id)], now=now, held_back=held_back)
    logger.info("job.edited", extra={"job_id": job_id, "by": by.username, "fields": sorted(changes)})


def _refuse_fields(changes: Mapping[str, object]) -> None:
    if not changes:
        raise InvalidDescriptionError({"body": [f"Name at least one of {', '.join(EDITABLE_FIELDS)}."]})
    errors = {}
    for name in changes.keys() - frozenset(EDITABLE_FIELDS):
        exists = name in descriptions.FIELDS
        hint = " Submit the job anew instead." if exists else did_you_mean(str(name)[:64], EDITABLE_FIELDS)
        errors[str(name)[:64]] = [f"Only {', '.join(EDITABLE_FIELDS)} can be changed.{hint}"]
    if errors:
        raise InvalidDescriptionError(errors)


def _refuse_unknown_sites(edited: JobDescription, *, changed: Collection[str], vo: VO) -> None:
    lists = {"sites": edited.sites, "banned_sites": edited.banned_sites}
    named = {name: sites for name, sites in lists.items() if name in changed and sites}
    site_names = known_sites(vo) if named else frozenset()
    errors: dict[str, list[str]] = {}
    for name, sites in named.items():
        unknown = [site for site in sites if site not in site_names]
        for site in unknown[:MAX_SENTENCES]:
            hint = several_in_one(site) or did_you_mean(site, sorted(site_names))
            errors.setdefault(name, []).append(f'No site of the VO {vo} is called "{site}".{hint}')
    if errors:
        raise InvalidDescriptionError(errors)


def _refuse_sites_without_its_files(job: Job, edited: JobDescription, *, changed: Collection[str]) -> None:
    """Refuse sites of which none has the input data: the job would be Checking and could not be edited any more."""
    named = [name for name in _SITE_FIELDS if name in changed]
    holding = input_data.locate([job]).get(job.pk)
    if named and holding and not narrowed(edited.sites, banned_sites=edited.banned_sites, holding=holding):
        sentence = f"None of these sites holds all input data of job {job.pk}; leave it one of {listed(holding)}."
        raise InvalidDescriptionError({named[0]: [sentence]})
