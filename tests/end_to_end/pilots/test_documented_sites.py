"""Each computing element of the guide for sites runs a job by a real pilot, in the form in which the guide shows it.

Only names of sites, addresses, accounts and paths are replaced. One system sends pilots to all of them.
"""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilots.backends.local import dismiss
from tests.backends.htcondor.pool import htcondor_pool
from tests.end_to_end.docs.fences import titled
from tests.end_to_end.pilots.grid import OFTEN, running_system, until
from tests.payload_environment import ARGUMENTS, EXECUTABLE, check_environment
from tests.programs import directory_of_agents
from tests.slurm import SlurmCluster, slurm_cluster
from tests.ssh import ssh_host

#: Of the guide's queue, in the words of Slurm.
FOUR_DAYS = "4-00:00:00"
#: Options of which a site has other values.
OF_A_SITE = frozenset({"host", "port", "user", "identity_file", "known_hosts", "directory", "environment"})
SLURM, SSH, HTCONDOR = "LCG.Slurm.org", "LCG.SSH.org", "LCG.HTCondor.org"
Options = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedSites:
    """Sites of the guide, with their options replaced."""

    directory: Path
    sites: Sequence[Mapping[str, Any]]

    def configuration(self) -> Mapping[str, Any]:
        """Return the configuration: the sites, and alice."""
        return {
            "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
            "groups": [{"name": "physics", "vo": "lhcb", "priority": 1000}],
            "users": [{"username": "alice", "password": "alice-of-the-tests", "groups": ["physics"]}],
            "sites": self.sites,
        }


def documented(file: str, name: str, replaced: Callable[[Options], Options]) -> Mapping[str, Any]:
    """Return the site of a file of the guide under another name, with the options of its CE replaced."""
    (site,) = yaml.safe_load(titled("sites.md", file))["sites"]
    (ce,) = site["ces"]
    ce["options"] = replaced(ce["options"])
    return {**site, "name": name}


def of_this_machine(real: Mapping[str, object], directory: Path) -> Callable[[Options], Options]:
    """Return what gives the options that differ from site to site the values of a server of the tests."""

    def replaced(options: Options) -> Options:
        values = {**real, "directory": str(directory)}
        assert values.keys() >= options.keys() & OF_A_SITE
        return {name: values[name] if name in OF_A_SITE else value for name, value in options.items()}

    return replaced


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    with directory_of_agents() as directory:
        yield directory


class Institute:
    """The batch systems of the sites, the system that sends pilots to them, and a job of alice for each site."""

    def __init__(self, directory: Path, running: ExitStack) -> None:
        self.directory = directory
        self.missing: dict[str, str] = {}
        self.cluster: SlurmCluster | None = None
        sites = {}
        for name, site in ((SLURM, self._slurm), (SSH, self._ssh), (HTCONDOR, self._htcondor)):
            try:
                sites[name] = site(running)
            except pytest.skip.Exception as missing:
                self.missing[name] = str(missing)
        documented_sites = DocumentedSites(directory=directory, sites=list(sites.values()))
        self.system = running.enter_context(running_system(documented_sites, OFTEN))
        self._jobs = {name: self._submit(name) for name in sites}

    def runs_its_job(self, site: str) -> dict[str, Any]:
        """Wait until the job of the site has ended well there; return its pilot."""
        if site in self.missing:
            pytest.skip(self.missing[site])
        system, job_id = self.system, self._jobs[site]
        until(
            lambda: system.job("alice", job_id)["status"] == "Done",
            what=lambda: (system.job("alice", job_id), system.rows("SELECT trouble, shortfalls FROM pilots_cehealth")),
        )
        assert system.job("alice", job_id)["site"] == site
        with tarfile.open(fileobj=io.BytesIO(system.output_of("alice", job_id))) as output:
            printed = output.extractfile("std.out")
            assert printed is not None
            check_environment(printed.read().decode(), WMS_SITE=site, WMS_JOB_ID=str(job_id), WMS_JOB_OWNER="alice")
        (health,) = system.rows(
            "SELECT shortfalls FROM pilots_cehealth h JOIN resources_computingelement c ON c.id = h.ce_id"
            " JOIN resources_site s ON s.id = c.site_id WHERE s.name = %s",
            site,
        )
        assert health["shortfalls"] == ""
        (pilot,) = system.rows(
            "SELECT p.stamp, p.batch_id FROM pilots_pilot p JOIN matching_match m ON m.pilot_id = p.id"
            " WHERE m.job_id = %s",
            job_id,
        )
        return pilot

    def _slurm(self, running: ExitStack) -> Mapping[str, Any]:
        self.cluster = running.enter_context(slurm_cluster("institute", self._made("cluster"), main_time=FOUR_DAYS))
        host = running.enter_context(ssh_host(self._made("login")))
        real = {**host.options, "environment": self.cluster.environment}
        return documented("slurm.yaml", SLURM, of_this_machine(real, self.directory / "slurm"))

    def _ssh(self, running: ExitStack) -> Mapping[str, Any]:
        host = running.enter_context(ssh_host(self._made("farm")))
        # Pilots of hosts outlive the system; they are found as those of this machine are.
        running.callback(dismiss, self.directory / "ssh")
        return documented("ssh.yaml", SSH, of_this_machine(host.options, self.directory / "ssh"))

    def _htcondor(self, running: ExitStack) -> Mapping[str, Any]:
        pool = running.enter_context(htcondor_pool(self._made("pool")))

        def replaced(options: Options) -> Options:
            # The pool's programs are reached without SSH, which the other sites show.
            here = {name: value for name, value in options.items() if name not in OF_A_SITE}
            return {**here, "programs": str(pool.programs)}

        return documented("htcondor.yaml", HTCONDOR, replaced)

    def _submit(self, site: str) -> int:
        """Submit a job that states its site, and else as little as most users do."""
        job = {"executable": EXECUTABLE, "arguments": ARGUMENTS, "sites": [site]}
        (job_id,) = self.system.submit("alice", job)
        return job_id

    def _made(self, name: str) -> Path:
        (made := self.directory / name).mkdir()
        return made


@pytest.fixture(scope="module")
def institute(directory: Path) -> Iterator[Institute]:
    with ExitStack() as running:
        yield Institute(directory, running)


def test_the_documented_slurm_ce_runs_a_job(institute: Institute) -> None:
    pilot = institute.runs_its_job(SLURM)
    assert institute.cluster is not None
    job = institute.cluster.shown(pilot["batch_id"])
    assert (job["JobName"], job["Account"], job["Features"], job["TimeLimit"]) == (
        f"wms-{pilot['stamp']}", "wms", "el9", FOUR_DAYS,
    )  # fmt: skip
    assert (institute.directory / "slurm" / pilot["stamp"] / "pilot.log").exists()
    institute.cluster.run("scancel", "--user", job["UserId"].partition("(")[0])


def test_ssh(institute: Institute) -> None:
    pilot = institute.runs_its_job(SSH)
    of_ce = institute.directory / "ssh" / SSH / "farm.institute.org"
    assert (of_ce / pilot["stamp"] / "pilot.log").exists()


def test_the_documented_htcondor_ce_runs_a_job(institute: Institute) -> None:
    institute.runs_its_job(HTCONDOR)
