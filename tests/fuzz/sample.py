"""A small system in use, for all kinds of callers: users, a pilot with leases, jobs in every status."""

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID, uuid4

from django.utils import timezone

from matching.services import job_tokens, throttles
from matching.services.match import match
from matching.services.offers import OfferRequest
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_numbers
from resources.domain.enums import RequirementKind, SiteTokenPurpose, ThrottlePolicy
from resources.services.site_tokens import issue_site_token
from tests import factories
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.services import sandboxes

PASSWORD = "a long password"

#: Whose token a request carries, by the kinds that there are; the names are those of SampleData.tokens.
CALLERS = ("operator", "manager", "member", "pilot", "job", "site", "gateway", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """The ids and tokens that requests can use."""

    #: By kind of caller; None for nobody.
    tokens: Mapping[str, str | None]
    job_ids: Sequence[int]
    match_ids: Sequence[UUID]
    sandbox: str

    def headers_of(self, caller: str) -> dict[str, str]:
        """Return the headers of a request of *caller*."""
        token = self.tokens[caller]
        return {} if token is None else {"Authorization": f"Bearer {token}"}


def archive_of(**files: bytes) -> bytes:
    """Return a .tar.gz with these files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def make_sample() -> SampleData:
    """Create the system: a VO with two groups, two sites, jobs in every status and a pilot with two leases."""
    now = timezone.now()
    vo = factories.make_vo(name="lhcb", setup="LHCb-Production", setups=["LHCb-Devel"])
    users = factories.make_group(name="lhcb_user", vo=vo)
    prod = factories.make_group(name="lhcb_prod", vo=vo, shares_jobs=True)
    alice = factories.make_user(
        username="alice", groups=[users, prod], default_group=users, password=PASSWORD, dns=["/DC=ch/CN=alice"]
    )
    factories.make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY, unit="MB")
    factories.make_platform(name="x86_64-el9", runs=["x86_64-el8"])
    cern = factories.make_site(name="LCG.CERN.ch", vos=[vo], parameters={"SoftwareTag": ["v1", "v2"]})
    factories.make_site(name="LCG.RAL.uk")
    disk = factories.make_storage_element(name="CERN-DST", sites=[cern])
    factories.make_replica("/lhcb/a", vo=vo, storage_element=disk, size_bytes=5)
    queue = factories.make_queue(
        name="grid",
        ce=factories.make_ce(name="ce01.cern.ch", site=cern),
        platforms=["x86_64-el9"],
        tags=["gpu"],
        parameters={"Memory": 4000},
    )
    stored = sandboxes.upload(io.BytesIO(archive_of(run=b"x")), file_name="in.tar.gz", owner=alice, now=now)
    pilot = factories.make_pilot(vo=vo, queue=queue)
    leased = [factories.make_job(owner=alice, group=prod) for _ in range(2)]
    offered = OfferRequest(cpu_time_s=300_000, processors=2, memory_mb=4000)
    leases = match(offered, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=2, chance=Random(1))
    jobs = [
        factories.make_job(owner=alice, group=group, status=status, job_name="sim", job_group="mc")
        for group in (users, prod)
        for status in (JobStatus.WAITING, JobStatus.HELD, JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED)
    ]
    cern.throttle_policy, cern.max_submitting_jobs = ThrottlePolicy.LEVEL0, 1000
    cern.save()
    throttles.advertise(cern.pk, of_numbers({SUBMITTING: 1, GATHERING: 0, CURRENT: 2}, sequence=1))
    operator = factories.make_user(
        username="olga", groups=[users, prod], default_group=prod, operator=True, password=PASSWORD
    )
    return SampleData(
        tokens={
            "operator": factories.make_token(operator),
            "manager": factories.make_token(factories.make_user(username="mallory", manages=[vo])),
            "member": factories.make_token(alice),
            "pilot": factories.make_pilot_token(pilot),
            "job": job_tokens.issue(leases[0].match_id, job_id=leases[0].job_id, now=now),
            "site": issue_site_token(cern, purpose=SiteTokenPurpose.REGISTER, now=now),
            "gateway": issue_site_token(cern, purpose=SiteTokenPurpose.ADVERTISE, now=now),
            "nobody": None,
        },
        job_ids=[job.pk for job in (*jobs, *leased)],
        match_ids=[lease.match_id for lease in leases],
        sandbox=sandboxes.reference_of(stored.sandbox),
    )
