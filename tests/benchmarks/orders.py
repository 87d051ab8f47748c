"""``orders``: payloads of real pilots are killed and peeked at, at random moments, and the time until that is done."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from random import Random
from urllib.request import Request, urlopen
from uuid import uuid4

import psutil
from django.conf import settings

from tests.benchmarks.measuring import NotMeasurableError, Report
from tests.benchmarks.options import Options
from tests.benchmarks.people import Person, person
from tests.benchmarks.submit import PATH
from tests.benchmarks.surroundings import Surroundings
from tests.factories import make_ce, make_group, make_queue, make_site, make_token, make_user
from tests.pace import Deadline
from wms.accounts.models import User
from wms.jobs.models import JobCommand

_WITHIN_S = 240.0
_POLL_S = 0.1
#: Does as little as it can when it is told to end, and says all the time what time it is.
_PAYLOAD = "trap '' TERM; while date +%s.%N; do sleep 0.2; done # {mark}"


@dataclass(slots=True, kw_only=True)
class _Order:
    """One command to one payload.

    Attributes:
        at_s: when it is given, by the clock of the day.
        give: gives it.
        is_seen: returns whether its effect can be seen.
        took_s: seconds until then; None: not yet.
    """

    what: str
    at_s: float
    give: Callable[[], object]
    is_seen: Callable[[float], bool]
    given: bool = False
    took_s: float | None = None

    def look(self) -> None:
        """Give the command when it is due; later note when its effect was seen."""
        if not self.given and time.time() >= self.at_s:
            self.at_s, self.given = time.time(), True
            self.give()
        if self.given and self.took_s is None and self.is_seen(self.at_s):
            self.took_s = time.time() - self.at_s


def run(ready: Surroundings, options: Options) -> Report:
    """Start a pilot with a job for each command; give all commands within one interval of heartbeats, and measure."""
    group = make_group()
    owner = make_user(groups=[group])
    count = 2 * options.repeat
    ce = make_ce(site=make_site(vos=[group.vo]), options={"max_processes": count})
    make_queue(ce=ce, max_waiting_pilots=count, max_pilots=count)
    report = Report(
        benchmark="orders",
        sizes={"orders of each kind": options.repeat, "seconds between two heartbeats": settings.WMS_HEARTBEAT_S},
    )
    port = ready.system.options.listener.port
    with ready.with_pilots(), person(owner, port=port) as someone:
        jobs = _running(someone, count=count)
        output = _Output(owner, port=port)
        orders = _drawn(jobs, chance=Random(options.seed), someone=someone, output=output)
        _wait(lambda: all(order.took_s is not None for order in orders), meanwhile=[order.look for order in orders])
    for what in dict.fromkeys(order.what for order in orders):
        report.add(what, [order.took_s for order in orders if order.what == what and order.took_s is not None])
    return report


class _Output:
    """The output of a running job, as a user peeks at it."""

    def __init__(self, owner: User, *, port: int) -> None:
        self._headers = {"Authorization": f"Bearer {make_token(owner)}"}
        self._port = port

    def shows(self, job: int, *, written_after_s: float) -> bool:
        """Return whether the output contains a line that was written after this moment."""
        url = f"http://127.0.0.1:{self._port}/api/v1/jobs/{job}/peek/"
        with urlopen(Request(url, headers=self._headers), timeout=_WITHIN_S) as answer:
            lines = json.load(answer)["std_output"].splitlines()
        return any(float(line) > written_after_s for line in lines)


def _running(owner: Person, *, count: int) -> Sequence[tuple[int, psutil.Process]]:
    """Return jobs whose payloads have started, each with the process of its payload."""
    marks = [f"{uuid4()}" for _ in range(count)]
    jobs = [
        {"executable": "/bin/sh", "arguments": ["-c", _PAYLOAD.format(mark=mark)], "cpu_time_s": 300} for mark in marks
    ]
    answer, _ = owner.post(PATH, {"jobs": jobs}, expected=HTTPStatus.CREATED)
    found: dict[str, psutil.Process] = {}

    def look() -> None:
        found.update((mark, process) for mark in marks if (process := _payload_with(mark)) is not None)

    _wait(lambda: len(found) == count, meanwhile=[look])
    return [(job["id"], found[mark]) for job, mark in zip(answer["jobs"], marks, strict=True)]


def _payload_with(mark: str) -> psutil.Process | None:
    """Return the shell of the payload with this mark, as a process of this machine's namespace."""
    found = [
        process
        for process in psutil.process_iter(["cmdline", "create_time"])
        if (words := process.info["cmdline"]) and words[0] == "/bin/sh" and mark in words[-1]
    ]
    return min(found, key=lambda process: float(process.info["create_time"]), default=None)


def _drawn(
    jobs: Sequence[tuple[int, psutil.Process]], *, chance: Random, someone: Person, output: _Output
) -> Sequence[_Order]:
    """Return kills and peeks in turns, at random moments between two heartbeats."""
    orders = []
    for number, (job, process) in enumerate(jobs):
        at_s = time.time() + chance.uniform(0, settings.WMS_HEARTBEAT_S)
        orders.append(
            _kill(job, process, at_s=at_s, someone=someone) if number % 2 else _peek(job, at_s=at_s, output=output)
        )
    return orders


def _kill(job: int, process: psutil.Process, *, at_s: float, someone: Person) -> _Order:
    return _Order(
        what="from an order to kill to the payload's end, which ignores SIGTERM",
        at_s=at_s,
        give=lambda: someone.post(f"{PATH}{job}/kill/", {}, expected=HTTPStatus.OK),
        is_seen=lambda _: not process.is_running(),
    )


def _peek(job: int, *, at_s: float, output: _Output) -> _Order:
    return _Order(
        what="from an order to peek to output that was written after it",
        at_s=at_s,
        give=lambda: JobCommand.objects.create(job_id=job, name="peek", created_at=datetime.now(tz=UTC)),
        is_seen=lambda given_at_s: output.shows(job, written_after_s=given_at_s),
    )


def _wait(condition: Callable[[], bool], *, meanwhile: Sequence[Callable[[], None]] = ()) -> None:
    deadline = Deadline(_WITHIN_S)
    while not condition():
        if deadline.has_passed():
            raise NotMeasurableError(f"The payloads did not start, or did not obey, within {_WITHIN_S:.0f} s.")
        for act in meanwhile:
            act()
        time.sleep(_POLL_S)
