"""An outage of the server costs no running job: pilots go on, and report when the server is back."""

import signal
import time
from collections.abc import Sequence

from tests.end_to_end.pilots.grid import FIRST, PLAIN, SETTINGS, Farms, System, running_system, until
from tests.end_to_end.pilots.workload import CALM, ExpectedJob, Life, Workload, lives, twice_at_once

#: In heartbeats and leases this is longer than two minutes are where a heartbeat is due every 30 s and a lease lasts
#: half an hour: the job is Stalled in both cases, and its lease is not over in either.
_AWAY_S = 15.0
_LEASE = {"WMS_LEASE_FIRST_S": "200", "WMS_LEASE_S": "200", "WMS_PILOT_LOST_S": "200"}


def test_a_short_outage_of_the_server_loses_no_running_job(grid: Farms) -> None:
    with running_system(grid, SETTINGS | _LEASE) as system:
        work = Workload(system, grid.shared)
        held = [*work.held(FIRST, "alice", 1), *work.held(PLAIN, "charlie", 1)]
        jobs = [*held]
        for how in (signal.SIGINT, signal.SIGKILL):
            jobs += _survive_an_outage(system, grid, work, held, how)
        (grid.shared / CALM).touch()
        _become(system, held, "Done")
        until(lambda: not system.living_pilots(), what=system.living_pilots)

        for job in jobs:
            assert system.job(job.owner, job.id)["reschedules"] == 0, system.history(job.id)
        assert len(lives(grid.shared)) == len(jobs)
        assert twice_at_once(grid.shared) == []
        assert {row["status"] for row in system.rows("SELECT status FROM pilots_pilot")} == {"Done"}
        verified = system.verify()
        assert verified.returncode == 0, verified.stdout + verified.stderr
        until(lambda: not grid.processes(), 30, what=grid.processes)
        assert system.stop() == 0
        assert "Traceback" not in system.output


def _survive_an_outage(
    system: System, grid: Farms, work: Workload, held: Sequence[ExpectedJob], how: signal.Signals
) -> Sequence[ExpectedJob]:
    """Stop the system by a signal while jobs run, and start it again; return the jobs that ended in the meantime."""
    away = f"away-by-{how.name}"
    ending = [job for site in (FIRST, PLAIN) for job in work.held(site, "bob", 1, until=away)]
    until(
        lambda: all(system.pilot_of(job.id) for job in (*held, *ending)),
        what=lambda: [system.jobs(), system.output[-3000:]],
    )
    system.stop(how)
    away_since = time.monotonic()
    # These end while nobody is there to be told.
    (grid.shared / away).touch()
    until(lambda: all(life.ended for life in _lives_of(grid, ending)))
    until(lambda: all(life.last_seen > away_since + _AWAY_S for life in _lives_of(grid, held)))
    system.start()
    _become(system, ending, "Done")
    _become(system, held, "Running")
    return ending


def _become(system: System, jobs: Sequence[ExpectedJob], status: str) -> None:
    """Wait until all the jobs have the status."""
    until(lambda: all(system.jobs()[job.id]["status"] == status for job in jobs), what=system.jobs)


def _lives_of(grid: Farms, jobs: Sequence[ExpectedJob]) -> Sequence[Life]:
    wanted = {job.id for job in jobs}
    return [life for life in lives(grid.shared) if life.job in wanted]
