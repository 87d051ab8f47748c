"""The input-data step: finds the sites that hold all input files of a job (PIL §2.2)."""

from collections.abc import Sequence
from typing import Final

from wms.accounts.models import VO
from wms.jobs.domain.data import narrowed
from wms.jobs.domain.description import JobDescription
from wms.jobs.domain.request import RequestedJob
from wms.jobs.services.input_data import Located
from wms.jobs.services.optimizers.arrival import Arrival
from wms.kernel.names import listed

#: Input files of all jobs of a request; they are looked up during the request, and indexed per job.
MAX_INPUT_FILES: Final = 200_000


def locate_input_data(arrival: Arrival) -> None:
    """Find the sites that hold all input files of each job; a file without a replica is an error (PIL §2.2)."""
    jobs_with_input = arrival.among(lambda description: description.input_data)
    if not jobs_with_input:
        return
    file_count = sum(len(job.common.input_data) for job in jobs_with_input)
    if file_count > MAX_INPUT_FILES:
        sentence = (
            f"The jobs of one request may name {MAX_INPUT_FILES} input files together, not {file_count}; send several."
        )
        arrival.refuse(jobs_with_input[0], "input_data", sentence)
        return
    files_of = {job.common.input_data: _file_names(job) for job in jobs_with_input}
    located = Located(files_of.values(), vo_id=arrival.vo.pk)
    missing = {names: located.missing(files) for names, files in files_of.items()}
    for job in jobs_with_input:
        if missing[job.common.input_data] and not arrival.refused_enough:
            arrival.refuse(job, "input_data", _no_replica(missing[job.common.input_data], vo=arrival.vo))
    arrival.input_sites = {names: located.sites(files) for names, files in files_of.items()}
    nowhere = sum(_runs_nowhere(job.common, arrival) for job in jobs_with_input)
    if nowhere:
        jobs = "1 job is" if nowhere == 1 else f"{nowhere} jobs are"
        arrival.warn(
            f"{jobs} Checking, in no queue: no site where it may run holds all of its input data; "
            "it waits in a queue as soon as one does."
        )


def _file_names(job: RequestedJob) -> tuple[str, ...]:
    """Return the input files; in a parametric description %% still stands for a percent sign."""
    files = job.common.input_data
    return tuple(lfn.replace("%%", "%") for lfn in files) if job.parametric else files


def _no_replica(missing: Sequence[str], *, vo: VO) -> str:
    return f"No replica of {listed(missing)} is known to {vo}; register it, or correct the name."


def _runs_nowhere(description: JobDescription, arrival: Arrival) -> bool:
    holding = arrival.input_sites[description.input_data]
    return narrowed(description.sites, banned_sites=description.banned_sites, holding=holding) is None
