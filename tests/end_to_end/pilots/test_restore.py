"""A server is lost under load and restored from a backup of before, while pilots of both times run on."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.end_to_end.pilots.grid import FIRST, PLAIN, SETTINGS, Farms, System, running_system, until
from tests.end_to_end.pilots.workload import CALM, Workload, lives, twice_at_once
from tests.end_to_end.stack.running import READY_WITHIN_S, environment, manage
from tests.pace import within
from wms.operations.id_marks import STEP

#: Longer than the pilots need to hear that their leases are unknown.
_LEASE = {"WMS_LEASE_FIRST_S": "60", "WMS_LEASE_S": "60", "WMS_PILOT_LOST_S": "60"}


def command(system: System, *words: str) -> str:
    """Return the output of a command of the server."""
    variables = environment() | system.settings | {"WMS_DATA_DIR": str(system.data)}
    done = subprocess.run(
        manage(*words), env=variables, capture_output=True, text=True, timeout=within(READY_WITHIN_S), check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def are_running(system: System, jobs: Sequence[int]) -> bool:
    return all(system.pilot_of(job) for job in jobs)


def test_no_job_runs_twice_at_once_and_no_id_is_given_again(grid: Farms, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    with running_system(grid, SETTINGS | _LEASE) as system:
        work = Workload(system, grid.shared)
        known = [job.id for job in work.held(FIRST, "alice", 2)]
        until(lambda: are_running(system, known), what=lambda: [system.jobs(), system.output[-3000:]])
        # These wait in the backup, and are given to pilots after it.
        waiting = [job.id for job in work.held(PLAIN, "charlie", 3)]
        command(system, "backup", str(backups))
        lost = [job.id for job in work.held(FIRST, "bob", 2)]
        until(lambda: are_running(system, [*waiting, *lost]), what=lambda: [system.jobs(), system.output[-3000:]])

        system.stop(signal.SIGKILL)
        shutil.rmtree(system.data / "postgres")
        shutil.rmtree(system.data / "sandboxes", ignore_errors=True)
        assert "is restored" in command(system, "restore", str(backups))

        system.start()
        assert set(system.jobs()) == {*known, *waiting}
        # On a slow machine it may be over by now, but not before the pilots of before have stopped.
        assert system.tuples("SELECT pause_reason <> '' AND paused_until IS NOT NULL FROM accounts_vo") == [(True,)]
        until(lambda: are_running(system, [*known, *waiting]), what=lambda: [system.jobs(), system.output[-3000:]])
        # Where all jobs were with pilots when the backup was made, they run at once, and the pause is not over yet.
        until(lambda: system.tuples("SELECT paused_until <= now() FROM accounts_vo") == [(True,)], what=system.jobs)
        (new,) = [job.id for job in work.held(PLAIN, "alice", 1)]
        assert new > max(lost) + STEP / 2

        (grid.shared / CALM).touch()
        jobs = [*known, *waiting, new]
        until(lambda: {row["status"] for row in system.jobs().values()} == {"Done"}, what=system.jobs)
        assert twice_at_once(grid.shared) == []
        assert {life.job for life in lives(grid.shared)} >= {*jobs, *lost}
        verified = system.verify()
        assert verified.returncode == 0, verified.stdout + verified.stderr
        until(lambda: not system.living_pilots(), what=system.living_pilots)
        until(lambda: not grid.processes(), 60, what=grid.processes)
        assert system.stop() == 0
