"""An HTCondor pool for tests: one machine that negotiates every second, in a root directory made by ``build.sh``."""

import json
import os
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.pace import Deadline

#: Names the root directory.
VARIABLE = "WMS_TESTS_HTCONDOR"
CORES = 4
_READY_WITHIN_S = 60.0
_HERE = Path(__file__).parent
_CONFIGURATION = f"""\
LOCAL_DIR = /srv/pool
LOCAL_CONFIG_FILE =
LOCAL_CONFIG_DIR =
RELEASE_DIR = /usr
LIB = /usr/lib/condor
LIBEXEC = /usr/libexec/condor
SHARE = /usr/share/condor
LOG = /srv/pool/log
RUN = /srv/pool/log
LOCK = /srv/pool/log
SPOOL = /srv/pool/spool
EXECUTE = /srv/pool/execute
use role: CentralManager
use role: Submit
use role: Execute
use security: user_based
ALLOW_ADMINISTRATOR = $(ALLOW_ADMINISTRATOR) pilots@*
CONDOR_HOST = 127.0.0.1
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = false
COLLECTOR_HOST = 127.0.0.1:0
SHARED_PORT_PORT = 0
SCHEDD_INTERVAL = 1
SCHEDD_MIN_INTERVAL = 1
SCHEDD_INTERVAL_TIMESLICE = 1
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
UPDATE_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 1
MAX_PERIODIC_EXPR_INTERVAL = 1
NUM_CPUS = {CORES}
MEMORY = 4096
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = true
START = true
MachineMaxVacateTime = 5
"""
#: What the tests and the backend run in the pool; each name becomes a program that enters it.
_PROGRAMS = (
    "condor_submit", "condor_q", "condor_history", "condor_rm", "condor_status", "condor_tail", "condor_hold",
    "condor_vacate_job", "condor_qedit", "condor_on", "condor_off", "python3", "sh",
)  # fmt: skip
_ENTER = """\
#!/bin/sh
# Runs {name} in the pool, as the user of the pilots.
exec nsenter --target {master} --mount --pid --root -- setpriv --reuid pilots --regid pilots --clear-groups \\
    env -i --chdir=/srv/pool/home PATH=/usr/bin:/usr/sbin:/bin HOME=/srv/pool/home LANG=C.UTF-8 \\
    CONDOR_CONFIG=/srv/pool/condor_config {name} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool that runs.

    Args:
        programs: directory of HTCondor's programs, and of a ``python3`` and a ``sh`` that run where those do.
        master: process of its master, which is number 1 of the pool's own process numbers.
    """

    programs: Path
    master: int

    def run(self, *argv: str, stdin: str = "") -> str:
        """Return the output of a program of the pool.

        Raises:
            AssertionError: the program failed.
        """
        command = [str(self.programs / argv[0]), *argv[1:]]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv} ended with {done.returncode}: {done.stderr}{done.stdout}"
        return done.stdout

    def jobs(self, constraint: str = "true") -> list[dict[str, object]]:
        """Return the queued jobs."""
        jobs: list[dict[str, object]] = json.loads(self.run("condor_q", "-json", "-constraint", constraint) or "[]")
        return jobs

    def processes(self) -> Iterator[Path]:
        """Yield the directory in /proc of each process of the pool."""
        namespace = Path(f"/proc/{self.master}/ns/pid").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "ns" / "pid").readlink() == namespace:
                    yield process
            except OSError:  # it has just ended
                continue


@contextmanager
def htcondor_pool(directory: Path) -> Iterator[Pool]:
    """Run a pool, and end it with all processes that it started.

    Args:
        directory: for the pool's programs; must exist.
    """
    root = os.environ.get(VARIABLE, "")
    if not root:
        pytest.skip(
            f"no pool of HTCondor: run tests/backends/htcondor/build.sh DIRECTORY as root, and set {VARIABLE}=DIRECTORY"
        )
    with (directory / "pool.log").open("wb") as log:
        # It ends with the tests even when they are killed, and all processes of its namespace end with it.
        unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"]
        process = subprocess.Popen(
            [*unshare, "sh", str(_HERE / "start.sh"), root], stdin=subprocess.PIPE, stdout=log, stderr=log
        )
    try:
        assert process.stdin is not None
        with process.stdin:
            process.stdin.write(_CONFIGURATION.encode())
        yield _await(process, directory)
    finally:
        process.kill()
        process.wait()


def program(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _await(process: "subprocess.Popen[bytes]", directory: Path) -> Pool:
    """Return the pool when it accepts jobs and has a machine for them."""
    deadline = Deadline(_READY_WITHIN_S)
    while True:
        assert process.poll() is None, (directory / "pool.log").read_text()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "condor_master":
            pool = _pool(int(children[0]), directory / "programs")
            if _answers(pool):
                return pool
        assert not deadline.has_passed(), (directory / "pool.log").read_text()
        time.sleep(0.1)


def _pool(master: int, programs: Path) -> Pool:
    programs.mkdir(exist_ok=True)
    for name in _PROGRAMS:
        program(programs / name, _ENTER.format(name=name, master=master))
    return Pool(programs=programs, master=master)


def _answers(pool: Pool) -> bool:
    try:
        machines: list[Mapping[str, object]] = json.loads(pool.run("condor_status", "-json") or "[]")
        return bool(machines) and pool.jobs() == []
    except AssertionError:
        return False
