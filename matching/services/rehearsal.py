"""The rehearsal of a submission: its errors, its warnings and the queues that its jobs fit; nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from matching.queries.fit_of_description import Fit, fit_of_description
from taskqueues.domain.definition import JobRequirements, QueueDefinition, stated_by
from taskqueues.services.index.shared import index
from wms.accounts.models import User
from wms.jobs.domain.data import narrowed
from wms.jobs.domain.description import DescriptionParts, as_json
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services import rehearsal
from wms.jobs.services.enqueueing import queue_definition
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.sandboxes import NamedSandbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The answer that a submission would get now."""

    jobs: int
    first: DescriptionParts
    last: DescriptionParts
    #: {field: sentences}; empty: the submission would be accepted, unless a quota is full.
    errors: Mapping[str, Sequence[str]]
    warnings: Sequence[str]
    #: Of the first job; None: there are errors, or no site where it may run holds its input data.
    fit: Fit | None


def rehearse(
    request: SubmissionIn, *, owner: User, coming_files: Mapping[str, NamedSandbox], now: datetime
) -> Rehearsal:
    """Return what a submission of *request* would be answered now, and how many queues its first job fits.

    Args:
        request: the parsed request.
        owner: the owner of the jobs.
        coming_files: {reference in the request: file that is not uploaded yet}; its row is not saved.
        now: the time of the request.

    Raises:
        RejectedError: the group to act in is wrong; with errors of ``group``.
    """
    # Before the transaction: inside a transaction the index would be read again.
    memo = index.current().memo
    arrival = rehearsal.rehearse(request, owner=owner, coming_files=coming_files, now=now)
    first, last = arrival.jobs[0].described, arrival.jobs[-1].described
    definition = None if arrival.errors else _definition(arrival)
    fit = None
    if definition is not None:
        stated = {**as_json(first.common), "setup": definition.setup}
        fit = fit_of_description(definition, owner=owner, group=arrival.group, description=stated, memo=memo, now=now)
    return Rehearsal(
        jobs=len(arrival.jobs),
        first=first,
        last=last,
        errors=arrival.errors,
        warnings=list(arrival.warnings),
        fit=fit,
    )


def _definition(arrival: Arrival) -> QueueDefinition | None:
    """Return the definition of the task queue that the first job would enter; None: none yet."""
    description = arrival.jobs[0].common
    holding = arrival.input_sites.get(description.input_data)
    sites = narrowed(description.sites, banned_sites=description.banned_sites, holding=holding)
    if sites is None:
        return None
    return queue_definition(
        JobRequirements(
            **(stated_by(description) | {"sites": sites}),
            owner_id=arrival.owner.pk,
            group_id=arrival.group.pk,
            vo_id=arrival.vo.pk,
            setup=description.setup or arrival.vo.setup,
            container=bool(description.container),
        )
    )
