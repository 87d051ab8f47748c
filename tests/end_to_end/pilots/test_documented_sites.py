"""Each computing element of the guide for sites runs a job by a real pilot, in the form in which the guide shows it.

Only addresses, accounts and paths are replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pilots.backends.local import dismiss
from tests.backends.htcondor.pool import htcondor_pool
from tests.end_to_end.docs.fences import titled
from tests.end_to_end.pilots.grid import SETTINGS, System, running_system, until
from tests.slurm import slurm_cluster
from tests.ssh import ssh_host

#: Of the guide's queue, in the words of Slurm.
FOUR_DAYS = "4-00:00:00"
#: Options of which a site has other values.
OF_A_SITE = frozenset({"host", "port", "user", "identity_file", "known_hosts", "directory", "environment"})
Options = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentedSite:
    """A site of the guide, with its options replaced."""

    directory: Path
    site: Mapping[str, Any]

    def configuration(self) -> Mapping[str, Any]:
        """Return the configuration: the site, and alice."""
        return {
            "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
            "groups": [{"name": "physics", "vo": "lhcb", "priority": 1000}],
            "users": [{"username": "alice", "password": "alice-of-the-tests", "groups": ["physics"]}],
            "sites": [self.site],
        }


def documented(file: str, directory: Path, replaced: Callable[[Options], Options]) -> DocumentedSite:
    """Return the site of a file of the guide, with the options of its CE replaced."""
    (site,) = yaml.safe_load(titled("sites.md", file))["sites"]
    (ce,) = site["ces"]
    ce["options"] = replaced(ce["options"])
    return DocumentedSite(directory=directory, site=site)


def of_this_machine(real: Mapping[str, object], directory: Path) -> Callable[[Options], Options]:
    """Return what gives the options that differ from site to site the values of a server of the tests."""

    def replaced(options: Options) -> Options:
        values = {**real, "directory": str(directory)}
        assert values.keys() >= options.keys() & OF_A_SITE
        return {name: values[name] if name in OF_A_SITE else value for name, value in options.items()}

    return replaced


def runs_a_job(system: System, site: str) -> None:
    """Submit a job that states nothing, as most users do; it ends well at the site."""
    (job_id,) = system.submit("alice", {"executable": "/bin/sh", "arguments": "-c 'echo here'"})
    until(
        lambda: system.job("alice", job_id)["status"] == "Done",
        what=lambda: (system.job("alice", job_id), system.rows("SELECT trouble, doubts FROM pilots_cehealth")),
    )
    assert system.job("alice", job_id)["site"] == site
    assert [row["doubts"] for row in system.rows("SELECT doubts FROM pilots_cehealth")] == [""]


def test_slurm(tmp_path: Path) -> None:
    (there := tmp_path / "cluster").mkdir()
    (keys := tmp_path / "keys").mkdir()
    with slurm_cluster("institute", there, main_time=FOUR_DAYS) as cluster, ssh_host(keys) as host:
        real = of_this_machine({**host.options, "environment": cluster.environment}, tmp_path / "pilots")
        with running_system(documented("slurm.yaml", tmp_path, real), SETTINGS) as system:
            runs_a_job(system, "LCG.Institute.org")
            (pilot,) = system.rows("SELECT stamp, batch_id FROM pilots_pilot WHERE matched_at IS NOT NULL")
            job = cluster.shown(pilot["batch_id"])
            assert (job["JobName"], job["Account"], job["Features"], job["TimeLimit"]) == (
                f"wms-{pilot['stamp']}", "wms", "el9", FOUR_DAYS,
            )  # fmt: skip
            assert (tmp_path / "pilots" / pilot["stamp"] / "pilot.log").exists()
            cluster.run("scancel", "--user", job["UserId"].partition("(")[0])


def test_ssh(tmp_path: Path) -> None:
    (keys := tmp_path / "keys").mkdir()
    with ssh_host(keys) as host:
        real = of_this_machine(host.options, tmp_path / "pilots")
        with running_system(documented("ssh.yaml", tmp_path, real), SETTINGS) as system:
            runs_a_job(system, "LCG.Institute.org")
            (pilot,) = system.rows("SELECT stamp FROM pilots_pilot WHERE matched_at IS NOT NULL")
            of_ce = tmp_path / "pilots" / "LCG.Institute.org" / "farm.institute.org"
            assert (of_ce / pilot["stamp"] / "pilot.log").exists()
        # Pilots of hosts outlive the system; they are found as those of this machine are.
        dismiss(tmp_path / "pilots")


def test_htcondor(tmp_path: Path) -> None:
    (there := tmp_path / "pool").mkdir()
    with htcondor_pool(there) as pool:

        def replaced(options: Options) -> Options:
            # The pool's programs are reached without SSH, which the tests above show.
            here = {name: value for name, value in options.items() if name not in OF_A_SITE}
            return {**here, "programs": str(pool.programs)}

        with running_system(documented("htcondor.yaml", tmp_path, replaced), SETTINGS) as system:
            runs_a_job(system, "LCG.Institute.org")
