"""Logical names of output data: two jobs of a request do not write one, and none is written twice (ADR 72)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from resources.models import OutputName, Replica
from wms.jobs.domain.data import absolute, home_of, is_own, output_names
from wms.jobs.domain.description import JobDescription
from wms.jobs.domain.lifecycle import FINAL
from wms.jobs.domain.placeholders import substitute_job_id
from wms.jobs.domain.request import RequestedJob
from wms.jobs.models import Job
from wms.jobs.services.optimizers.arrival import Arrival
from wms.kernel.db import transaction_required

#: Names of all jobs of a request, which are looked up during the request.
MAX_OUTPUT_NAMES: Final = 200_000


def check_output_names(arrival: Arrival) -> None:
    """Refuse jobs that would write a name that is registered, or that another one of the request writes."""
    writers = arrival.output_names = _writers(arrival)
    if len(writers) > MAX_OUTPUT_NAMES:
        sentence = f"The jobs of one request may write {MAX_OUTPUT_NAMES} named files together; send several requests."
        arrival.refuse(arrival.jobs[0], "output_data", sentence)
        return
    for lfn, positions in writers.items():
        if len(positions) > 1 and not arrival.refused_enough:
            _refuse_repeated(arrival, lfn, positions)
    if not writers or arrival.errors:
        return
    registered = set(Replica.objects.filter(vo=arrival.vo, lfn__in=list(writers)).values_list("lfn", flat=True))
    rows = {row.lfn: row for row in OutputName.objects.filter(vo=arrival.vo, lfn__in=list(writers))}
    for lfn in sorted(registered):
        if not arrival.refused_enough:
            _judge_registered(arrival, lfn, arrival.jobs[writers[lfn][0]], rows.get(lfn))
    _warn_of_others(arrival, [row for row in rows.values() if row.planned_id is not None], writers)


@transaction_required
def plan_output_names(arrival: Arrival, job_ids: Sequence[int]) -> None:
    """Write which names the jobs will write, so that later submissions are warned."""
    planned = [
        OutputName(vo=arrival.vo, lfn=lfn, planned_id=job_ids[positions[0]])
        for lfn, positions in sorted(arrival.output_names.items())
    ]
    OutputName.objects.bulk_create(
        planned, update_conflicts=True, unique_fields=["vo", "lfn"], update_fields=["planned_id"], batch_size=10_000
    )


def _writers(arrival: Arrival) -> Mapping[str, Sequence[int]]:
    """Return {logical name: positions of the jobs that write it}, without names that contain the id of their job."""
    home = home_of(arrival.owner.username, vo=arrival.vo.name)
    names_of: dict[int, Collection[str]] = {}
    writers: dict[str, list[int]] = {}
    for position, job in enumerate(arrival.jobs):
        key = id(job.common)
        if key not in names_of:
            names_of[key] = _fixed_names(job, home=home)
        for lfn in names_of[key]:
            writers.setdefault(lfn, []).append(position)
    return writers


def _fixed_names(job: RequestedJob, *, home: str) -> Collection[str]:
    def names(description: JobDescription) -> frozenset[str]:
        path = description.output_path and absolute(description.output_path, home=home)
        return output_names(description.output_data, path=path)

    # Two ids: what differs contains the id.
    one, another = (substitute_job_id(job.common, job_id, parametric=job.parametric) for job_id in (1, 2))
    return names(one) if one is another else names(one) & names(another)


def _refuse_repeated(arrival: Arrival, lfn: str, positions: Sequence[int]) -> None:
    job = arrival.jobs[positions[1]]
    cure = "put %n, %s or %j into it" if job.parametric else "give each job its own name, or put %j into it"
    sentence = f"{len(positions)} of these jobs would write LFN:{lfn}, and a name is written once; {cure}."
    arrival.refuse(job, "output_data", sentence)


def _judge_registered(arrival: Arrival, lfn: str, job: RequestedJob, row: OutputName | None) -> None:
    """Refuse a name that is registered, unless the job may overwrite the file, of which it is warned."""
    owner, writer = arrival.owner, None if row is None else row.writer_id
    home = home_of(owner.username, vo=arrival.vo.name)
    is_own_file = is_own(lfn, directories=[home]) if row is None or writer is None else row.owner_id == owner.pk
    by = f", by job {writer}" if writer is not None and row is not None and row.owner_id == owner.pk else ""
    if not job.common.overwrite:
        cure = (
            "choose another name, remove the file (wms files rm), or set overwrite"
            if is_own_file
            else ("choose another name")
        )
        arrival.refuse(job, "output_data", f"LFN:{lfn} is registered already{by}; {cure}.")
    elif not is_own_file:
        sentence = (
            f"LFN:{lfn} is registered already and not yours, so that it cannot be overwritten; choose another name."
        )
        arrival.refuse(job, "output_data", sentence)
    else:
        arrival.warn(f"LFN:{lfn} is registered already{by}; the job will overwrite it.")


def _warn_of_others(arrival: Arrival, planned: Iterable[OutputName], writers: Mapping[str, Sequence[int]]) -> None:
    """Warn of names that a job which has not ended will write too."""
    job_of = {row.lfn: row.planned_id for row in planned}
    unfinished = Job.objects.filter(pk__among=set(job_of.values())).exclude(status__in=FINAL)
    ids = set(unfinished.values_list("pk", flat=True))
    for lfn in sorted(lfn for lfn, job_id in job_of.items() if job_id in ids):
        sentence = (
            f"Job {job_of[lfn]}, which has not ended, writes LFN:{lfn} too; the file of the second is stored in the "
            "directory of that job."
        )
        arrival.warn(sentence, of=writers[lfn])
