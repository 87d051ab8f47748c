"""A directory of sandboxes, and three sites with files, for tests of jobs that read files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pytest_django import Settings

from matching.queries.invariants import violations
from resources.domain.files import GivenReplica
from resources.models import Site, StorageElement
from resources.services import replicas
from taskqueues.models import QueuedJob
from tests import factories
from tests.factories import NOW, submit
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services.submission import SubmissionResult


@pytest.fixture
def directory(settings: Settings, tmp_path: Path) -> Path:
    """Return the directory of this test's sandboxes."""
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    return tmp_path


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Three sites, each with a storage element of its name; Alice submits, Olga registers replicas."""

    vo: VO
    group: Group
    alice: User
    olga: User
    sites: Mapping[str, Site]
    elements: Mapping[str, StorageElement]

    def hold(self, **where: Sequence[str]) -> None:
        """Register files: each keyword is one, ``a`` is /lhcb/a, with the sites that get a replica."""
        told = [
            GivenReplica(lfn=f"/lhcb/{file}", storage_element=self.elements[site].name)
            for file, sites in where.items()
            for site in sites
        ]
        replicas.register(told, vo_name="lhcb", by=self.olga)

    def lose(self, file: str, site: str = "") -> None:
        element = self.elements[site].name if site else ""
        replicas.remove([GivenReplica(lfn=f"/lhcb/{file}", storage_element=element)], vo_name="lhcb", by=self.olga)

    def submit(self, *files: str, **described: object) -> SubmissionResult:
        body = {"executable": "run", "input_data": [f"/lhcb/{file}" for file in files], **described}
        return submit(parse_submission(body), owner=self.alice, now=NOW)

    def job(self, *files: str, **described: object) -> int:
        return self.submit(*files, **described).jobs[0].id


@pytest.fixture
def sample() -> SampleData:
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    sites = {name: factories.make_site(name=name, vos=[vo]) for name in ("CERN", "RAL", "PIC")}
    return SampleData(
        vo=vo,
        group=group,
        alice=factories.make_user(username="alice", groups=[group]),
        olga=factories.make_user(operator=True),
        sites=sites,
        elements={
            name: factories.make_storage_element(name=f"{name}-disk", sites=[site]) for name, site in sites.items()
        },
    )


def sites_of(job_id: int) -> list[str] | None:
    """Return the sites of the job's task queue; None: the job is in none."""
    queued = QueuedJob.objects.select_related("task_queue").filter(pk=job_id).first()
    return None if queued is None else queued.task_queue.sites


def broken() -> list[str]:
    """Return the violated invariants, except that of priorities, which are stale until the next recalculation."""
    return [each.invariant for each in violations() if "priorities" not in each.invariant]


def status_of(job_id: int) -> tuple[str, str]:
    job = Job.objects.get(pk=job_id)
    return job.status, job.minor_status
