"""Sites that hold the input data of jobs, by the replicas registered now (PIL §2.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from resources.domain.files import sites_with_all
from resources.queries.replicas import element_sites, holders
from wms.jobs.domain.data import narrowed
from wms.jobs.models import Job
from wms.kernel.db import transaction_required


class Located:
    """The sites of files of one VO; two statements for any number of jobs and files."""

    def __init__(self, lists: Collection[tuple[str, ...]], *, vo_id: int) -> None:
        """Look up all files of *lists*."""
        self._holders = holders(vo_id, {lfn for files in lists for lfn in files})
        self._sites_of = element_sites(vo_id)
        self._sites: dict[tuple[str, ...], tuple[str, ...]] = {}

    def missing(self, files: Iterable[str]) -> list[str]:
        """Return the files without a replica, each once."""
        return [lfn for lfn in dict.fromkeys(files) if lfn not in self._holders]

    def sites(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the sites that hold all of the files."""
        sites = self._sites.get(files)
        if sites is None:
            sites = self._sites[files] = sites_with_all(files, holders=self._holders, sites_of=self._sites_of)
        return sites


def locate(jobs: Sequence[Job]) -> dict[int, tuple[str, ...]]:
    """Return {job id: sites that hold all of its input data}, of the jobs with input data."""
    lists: dict[int, dict[int, tuple[str, ...]]] = {}
    for job in jobs:
        if job.description["input_data"]:
            lists.setdefault(job.vo_id, {})[job.pk] = tuple(job.description["input_data"])
    holding: dict[int, tuple[str, ...]] = {}
    for vo_id, files_of in lists.items():
        located = Located(set(files_of.values()), vo_id=vo_id)
        holding |= {job_id: located.sites(files) for job_id, files in files_of.items()}
    return holding


def where(job: Job, holding: Mapping[int, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the sites where the job may run; empty: any; None: none yet."""
    description = job.description
    return narrowed(description["sites"], banned_sites=description["banned_sites"], holding=holding.get(job.pk))


@transaction_required
def keep(jobs: Iterable[Job], holding: Mapping[int, tuple[str, ...]]) -> None:
    """Store with each job, which is locked, the sites of its input data."""
    changed: dict[tuple[str, ...], set[int]] = {}
    for job in jobs:
        sites = holding.get(job.pk)
        if sites is not None and (job.input_sites is None or tuple(job.input_sites) != sites):
            changed.setdefault(sites, set()).add(job.pk)
    for sites, job_ids in changed.items():
        Job.objects.filter(pk__among=job_ids).update(input_sites=list(sites))
