"""The rehearsal of a submission: its errors, its warnings and the queues that its jobs fit; nothing is written."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from django.db import transaction

from matching.domain.findings import Fit
from matching.queries.explain.comparison import Comparison
from matching.queries.fit_of_description import fit_of
from taskqueues.domain.definition import JobRequirements, QueueDefinition
from taskqueues.services.index.shared import index
from wms.accounts.models import User
from wms.accounts.services import acting_group
from wms.jobs.domain.canaries import at_each_site
from wms.jobs.domain.data import narrowed
from wms.jobs.domain.description import DescriptionParts, InvalidDescriptionError, JobDescription, as_json
from wms.jobs.domain.findings import FindingOfJobs
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services import workflows
from wms.jobs.services.enqueueing import queue_definition
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.steps import optimize, requirements_key, requirements_of
from wms.jobs.services.sandboxes import NamedSandbox
from wms.jobs.services.submission import is_repeated
from wms.kernel.memo import Memo

#: Task queues of one request that are examined, also by a submission; each is compared with every queue of the VO.
MOST_EXAMINED: Final = 100
#: Comparisons of a kind of jobs with a queue, in one rehearsal: it is repeated while the user types, and a comparison
#: takes about 40 µs unless it was made in the same minute. One kind is always compared with all queues.
MOST_COMPARED: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfJobs:
    """Jobs of one request that would enter the same task queue."""

    #: Of the jobs in the request, from 0, ascending.
    positions: Sequence[int]
    #: None: they enter no task queue yet, because no site where they may run holds their input data.
    fit: Fit | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The answer that a submission would get now."""

    jobs: int
    first: DescriptionParts
    last: DescriptionParts
    #: {field: sentences}; empty: the submission would be accepted, unless a quota is full.
    errors: Mapping[str, Sequence[str]]
    warnings: Sequence[str]
    #: Those of the warnings that have a place.
    findings: Sequence[FindingOfJobs]
    #: Those that were compared with the queues, and those in no task queue; most jobs first. Empty if there are errors.
    kinds: Sequence[KindOfJobs]
    #: Number of jobs of each kind that was not compared, because there are so many.
    uncompared: Sequence[int]


def rehearse(
    request: SubmissionIn, *, owner: User, coming_files: Mapping[str, NamedSandbox], now: datetime
) -> Rehearsal:
    """Return what a submission of *request* would be answered now, and how many queues its jobs fit.

    Jobs with the same requirements are compared with the queues once, and of many kinds those with most jobs: at most
    MOST_EXAMINED kinds, and MOST_COMPARED comparisons.

    Args:
        request: the parsed request.
        owner: the owner of the jobs.
        coming_files: {reference in the request: file that is not uploaded yet}; its row is not saved.
        now: the time of the request.

    Raises:
        RejectedError: the group to act in is wrong; with errors of ``group``.
        InvalidDescriptionError: a job of dirac-jobexec cannot be run.
        SurelyFailsError: a job would fail when it starts, and the request is strict.
    """
    # Before the transaction: inside a transaction the index would be read again.
    memo = index.current().memo
    request, coming_files = workflows.rehearsed(request, owner=owner, coming_files=coming_files, now=now)
    group = acting_group(owner, request.group)
    arrival = Arrival(
        owner=owner,
        group=group,
        jobs=tuple(request.jobs),
        now=now,
        strict=request.strict,
        has_held_jobs=request.has_held_jobs,
        coming_files=coming_files,
    )
    arrival.warn_of_all(request.warnings)
    # Its errors are those of the arrival.
    with suppress(InvalidDescriptionError), transaction.atomic():
        optimize(arrival)
    kinds, uncompared = ([], []) if arrival.errors else _compared(_kinds(arrival), arrival, memo=memo)
    if kinds and request.canary_at_each_site and not any(kind.fit is not None and kind.fit.sites for kind in kinds):
        sentence = "No site takes these jobs at present, so there is none for a canary; submit them without one."
        arrival.errors["canary"] = [sentence]
        kinds = []
    return Rehearsal(
        jobs=len(arrival.jobs),
        first=arrival.jobs[0].described,
        last=arrival.jobs[-1].described,
        errors=arrival.errors,
        warnings=list(arrival.warnings),
        findings=arrival.findings,
        kinds=kinds,
        uncompared=uncompared,
    )


def with_canaries_at_sites(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionIn:
    """Return the request with one job for each site that its jobs fit, which may run only there, as its canaries.

    A request that is repeated gets what was answered before, so nothing is chosen for it.

    Raises:
        RejectedError, SurelyFailsError: as ``rehearse``.
        InvalidDescriptionError: the rehearsal has errors; it has one if the jobs fit no site.
    """
    if is_repeated(request, owner=owner):
        return request
    rehearsal = rehearse(request, owner=owner, coming_files={}, now=now)
    if rehearsal.errors:
        raise InvalidDescriptionError({field: list(sentences) for field, sentences in rehearsal.errors.items()})
    site_of = at_each_site((kind.positions, kind.fit.sites) for kind in rehearsal.kinds if kind.fit is not None)
    jobs = list(request.jobs)
    for position, site in site_of.items():
        described = jobs[position].described
        placed = described._replace(common=replace(described.common, sites=(site,)))
        jobs[position] = jobs[position]._replace(described=placed)
    return replace(request, jobs=jobs, canaries=sorted(site_of))


@dataclass(slots=True, kw_only=True)
class _Kind:
    """A kind of jobs that is not compared yet."""

    #: Of its task queue; None: none yet.
    definition: QueueDefinition | None
    #: Of its first job.
    description: JobDescription
    positions: list[int] = field(default_factory=list)


def _compared(kinds: Sequence[_Kind], arrival: Arrival, *, memo: Memo) -> tuple[list[KindOfJobs], list[int]]:
    """Return the kinds with the queues that they fit, and the numbers of jobs of those for which it is too much."""
    pools = {pool for kind in kinds if kind.definition is not None for pool in kind.definition.submit_pools}
    comparison = Comparison(arrival.vo, submit_pools=pools, memo=memo, now=arrival.now)
    most = max(1, min(MOST_EXAMINED, MOST_COMPARED // max(1, len(comparison.queues))))
    compared: list[KindOfJobs] = []
    uncompared: list[int] = []
    for kind in sorted(kinds, key=lambda kind: -len(kind.positions)):
        fit = None
        if kind.definition is not None:
            if most == 0:
                uncompared.append(len(kind.positions))
                continue
            most -= 1
            description = {**as_json(kind.description), "setup": kind.definition.setup}
            owner, group = arrival.owner, arrival.group
            fit = fit_of(kind.definition, description, owner=owner, group=group, comparison=comparison)
        compared.append(KindOfJobs(positions=kind.positions, fit=fit))
    return compared, uncompared


def _kinds(arrival: Arrival) -> list[_Kind]:
    """Return the jobs by the task queue that they would enter, in the order of the first of each."""
    definitions: dict[JobRequirements, QueueDefinition] = {}
    #: Requirements on resources beside the definition: their submit pool is registered only with a submission.
    kinds: dict[tuple[QueueDefinition | None, str], _Kind] = {}
    #: By ``id()`` of the common part, which the arrival keeps alive.
    kind_of: dict[int, _Kind] = {}
    for position, job in enumerate(arrival.jobs):
        kind = kind_of.get(id(job.common))
        if kind is None:
            definition = _definition(job.common, arrival, definitions)
            key = (definition, "" if definition is None else requirements_key(job.common))
            kind = kinds.setdefault(key, _Kind(definition=definition, description=job.common))
            kind_of[id(job.common)] = kind
        kind.positions.append(position)
    return list(kinds.values())


def _definition(
    description: JobDescription, arrival: Arrival, definitions: dict[JobRequirements, QueueDefinition]
) -> QueueDefinition | None:
    """Return the definition of the task queue that a job would enter; None: none yet."""
    holding = arrival.input_sites.get(description.input_data)
    sites = narrowed(description.sites, banned_sites=description.banned_sites, holding=holding)
    if sites is None:
        return None
    requirements = requirements_of(arrival, description, sites=sites)
    if requirements not in definitions:
        definitions[requirements] = queue_definition(requirements)
    return definitions[requirements]
