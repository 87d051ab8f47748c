"""The backend of this machine: each pilot is a process here."""

import io
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pilots.agent_package import agent_package
from pilots.backends import host
from pilots.backends import options as read
from pilots.backends.commands import commands_of
from pilots.backends.interface import BackendError, CEDescription, PilotOrder
from pilots.backends.plain_host import SECRET_FILE, WORK_DIRECTORY, PlainHostBackend
from pilots.backends.script import server_arguments
from wms.wire.private_directories import make_private

#: Seconds between the signal to end, upon which pilots hand their jobs back, and the kill.
LEAVE_WITHIN_S = 8.0
#: Grace and stop times of these pilots, short enough to hand jobs back within LEAVE_WITHIN_S.
_GRACE_S, _STOP_WITHIN_S = 2, 7
#: Timeout after SIGKILL, which only the kernel can delay.
_KILLED_WITHIN_S = 5.0
_POLL_S = 0.05
_OPTIONS = ("max_processes", "max_idle_s", "node_processors", "python", "environment")
_MAX_IDLE_S = 60
#: Longest wait between two requests for a job, in seconds; on this machine requests are cheap.
_MAX_WAIT_S = 10


class LocalBackend(PlainHostBackend):
    """The processes of one local CE.

    Options: ``max_processes``, the most pilots of all queues of the CE together; ``max_idle_s``, seconds without a job
    after which a pilot ends; ``node_processors``, cores that a pilot may offer, instead of those that it detects;
    ``python``, their interpreter; ``environment``, their variables.
    """

    def __init__(self, description: CEDescription) -> None:
        """Take the description; see ``Backend``."""
        options = description.options
        read.refuse_unknown(options, known=_OPTIONS, kind="local")
        commands, _ = commands_of(options, directory=description.directory)
        # Payloads seldom use a core all the time, and pilots mostly wait.
        max_processes = read.number(options, "max_processes", default=max(16, 4 * (os.cpu_count() or 1)))
        python = _python_of(options)
        super().__init__(commands, directory=str(description.directory), python=python, max_processes=max_processes)
        self._node = read.words_of_node(read.node_processors(options))
        self._max_idle_s = read.number(options, "max_idle_s", default=_MAX_IDLE_S)
        self._place = description.directory
        self._server_url = description.server_url
        self._hidden = [str(directory.absolute()) for directory in (*description.hidden, description.directory)]

    def script(self, order: PilotOrder) -> str:
        """Return a script that starts the agent from this machine's copy, without fetching it."""
        place = ("--vo", order.vo, "--site", order.site, "--ce", order.ce, "--queue", order.queue)
        token = ("--token-file", SECRET_FILE, "--remove-token-file")
        life: tuple[str, ...] = (
            "--max-idle-s",
            str(self._max_idle_s),
            "--max-wait-s",
            str(_MAX_WAIT_S),
            "--work-dir",
            WORK_DIRECTORY,
        )
        life += ("--grace-s", str(_GRACE_S), "--stop-within-s", str(_STOP_WITHIN_S), *self._node)
        hidden = (word for directory in self._hidden for word in ("--hide", directory))
        program = (self._python, "-I", str(_unpacked(self._place)), *server_arguments(self._server_url))
        return f"exec {shlex.join((*program, *token, *hidden, *place, '--stamp', order.stamp, *life))}\n"


def dismiss(directory: Path) -> None:
    """End all pilots of the local CEs whose directories are in *directory*: a signal, a wait, then a kill.

    Their CEs report them as ended afterwards.
    """
    pilots = [process for process in _processes_in(directory) if process.lives]
    _send(pilots, signal.SIGTERM)
    _wait_for(pilots, within_s=LEAVE_WITHIN_S)
    _send(pilots, signal.SIGKILL)
    _wait_for(pilots, within_s=_KILLED_WITHIN_S)


def _processes_in(directory: Path) -> Iterator[host.Process]:
    for place, below, files in os.walk(directory):
        if host.PROCESS in files:
            below.clear()  # it contains files of payloads, with any names
            process = host.process_of(Path(place))
            if process is not None:
                yield process


def _send(pilots: Sequence[host.Process], number: signal.Signals) -> None:
    for process in pilots:
        if process.pilot_lives:
            with suppress(ProcessLookupError):
                os.kill(process.pilot, number)


def _wait_for(pilots: Sequence[host.Process], *, within_s: float) -> None:
    """Wait until the pilots have ended, and the shells around them have recorded their exit codes."""
    give_up = time.monotonic() + within_s
    while time.monotonic() < give_up and any(process.lives for process in pilots):
        time.sleep(_POLL_S)


def _unpacked(place: Path) -> Path:
    """Return the directory of the unpacked agent; Python keeps it compiled there, so that later starts are fast.

    Its name depends on its content: pilots started before an upgrade may still load modules of theirs.

    Raises:
        BackendError: it cannot be written.
    """
    package = agent_package()
    target = place / f"agent-{package.sha256[:16]}"
    if target.exists():
        return target
    try:
        make_private(place)
        with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as unfinished:
            with zipfile.ZipFile(io.BytesIO(package.content)) as archive:
                archive.extractall(unfinished)
            Path(unfinished).rename(target)
    except OSError as error:
        if not target.exists():  # else another process of the server was faster
            raise BackendError(f"The agent cannot be unpacked into {place}: {error.strerror}.") from error
    return target


def _python_of(options: Mapping[str, object]) -> str:
    python = read.text(options, "python", default=sys.executable)
    interpreter = shutil.which(python)
    if interpreter is None:
        raise BackendError(f"The option python must name an interpreter; {python!r} is not one.")
    return interpreter
