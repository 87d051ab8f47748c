"""Which sites hold the input data of jobs, by what is registered at this moment (PIL §2.2)."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from resources.domain.files import sites_with_all
from resources.queries.replicas import element_sites, holders
from wms.jobs.domain.data import narrowed
from wms.jobs.models import Job
from wms.kernel.db import transaction_required


class Located:
    """Where files of one VO are: two statements, however many jobs and files."""

    def __init__(self, lists: Collection[tuple[str, ...]], *, vo_id: int) -> None:
        """Look all files of *lists* up."""
        self._holders = holders(vo_id, {lfn for files in lists for lfn in files})
        self._sites_of = element_sites(vo_id)
        self._sites: dict[tuple[str, ...], tuple[str, ...]] = {}

    def missing(self, files: Iterable[str]) -> list[str]:
        """Return those of the files that have no replica, each once."""
        return [lfn for lfn in dict.fromkeys(files) if lfn not in self._holders]

    def sites(self, files: tuple[str, ...]) -> tuple[str, ...]:
        """Return the sites that hold each of the files, by name."""
        found = self._sites.get(files)
        if found is None:
            found = self._sites[files] = sites_with_all(files, holders=self._holders, sites_of=self._sites_of)
        return found


def locate(jobs: Sequence[Job]) -> dict[int, tuple[str, ...]]:
    """Return {job id: sites that hold all of its input data}, of those of the jobs that have some."""
    lists: dict[int, dict[int, tuple[str, ...]]] = {}
    for job in jobs:
        if job.description["input_data"]:
            lists.setdefault(job.vo_id, {})[job.pk] = tuple(job.description["input_data"])
    found: dict[int, tuple[str, ...]] = {}
    for vo_id, files_of in lists.items():
        located = Located(set(files_of.values()), vo_id=vo_id)
        found |= {job_id: located.sites(files) for job_id, files in files_of.items()}
    return found


def where(job: Job, holding: Mapping[int, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Return the sites where the job may run; empty: any; None: nowhere as yet."""
    asked = job.description
    return narrowed(asked["sites"], banned_sites=asked["banned_sites"], holding=holding.get(job.pk))


@transaction_required
def keep(jobs: Iterable[Job], holding: Mapping[int, tuple[str, ...]]) -> None:
    """Note with each job, which is locked, the sites that were found for it."""
    changed: dict[tuple[str, ...], set[int]] = {}
    for job in jobs:
        sites = holding.get(job.pk)
        if sites is not None and (job.input_sites is None or tuple(job.input_sites) != sites):
            changed.setdefault(sites, set()).add(job.pk)
    for sites, job_ids in changed.items():
        Job.objects.filter(pk__among=job_ids).update(input_sites=list(sites))
