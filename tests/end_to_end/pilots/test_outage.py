"""An outage of the server costs no running job: pilots go on, and report when the server is back."""

import signal
import time
from collections.abc import Sequence

import pytest

from tests.end_to_end.pilots.grid import FIRST, PLAIN, SETTINGS, Farms, running_system, until
from tests.end_to_end.pilots.workload import CALM, ExpectedJob, Life, Workload, lives, twice_at_once

#: In heartbeats and leases this is longer than two minutes are where a heartbeat is due every 30 s and a lease lasts
#: half an hour: the job is Stalled in both cases, and its lease is not over in either.
_AWAY_S = 15.0
_LEASE = {"WMS_LEASE_FIRST_S": "200", "WMS_LEASE_S": "200", "WMS_PILOT_LOST_S": "200"}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_is_away_for_a_while_costs_no_running_job(grid: Farms, how: signal.Signals) -> None:
    with running_system(grid, SETTINGS | _LEASE) as system:
        work = Workload(system, grid.shared)
        held = [*work.held(FIRST, "alice", 1), *work.held(PLAIN, "charlie", 1)]
        # These end while nobody is there to be told.
        ending = [work.sleeping(site, "bob", _AWAY_S / 2) for site in (FIRST, PLAIN)]
        jobs = [*held, *ending]
        until(lambda: all(system.pilot_of(job.id) for job in jobs), what=lambda: [system.jobs(), system.output[-3000:]])

        system.stop(how)
        away_since = time.monotonic()
        until(lambda: all(life.last_seen > away_since + _AWAY_S for life in _lives_of(grid, held)))
        until(lambda: all(life.ended for life in _lives_of(grid, ending)))
        system.start()

        until(lambda: all(system.jobs()[job.id]["status"] == "Done" for job in ending), what=system.jobs)
        until(lambda: all(system.jobs()[job.id]["status"] == "Running" for job in held), what=system.jobs)
        (grid.shared / CALM).touch()
        until(lambda: all(system.jobs()[job.id]["status"] == "Done" for job in held), what=system.jobs)
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


def _lives_of(grid: Farms, jobs: Sequence[ExpectedJob]) -> Sequence[Life]:
    wanted = {job.id for job in jobs}
    return [life for life in lives(grid.shared) if life.job in wanted]
