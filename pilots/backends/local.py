"""The computing element that is this machine: each pilot is a process of it, and ends with its director."""

import hashlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pilots.backends import child
from pilots.backends.interface import BackendError, BatchState, PilotOrder, Presence, Submission

#: Of the director's variables; the rest (addresses of servers, the secret key) is none of a pilot's business.
PASSED_ON = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "WMS_STACK_MARK"})
KEEP_LOGS_S = 30 * 24 * 3600
#: How often old logs are looked for.
_SWEEP_EVERY_S = 24 * 3600
#: From asking pilots to leave, which hand their jobs back then, to killing them.
LEAVE_WITHIN_S = 8.0
_POLL_S = 0.05
#: More pilots than end between two rounds of the status agent.
_EXIT_CODES_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """``options`` of a CE of type local.

    Args:
        max_processes: pilots at once, all queues of the CE together.
        python: the interpreter that runs them.
        max_idle_s: a pilot that got no job for so long leaves.
    """

    max_processes: int
    python: str
    max_idle_s: int


def parse_options(options: Mapping[str, object]) -> LocalOptions:
    """Return the options with their defaults.

    Raises:
        BackendError: one is unknown or wrong.
    """
    if unknown := sorted(options.keys() - {"max_processes", "python", "max_idle_s"}):
        raise BackendError(f"A local CE has no option {', '.join(unknown)}; it has max_processes, max_idle_s, python.")
    python = options.get("python", sys.executable)
    if not isinstance(python, str) or (found := shutil.which(python)) is None:
        raise BackendError(f"The option python must name an interpreter; {python!r} is none.")
    return LocalOptions(
        # Payloads seldom use a core all the time, and pilots wait most of theirs.
        max_processes=_number(options, "max_processes", default=max(16, 4 * (os.cpu_count() or 1))),
        python=found,
        max_idle_s=_number(options, "max_idle_s", default=60),
    )


class ProcessKey(NamedTuple):
    """A process of a machine for all time: its number alone would be given to another one day."""

    host: str
    pid: int
    started: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.started}"


class _Child(NamedTuple):
    """A pilot that this director started."""

    process: "subprocess.Popen[bytes]"
    directory: Path


class LocalBackend:
    """The processes of one local CE.

    NB: to be used by the main thread: the kernel takes the end of the *thread* that starts a process for its parent's.
    """

    def __init__(self, directory: Path, *, server_url: str, program: bytes) -> None:
        """Clean up what pilots of an earlier director left.

        Args:
            directory: of this CE alone; one directory per pilot is made in it, with its log.
            server_url: where the pilots reach the server.
            program: the agent's zipapp.
        """
        self._directory = directory
        self._server_url = server_url
        self._program = program
        self._options = parse_options({})
        self._children: dict[str, _Child] = {}
        self._exit_codes: dict[str, int] = {}
        _make_private(directory)
        self._sweep()

    def configure(self, options: Mapping[str, object]) -> None:
        """Take the CE's options.

        Raises:
            BackendError: an option is unknown or wrong.
        """
        self._options = parse_options(options)

    def capacity(self) -> int:
        """Return how many pilots it could take now."""
        self._reap()
        return max(0, self._options.max_processes - len(self._children))

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submission]:
        """Start the pilots."""
        if time.monotonic() > self._swept_at + _SWEEP_EVERY_S:
            self._sweep()
        submissions = []
        for order in orders:
            try:
                submissions.append(Submission(stamp=order.stamp, batch_id=self._start(order)))
            except OSError as error:
                submissions.append(Submission(stamp=order.stamp, error=f"could not be started: {error}"))
        return submissions

    def status(self, batch_ids: Collection[str]) -> Mapping[str, BatchState]:
        """Return where the pilots are, also those of an earlier director of this machine."""
        self._reap()
        return {batch_id: self._state_of(batch_id) for batch_id in batch_ids}

    def kill(self, batch_ids: Collection[str]) -> None:
        """Kill the pilots; their wardens end the payloads."""
        for batch_id in batch_ids:
            one = self._children.get(batch_id)
            if one is not None:
                one.process.kill()
            elif (key := _key_of(batch_id)) is not None and _lives(key):
                with suppress(ProcessLookupError):
                    os.kill(key.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ask all pilots to leave, wait, and kill those that do not."""
        processes = [one.process for one in self._children.values()]
        for process in processes:
            process.terminate()
        give_up = time.monotonic() + LEAVE_WITHIN_S
        while time.monotonic() < give_up and any(process.poll() is None for process in processes):
            time.sleep(_POLL_S)
        for process in processes:
            process.kill()
            process.wait()
        self._reap()

    def _start(self, order: PilotOrder) -> str:
        directory = self._directory / order.stamp
        _make_private(directory / "work")
        place = ["--vo", order.vo, "--site", order.site, "--ce", order.ce, "--queue", order.queue]
        life = ["--max-idle-s", str(self._options.max_idle_s), "--max-wait-s", "10", "--work-dir", "work"]
        agent = [self._options.python, "-I", str(self._unpacked()), "--server", self._server_url, "--token-file", "-"]
        launcher = [sys.executable, "-I", "-S", child.__file__, str(os.getpid())]
        with (directory / "agent.log").open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [*launcher, *agent, *place, "--stamp", order.stamp, *life],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name in PASSED_ON},
                cwd=directory,
                start_new_session=True,
            )
        batch_id = str(_key_of_process(process.pid))
        self._children[batch_id] = _Child(process=process, directory=directory)
        assert process.stdin is not None  # noqa: S101 - for mypy
        with suppress(BrokenPipeError), process.stdin:  # it has ended already, as its status will tell
            process.stdin.write(order.secret.encode() + b"\n")
        (directory / "batch_id").write_text(batch_id, encoding="ascii")
        return batch_id

    def _unpacked(self) -> Path:
        """Return the directory of the program, in which Python keeps it compiled, so that only the first start is slow.

        Its name is of its content: the pilots of a director of yesterday may still load parts of theirs.
        """
        target = self._directory / f"agent-{hashlib.sha256(self._program).hexdigest()[:16]}"
        if not target.exists():
            unfinished = target.with_name(f"{target.name}.{os.getpid()}")
            shutil.rmtree(unfinished, ignore_errors=True)
            with zipfile.ZipFile(io.BytesIO(self._program)) as archive:
                archive.extractall(unfinished)
            unfinished.rename(target)
        return target

    def _reap(self) -> None:
        """Look which pilots have ended; most have said so themselves, and nobody will ask after those."""
        for batch_id, one in list(self._children.items()):
            exit_code = one.process.poll()
            if exit_code is not None:
                del self._children[batch_id]
                self._exit_codes[batch_id] = exit_code
                shutil.rmtree(one.directory / "work", ignore_errors=True)
        for oldest in list(self._exit_codes)[:-_EXIT_CODES_KEPT]:
            del self._exit_codes[oldest]

    def _state_of(self, batch_id: str) -> BatchState:
        if batch_id in self._exit_codes:
            return BatchState(presence=Presence.ENDED, exit_code=self._exit_codes[batch_id])
        if batch_id in self._children:  # one that ends in this moment is said to have ended when its exit code is known
            return BatchState(presence=Presence.RUNNING)
        key = _key_of(batch_id)
        if key is None or key.host != socket.gethostname():
            return BatchState(presence=Presence.UNKNOWN)
        return BatchState(presence=Presence.RUNNING if _lives(key) else Presence.ENDED)

    def _sweep(self) -> None:
        """Remove the work directories of pilots that have ended, and logs that nobody will read any more."""
        self._swept_at = time.monotonic()
        for file in self._directory.glob("*/batch_id"):
            key = _key_of(file.read_text(encoding="ascii"))
            if key is not None and _lives(key):
                continue
            shutil.rmtree(file.parent / "work", ignore_errors=True)
            if file.stat().st_mtime < time.time() - KEEP_LOGS_S:
                shutil.rmtree(file.parent, ignore_errors=True)


def _number(options: Mapping[str, object], name: str, *, default: int) -> int:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BackendError(f"The option {name} must be a whole number above 0; it is {value!r}.")
    return value


def _make_private(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)


def _key_of(batch_id: str) -> ProcessKey | None:
    host, _, numbers = batch_id.partition(":")
    pid, _, started = numbers.partition(":")
    if not (pid.isdecimal() and started.isdecimal()):
        return None
    return ProcessKey(host=host, pid=int(pid), started=int(started))


def _key_of_process(pid: int) -> ProcessKey:
    """Return the key of a child that was not waited for, so that its number is still its own."""
    return ProcessKey(host=socket.gethostname(), pid=pid, started=_stat_of(pid)[1])


def _lives(key: ProcessKey) -> bool:
    try:
        state, started = _stat_of(key.pid)
    except OSError:
        return False
    return started == key.started and state not in "ZX"


def _stat_of(pid: int) -> tuple[str, int]:
    """Return the state of a process, and when it was started, in ticks since the machine was."""
    # The program's name, in parentheses, may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return fields[0], int(fields[19])
