"""``commands``: each command of ``wms`` as a process, beside a Python that does nothing."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.measuring import NotMeasurableError, Report, timed
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import PROJECT, Surroundings
from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_token, make_user
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

WMS: Final = PROJECT / "wms" / "client" / "wms"
#: Jobs of the user, of which `list` shows the newest 30.
JOBS: Final = 100
NOTHING: Final = "python -c pass"


def run(ready: Surroundings, options: Options) -> Report:
    """Run every command in turns with a Python that does nothing, ``--repeat`` times after a first one.

    Not measured are `login`, `logout` and `watch`, which wait for people, and `output`, which depends on the network.
    """
    group = make_group()
    alice = make_user(groups=[group], manages=[group.vo])
    queue = make_queue(ce=make_ce(site=make_site(vos=[group.vo])))
    jobs = [make_job(owner=alice, group=group) for _ in range(JOBS)]
    Job.objects.filter(pk=jobs[0].pk).update(status=JobStatus.FAILED, ended_at=jobs[0].submitted_at)
    report = Report(benchmark="commands", sizes={"jobs": JOBS, "repetitions": options.repeat})
    with ready.web(processes=1) as web, TemporaryDirectory(dir=ready.logs) as home:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "WMS_SERVER_URL": f"http://127.0.0.1:{web.port}",
            "WMS_TOKEN": make_token(alice),
        }
        commands = _commands(jobs, site=queue.ce.site.name, home=Path(home))
        times: dict[str, list[float]] = {name: [] for name in (NOTHING, *commands)}
        for repetition in range(options.repeat + 1):
            for name, arguments in ((NOTHING, ["-c", "pass"]), *commands.items()):
                taken_s = _taken_s(arguments, environment=environment)
                if repetition:
                    times[name].append(taken_s)
    nothing = report.add(NOTHING, times.pop(NOTHING)).median_ms
    for name, taken in times.items():
        report.facts[f"{name} / {NOTHING}"] = report.add(name, taken).median_ms / nothing
    return report


def _commands(jobs: Sequence[Job], *, site: str, home: Path) -> Mapping[str, Sequence[str]]:
    """Return {command line as shown: arguments of Python}."""
    script = home / "run.sh"
    script.write_text("#!/bin/sh\n")
    (home / "job.jdl").write_text('Executable = "run.sh"; InputSandbox = "run.sh";')
    first, last = str(jobs[1].pk), str(jobs[-1].pk)
    lines = (
        *(["--version"], ["--help"], ["completion", "bash"], ["whoami"]),
        *(["submit", str(home / "job.jdl")], ["submit", "--dry-run", str(home / "job.jdl")]),
        *(["list"], ["show", first], ["why", first], ["logs", first], ["hold", first], ["release", first]),
        *(["edit", first, "--priority", "7"], ["submissions"], ["failures"]),
        *(["sites"], ["sites", site], ["queues"], ["pools"], ["pilots"], ["shares"], ["files", "list"]),
        *(["files", "put", str(script)], ["match-test", "--cpu-time-s", "1000"], ["list", "name:x*", "--json", "id"]),
        ["hold", f"{first}-{last}"],
        ["release", f"{first}-{last}"],
    )
    shown = {str(home / "job.jdl"): "job.jdl", str(script): "run.sh", first: "JOB", f"{first}-{last}": "JOBS"}
    return {" ".join(["wms", *(shown.get(word, word) for word in line)]): [str(WMS), *line] for line in lines}


def _taken_s(arguments: Sequence[str], *, environment: Mapping[str, str]) -> float:
    """Return the seconds from the start of a Python to its end."""
    command = [sys.executable, *arguments]
    ran, taken_s = timed(
        lambda: subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    )
    if ran.returncode:
        raise NotMeasurableError(f"{' '.join(arguments)} ended with {ran.returncode}: {ran.stderr[:300]}")
    return taken_s
