"""``rest``: the CPU time that each part of `demo` uses once its jobs have ended and nothing is left to do."""

import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from tests.benchmarks.machine import cpu_measured
from tests.benchmarks.measuring import NotMeasurableError, Report
from tests.benchmarks.options import Options
from tests.benchmarks.surroundings import Surroundings
from tests.end_to_end.stack.running import environment, free_port, manage
from tests.pace import Deadline, timed_piece

_ENDED: Final = "Ctrl-C stops it."
_ENDED_WITHIN_S: Final = 600.0
#: {word of a command line: the part of that word}; the first that is found.
_PARTS: Final = {
    "wms.web": "web",
    "--queues control": "control",
    "--queues sites": "sites",
    "--schedule": "beat",
    "guard.py": "guard",
    "pilot_drain": "pilots",
    "valkey": "Valkey",
    "postgres": "PostgreSQL",
}


def run(_ready: Surroundings, options: Options) -> Report:
    """Measure for ``--seconds``, from the end of the last job on: its pilots wait for another first, and then leave."""
    report = Report(benchmark="rest", sizes={"seconds": round(options.seconds)})
    with _demonstration() as root:
        parts: defaultdict[str, list[psutil.Process]] = defaultdict(list)
        for child in root.children():
            parts[_part_of(child)].append(child)
        with cpu_measured({"supervisor": [root], **parts}) as use:
            time.sleep(options.seconds)
    del use.used_s["client"]
    # That of the root has those of its children.
    use.used_s["supervisor"] -= sum(used_s for part, used_s in use.used_s.items() if part != "supervisor")
    report.facts |= use.facts()
    report.facts["ms of a piece of Python, to compare machines"] = 1000 * timed_piece()
    return report


@contextmanager
def _demonstration() -> Iterator[psutil.Process]:
    """Run `demo` until the end of the block, whose jobs have ended at its beginning."""
    with TemporaryDirectory(prefix="wms-", ignore_cleanup_errors=True) as directory:
        log = Path(directory) / "demo.log"
        command = manage("demo", "--port", str(free_port()), "--data-dir", str(Path(directory) / "data"))
        with log.open("wb") as output:
            process = subprocess.Popen(command, env=environment(), stdout=output, stderr=output)
        try:
            deadline = Deadline(_ENDED_WITHIN_S)
            while _ENDED not in log.read_text():
                if process.poll() is not None or deadline.has_passed():
                    raise NotMeasurableError(f"The demonstration did not end:\n{log.read_text()[-2000:]}")
                time.sleep(1)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def _part_of(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    return next((part for word, part in _PARTS.items() if word in command), command)
