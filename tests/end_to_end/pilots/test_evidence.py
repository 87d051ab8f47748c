"""A hundred jobs on two Slurm clusters and a plain host, while pilots die, a slurmctld is down and a node is lost."""

import io
import signal
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.end_to_end.pilots.grid import (
    FIRST,
    PLAIN,
    SECOND,
    SETTINGS,
    Farms,
    System,
    running_system,
    until,
)
from tests.end_to_end.pilots.workload import CALM, WORDS, ExpectedJob, Workload, lives, twice_at_once
from tests.end_to_end.stack.running import processes_of
from tests.slurm import SlurmCluster


@pytest.fixture
def system(grid: Farms) -> Iterator[System]:
    with running_system(grid, SETTINGS) as running:
        yield running


class Troubles:
    """Failures of the pilots that run the held jobs, at all sites at once, while all other jobs run."""

    def __init__(self, grid: Farms, system: System, held: Sequence[ExpectedJob]) -> None:
        self._grid = grid
        self._system = system
        self._held = {site: [job.id for job in held if job.site == site] for site in (FIRST, SECOND, PLAIN)}

    def all_run(self, *sites: str) -> None:
        """Wait until all held jobs of the sites run."""
        jobs = {job for site in sites or self._held for job in self._held[site]}
        until(
            lambda: all(self._system.pilot_of(job) for job in jobs),
            what=lambda: {job: self._system.history(job) for job in jobs} | {0: self._system.output[-3000:]},
        )

    def at_first(self) -> None:
        """Cancel, kill and suspend pilots of the first cluster, and lose its node."""
        self.cancel(FIRST, self._grid.first)
        self.kill(FIRST)
        self.suspend(FIRST, self._grid.first)
        self.lose_node(FIRST, self._grid.first)

    def at_second(self) -> None:
        """Requeue and cancel pilots of the second cluster, and kill one while its slurmctld is down."""
        self.requeue(SECOND, self._grid.second)
        self.cancel(SECOND, self._grid.second, "--signal=KILL", "--full")
        self.kill_while_slurmctld_is_down(SECOND, self._grid.second)

    def at_plain(self) -> None:
        """Kill a pilot of the plain host."""
        self.kill(PLAIN)

    def cancel(self, site: str, cluster: SlurmCluster, *options: str) -> None:
        """Cancel a pilot's batch job; its own job runs again elsewhere."""
        job, pilot = self._victim(site)
        cluster.run("scancel", *options, pilot["batch_id"])
        self._runs_again(job, pilot)

    def kill(self, site: str) -> None:
        """Kill a pilot's process with SIGKILL; its own job runs again elsewhere."""
        job, pilot = self._victim(site)
        self._kill_agent(pilot)
        self._runs_again(job, pilot)

    def suspend(self, site: str, cluster: SlurmCluster) -> None:
        """Stop a pilot and its payload until the server misses them; then continue them, and the job goes on."""
        job, pilot = self._victim(site)
        cluster.run("scontrol", "suspend", pilot["batch_id"])
        self._becomes(job, "Stalled")
        cluster.run("scontrol", "resume", pilot["batch_id"])
        self.all_run(site)

    def requeue(self, site: str, cluster: SlurmCluster) -> None:
        """Let Slurm requeue and restart a pilot; its secret is used up, so that it does nothing."""
        job, pilot = self._victim(site)
        batch_id = str(pilot["batch_id"])
        cluster.run("scontrol", "update", f"JobId={batch_id}", "Requeue=1")
        cluster.run("scontrol", "requeue", batch_id)
        until(lambda: cluster.shown(batch_id)["JobState"] == "PENDING")
        # Else Slurm would wait for two minutes.
        cluster.run("scontrol", "update", f"JobId={batch_id}", "StartTime=now")
        until(lambda: cluster.shown(batch_id)["JobState"] == "FAILED", what=lambda: cluster.shown(batch_id))
        ended = cluster.shown(batch_id)
        assert ended["ExitCode"] == "2:0", Path(ended["StdOut"]).read_text()
        self._runs_again(job, pilot)

    def kill_while_slurmctld_is_down(self, site: str, cluster: SlurmCluster) -> None:
        """Stop slurmctld until the server reports it, kill a pilot meanwhile, start slurmctld again."""
        job, pilot = self._victim(site)
        cluster.stop("slurmctld")
        self._kill_agent(pilot)
        until(lambda: self._system.trouble_at(site))
        cluster.start("slurmctld")
        self._runs_again(job, pilot)
        until(lambda: not self._system.trouble_at(site), what=lambda: self._system.trouble_at(site))

    def lose_node(self, site: str, cluster: SlurmCluster) -> None:
        """Drain the node, set it DOWN with all its pilots, and resume it."""
        cluster.run("scontrol", "update", "NodeName=localhost", "State=DRAIN", "Reason=repair")
        cluster.run("scontrol", "update", "NodeName=localhost", "State=DOWN", "Reason=repair")
        until(lambda: not cluster.run("squeue", "--noheader", "--states=RUNNING"))
        cluster.run("scontrol", "update", "NodeName=localhost", "State=RESUME")
        self.all_run(site)

    def _victim(self, site: str) -> tuple[int, dict[str, Any]]:
        self.all_run(site)
        job = self._held[site][0]
        pilot = self._system.pilot_of(job)
        assert pilot is not None
        # The next trouble is another one's.
        self._held[site].append(self._held[site].pop(0))
        return job, pilot

    def _runs_again(self, job: int, before: dict[str, Any]) -> None:
        def again() -> bool:
            pilot = self._system.pilot_of(job)
            return pilot is not None and pilot["id"] != before["id"]

        until(again, what=lambda: [self._system.history(job), before, self._system.living_pilots()])

    def _becomes(self, job: int, status: str) -> None:
        until(lambda: self._system.jobs()[job]["status"] == status, what=lambda: self._system.history(job))

    def _kill_agent(self, pilot: dict[str, Any]) -> None:
        """Kill the agent process itself, but not its parents and children."""
        agents = [each for each in self._grid.processes() if _is_agent(each, str(pilot["stamp"]))]
        min(agents, key=psutil.Process.create_time).kill()


def test_a_hundred_jobs_end_as_expected_and_none_runs_twice_at_once(grid: Farms, system: System) -> None:
    jobs = Workload(system, grid.shared).submit_all()
    assert len(jobs) == 100
    troubles = Troubles(grid, system, [job for job in jobs if job.kind == "held"])

    troubles.all_run()
    with ThreadPoolExecutor(3) as sites:
        ends = [sites.submit(at_site) for at_site in (troubles.at_first, troubles.at_second, troubles.at_plain)]
    for end in ends:
        end.result()
    troubles.all_run()
    (grid.shared / CALM).touch()

    final = {"Done", "Failed", "Killed"}
    until(
        lambda: all(row["status"] in final for row in system.jobs().values()),
        what=lambda: [row for row in system.jobs().values() if row["status"] not in final],
    )
    until(lambda: not system.living_pilots(), what=system.living_pilots)
    check_jobs(system, jobs)
    check_lives(grid.shared, jobs)
    check_nothing_is_left(grid, system)


def check_jobs(system: System, jobs: Sequence[ExpectedJob]) -> None:
    for job in jobs:
        told = system.job(job.owner, job.id)
        history = system.history(job.id)
        assert (told["status"], told["exit_code"]) == (job.status, job.exit_code), (job, history)
        assert job.site in {None, told["site"]}, (job, told["site"])
        assert told["reschedules"] >= job.at_least_reschedules, (job, history)
        # It came to its end once: whatever befell it before, there is one way that leads there.
        assert sum(status in {"Done", "Failed"} for status, _ in history) == 1, (job, history)
        if job.kind == "sandboxes":
            assert _file_in(system.output_of(job.owner, job.id), "sorted.txt") == "\n".join(sorted(WORDS))


def check_lives(directory: Path, jobs: Sequence[ExpectedJob]) -> None:
    found = lives(directory)
    assert {life.job for life in found} == {job.id for job in jobs}
    assert {life.job for life in found if life.ended} == {job.id for job in jobs}
    assert twice_at_once(directory) == []


def check_nothing_is_left(grid: Farms, system: System) -> None:
    verified = system.verify()
    assert verified.returncode == 0, verified.stdout + verified.stderr
    for cluster in (grid.first, grid.second):
        assert cluster.run("squeue", "--noheader", "--states=PENDING,RUNNING,SUSPENDED") == ""
    until(lambda: not grid.processes(), 30, what=grid.processes)
    assert system.stop(signal.SIGINT) == 0
    assert processes_of(system.data) == []
    assert "Traceback" not in system.output
    assert "ERROR" not in system.output


def _is_agent(process: psutil.Process, stamp: str) -> bool:
    try:
        return any(word.endswith(f"agent-{stamp}.pyz") for word in process.cmdline()[1:3])
    except psutil.Error:
        return False


def _file_in(packed: bytes, name: str) -> str:
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        file = archive.extractfile(name)
        assert file is not None
        return file.read().decode()
