"""``start``: one job after another for an idle CE of this machine, and the time until its payload starts."""

import time
from http import HTTPStatus
from pathlib import Path

from pilots.models import Pilot
from tests.benchmarks.measuring import NotMeasurableError, Report
from tests.benchmarks.options import Options
from tests.benchmarks.people import Person, person
from tests.benchmarks.submit import PATH
from tests.benchmarks.surroundings import Surroundings
from tests.factories import make_ce, make_group, make_queue, make_site, make_user
from tests.pace import Deadline
from tests.programs import directory_of_payloads

#: Less than the pilots' first wait for a job, so that each leaves at once when there is none.
_MAX_IDLE_S = 1
_WITHIN_S = 120.0
_POLL_S = 0.02


def run(ready: Surroundings, options: Options) -> Report:
    """Submit a job when the previous job's pilot has ended, wait until its payload has started, and repeat."""
    group = make_group()
    owner = make_user(groups=[group])
    ce = make_ce(site=make_site(vos=[group.vo]), options={"max_idle_s": _MAX_IDLE_S})
    make_queue(ce=ce, max_waiting_pilots=4, max_pilots=4)
    report = Report(benchmark="start", sizes={"jobs": options.repeat, "director's cycle in s": _cycle_s(ready)})
    with (
        ready.with_pilots(),
        person(owner, port=ready.system.options.listener.port) as someone,
        directory_of_payloads() as directory,
    ):
        _started_s(someone, directory / "warm-up")
        report.add(
            "from the submission to the payload's start",
            [_started_s(someone, directory / f"started-{number}") for number in range(options.repeat)],
        )
    return report


def _started_s(owner: Person, file: Path) -> float:
    """Return the seconds from a job's submission to the start of its payload."""
    command = f"date +%s.%N > {file}.unfinished; mv {file}.unfinished {file}"
    submitted_at = time.time()
    body = {"executable": "/bin/sh", "arguments": ["-c", command], "cpu_time_s": 300}
    owner.post(PATH, body, expected=HTTPStatus.CREATED)
    deadline = Deadline(_WITHIN_S)
    while not file.exists() or Pilot.objects.filter(ended_at=None).exists():
        if deadline.has_passed():
            raise NotMeasurableError(f"The job did not start, or its pilot did not leave, within {_WITHIN_S:.0f} s.")
        time.sleep(_POLL_S)
    return float(file.read_text()) - submitted_at


def _cycle_s(ready: Surroundings) -> str:
    return ready.system.environment.get("WMS_DIRECTOR_CYCLE_S", "60")
