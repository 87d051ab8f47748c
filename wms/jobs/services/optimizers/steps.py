"""The optimizers: steps that every job passes before it enters a task queue: sanity, input data, requirements.

Each step processes all jobs of a request together, so that ten thousand equal jobs cost little more than one.
"""

import json
from collections.abc import Sequence
from typing import Final

from resources.domain.requirements import check
from resources.queries.known_names import requirement_kinds, requirement_names, requirement_units
from taskqueues.domain.definition import JobRequirements, stated_by
from taskqueues.services import submit_pools
from wms.accounts.models import VO
from wms.jobs.domain.data import lfns_of_sandbox, narrowed
from wms.jobs.domain.description import InvalidDescriptionError, JobDescription
from wms.jobs.domain.findings import SurelyFailsError
from wms.jobs.domain.jdl import field_hint
from wms.jobs.domain.request import RequestedJob
from wms.jobs.services.enqueueing import queue_definition
from wms.jobs.services.input_data import Located
from wms.jobs.services.optimizers.arrival import Arrival
from wms.jobs.services.optimizers.sanity import check_sanity
from wms.kernel.db import transaction_required
from wms.kernel.errors import RejectedError
from wms.kernel.names import listed

#: Input files of all jobs of a request; they are looked up during the request, and indexed per job.
MAX_INPUT_FILES: Final = 200_000
#: Sets of requirements per request; the eligible queues of each are found during the request.
MAX_REQUIREMENT_SETS: Final = 100
#: Task queues that one parametric description may fill; each is compared with every offer.
MAX_TASK_QUEUES: Final = 100


def locate_input_data(arrival: Arrival) -> None:
    """Find the sites that hold all input files of each job; a file without a replica is an error (PIL §2.2).

    Files of the catalogue in the input sandbox must have a replica too, but they do not choose the site (ADR 78).
    """
    sandbox_files = {common.input_sandbox: lfns_of_sandbox(common.input_sandbox) for common in arrival.commons}
    fetching = arrival.among(lambda description: sandbox_files[description.input_sandbox])
    jobs_with_input = arrival.among(lambda description: description.input_data)
    if not jobs_with_input and not fetching:
        return
    file_count = sum(len(job.common.input_data) for job in jobs_with_input)
    file_count += sum(len(sandbox_files[job.common.input_sandbox]) for job in fetching)
    if file_count > MAX_INPUT_FILES:
        sentence = (
            f"The jobs of one request may name {MAX_INPUT_FILES} input files together, not {file_count}; send several."
        )
        arrival.refuse([*jobs_with_input, *fetching][0], "input_data", sentence)
        return
    input_files = {job.common.input_data for job in jobs_with_input}
    located = Located([*input_files, *sandbox_files.values()], vo_id=arrival.vo.pk)
    missing = {names: located.missing(names) for names in input_files}
    for job in jobs_with_input:
        if missing[job.common.input_data] and not arrival.refused_enough:
            arrival.refuse(job, "input_data", _no_replica(missing[job.common.input_data], vo=arrival.vo))
    missing = {names: located.missing(files) for names, files in sandbox_files.items()}
    for job in fetching:
        if missing[job.common.input_sandbox] and not arrival.refused_enough:
            arrival.refuse(job, "input_sandbox", _no_replica(missing[job.common.input_sandbox], vo=arrival.vo))
    arrival.input_sites = {names: located.sites(names) for names in input_files}
    nowhere = sum(_runs_nowhere(job.common, arrival) for job in jobs_with_input)
    if nowhere and arrival.has_held_jobs:
        # They leave Checking by themselves.
        sentence = "Jobs that wait for their input data cannot be held for a canary; submit them without one."
        arrival.errors["canary"] = [sentence]
    elif nowhere:
        jobs = "1 job is" if nowhere == 1 else f"{nowhere} jobs are"
        arrival.warn(
            f"{jobs} Checking, in no queue: no site where it may run holds all of its input data; "
            "it waits in a queue as soon as one does."
        )


def _no_replica(missing: Sequence[str], *, vo: VO) -> str:
    return f"No replica of {listed(missing)} is known to {vo}; register it, or correct the name."


def _runs_nowhere(description: JobDescription, arrival: Arrival) -> bool:
    holding = arrival.input_sites[description.input_data]
    return narrowed(description.sites, banned_sites=description.banned_sites, holding=holding) is None


def requirements_key(description: JobDescription) -> str:
    """Return a key that is equal for equal requirements; empty without requirements."""
    # NB: the pairs themselves are no keys: in Python 1, 1.0 and True are equal.
    return json.dumps(description.requirements) if description.requirements else ""


def requirements_of(arrival: Arrival, description: JobDescription, *, sites: tuple[str, ...]) -> JobRequirements:
    """Return the requirements of an arriving job that may run at these sites; empty: anywhere.

    Those on resources are the submit pool that is registered for them; in a rehearsal none is.
    """
    pool = arrival.pools.get(requirements_key(description))
    stated = stated_by(description) | {"sites": sites}
    return JobRequirements(
        **(stated if pool is None else stated | {"submit_pools": (pool,)}),
        owner_id=arrival.owner.pk,
        group_id=arrival.group.pk,
        vo_id=arrival.vo.pk,
        # The current default setup is stored: it must not change while the job waits.
        setup=description.setup or arrival.vo.setup,
        container=bool(description.container),
    )


def register_requirements(arrival: Arrival) -> None:
    """Register a submit pool for each distinct set of requirements (RFC7)."""
    requiring = arrival.among(lambda description: description.requirements)
    by_key = {requirements_key(job.common): job for job in reversed(requiring)}
    if not by_key:
        return
    if len(by_key) > MAX_REQUIREMENT_SETS:
        sentence = (
            f"One request may have {MAX_REQUIREMENT_SETS} different requirements, not {len(by_key)}; send several."
        )
        arrival.refuse(next(iter(by_key.values())), "requirements", sentence)
        return
    names, kinds, units = requirement_names(arrival.vo), requirement_kinds(arrival.vo), requirement_units(arrival.vo)
    for job in by_key.values():
        try:
            check(dict(job.common.requirements), known=names, kinds=kinds, units=units, hint=field_hint)
        except RejectedError as error:
            arrival.refuse_as(job, error)
        if arrival.refused_enough:
            break
    if arrival.errors or arrival.is_rehearsal:
        return
    requirement_sets = [dict(job.common.requirements) for job in by_key.values()]
    pools = submit_pools.register_all(vo=arrival.vo, requirements=requirement_sets, now=arrival.now)
    arrival.pools |= {key: pool.id for key, pool in zip(by_key, pools, strict=True)}


def bound_task_queues(arrival: Arrival) -> None:
    """Refuse a parametric description with so many different requirements that its jobs wait in very many queues.

    Sites that hold input data do not count: they are not written in the description.
    """
    kinds: dict[str, dict[object, RequestedJob]] = {}
    for job in arrival.jobs:
        if job.parametric:
            common = job.common
            stated = (*stated_by(common).values(), common.setup, bool(common.container))
            kinds.setdefault(job.path, {}).setdefault(stated, job)
    for jobs in kinds.values():
        if len(jobs) <= MAX_TASK_QUEUES:
            continue
        definitions = {
            queue_definition(requirements_of(arrival, job.common, sites=job.common.sites)) for job in jobs.values()
        }
        if len(definitions) > MAX_TASK_QUEUES:
            sentence = (
                f"These jobs would wait in {len(definitions)} task queues; one parametric description may fill "
                f"{MAX_TASK_QUEUES}. Let fewer requirements differ between its jobs, or submit several descriptions."
            )
            arrival.refuse(next(iter(jobs.values())), "parameters", sentence)


@transaction_required
def optimize(arrival: Arrival) -> None:
    """Run every step on the jobs.

    Raises:
        InvalidDescriptionError: with the errors of all jobs from the first failing step.
        SurelyFailsError: the request is strict, and some jobs would fail when they start; with their errors.
    """
    for step in (check_sanity, locate_input_data, bound_task_queues, register_requirements):
        step(arrival)
        if arrival.errors:
            raise InvalidDescriptionError(arrival.errors)
    if arrival.strict and (failures := arrival.failures):
        raise SurelyFailsError(next(iter(failures.values()))[0], errors=failures)
