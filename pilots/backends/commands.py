"""Run the command lines of batch systems, on this machine or, through OpenSSH, on the host of the batch system."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from pilots.backends import options as read
from pilots.backends.interface import BackendError
from pilots.backends.ssh_connection import SSHConnection, commands_that_stop_sharing, connection_of
from resources.domain.ce_options import flaw_of_environment
from wms.wire.search_path import search_path

T = TypeVar("T")

#: Timeout of one command; a batch system that takes longer is treated as down.
TIMEOUT_S = 30.0
#: Environment variables passed to commands; the others (addresses of servers, the secret key) stay private.
PASSED_ON = ("PATH", "HOME", "USER", "LANG", "TZ", "WMS_STACK_MARK")
#: Options of every CE whose batch system is used by command lines; ``commands_of`` reads them.
COMMON_OPTIONS = frozenset({"host", "port", "user", "identity_file", "known_hosts", "environment", "programs"})
_PROGRAM = (Path(__file__).parent / "host.py").read_text(encoding="utf-8")
#: Part of the command line, hence one short line that every login shell understands.
_BOOTSTRAP = "import json, sys; exec(json.loads(sys.stdin.readline()))"
#: Puts a directory in front of PATH, under any login shell.
_WITH_PROGRAMS = ("sh", "-c", 'PATH="$0:$PATH"; export PATH; exec "$@"')
#: The output of the command begins after this line; earlier lines come from startup files of the login shell.
_BEGINS = "wms-answer-begins"
_MARKED = ("sh", "-c", 'echo "$0"; exec "$@"', _BEGINS)
#: Characters of a program's output that an error quotes.
_SHOWN = 300
#: Exit codes by which shells report that a signal ended the command; the last signal is number 64.
_BY_SIGNAL = range(129, 193)
_SSH_FAILED = 255
#: Timeout of a command that closes a shared connection.
_STOPS_WITHIN_S = 1.0


class BatchCommandFailedError(BackendError):
    """The command ran and failed; it is not running any more."""


class CommandLostError(BackendError):
    """The result of the command is not known: it timed out, or the connection to its host broke."""


class Commands(Protocol):
    """Execution of command lines, in the home directory of the user there."""

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Return the standard output of the command.

        Raises:
            BatchCommandFailedError: its exit code was not 0, or there is no such program.
            CommandLostError: it may have done its work or not.
        """


class Here:
    """Commands on this machine.

    Args:
        environment: variables beside PASSED_ON.
        programs: directory searched before those of ``PATH``.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, programs: str = "") -> None:
        self._environment = _own_environment()
        if programs:
            self._environment["PATH"] = f"{programs}:{self._environment['PATH']}"
        self._environment |= environment or {}

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Run the command; see ``Commands``."""
        done = _run(argv, name=argv[0], stdin=stdin, timeout_s=timeout_s, environment=self._environment)
        return _output_of(argv[0], done)


class OverSSH:
    """Commands on a host that OpenSSH reaches; they share one connection, kept for a minute.

    NB: some login shells split an argument of several lines; pass such texts by *stdin*.

    Args:
        connection: to the host.
        environment: variables set there.
        programs: directory there that is searched before those of ``PATH``.
    """

    def __init__(
        self, connection: SSHConnection, environment: Mapping[str, str] | None = None, *, programs: str = ""
    ) -> None:
        self._connection = connection
        self._prefix = list(_MARKED)
        if environment:
            self._prefix += ["env", *(f"{name}={value}" for name, value in environment.items())]
        if programs:
            self._prefix += [*_WITH_PROGRAMS, programs]

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Run the command; see ``Commands``."""
        command, name = self._connection.command([*self._prefix, *argv]), f"{argv[0]} on {self._connection.host}"
        try:
            done = _run(command, name=name, stdin=stdin, timeout_s=timeout_s, environment=_own_environment())
        except CommandLostError:
            # Either the command is slow, or the shared connection hangs and would block all later commands.
            self._connection.forget()
            raise
        if done.exit_code == _SSH_FAILED:
            raise CommandLostError(self._connection.trouble(done.stderr))
        before, begun, answer = done.stdout.partition(f"{_BEGINS}\n")
        output = _output_of(name, done._replace(stdout=answer if begun else before))
        if not begun:
            raise CommandLostError(f"{name} was not run; the host answered {before[:_SHOWN]!r} instead.")
        return output


def stop_sharing(directories: Iterable[Path]) -> None:
    """Close shared connections after their last command, as far as they answer.

    Args:
        directories: those of the CEs.
    """
    for command in (command for each in directories for command in commands_that_stop_sharing(each)):
        with suppress(BatchCommandFailedError, CommandLostError):
            Here().run(command, timeout_s=_STOPS_WITHIN_S)


def commands_of(options: Mapping[str, object], *, directory: Path) -> tuple[Commands, Mapping[str, object]]:
    """Return the execution of a CE's commands, and its other options, ``directory`` and ``python`` among them.

    Args:
        options: as configured; ``COMMON_OPTIONS`` are read here.
        directory: on the server, for this CE alone; holds the connection's files.

    Raises:
        BackendError: one of the common options is wrong.
    """
    rest = {name: value for name, value in options.items() if name not in COMMON_OPTIONS}
    environment = _environment_of(options)
    programs = read.text(options, "programs")
    if programs and not programs.startswith("/"):
        raise BackendError(f"The option programs must be the absolute path of a directory; it is {programs!r}.")
    connection = connection_of(options, directory=directory)
    if connection is None:
        return Here(environment, programs=programs), rest
    return OverSSH(connection, environment, programs=programs), rest


def ask_host(commands: Commands, request: Mapping[str, object], answers: type[T], *, python: str = "python3") -> T:
    """Send a request to ``host.py`` on the host and return its answer; needs a Python there, as pilots do.

    The request goes by standard input, because everybody on the host can read command lines.

    Args:
        commands: execution on the host.
        request: for ``host.py``.
        answers: type of the answer.
        python: interpreter there.

    Raises:
        BatchCommandFailedError: the host refused it.
        CommandLostError: the result is not known, or the answer is something else.
    """
    stdin = f"{json.dumps(_PROGRAM)}\n{json.dumps(request)}"
    answer = commands.run([python, "-I", "-S", "-c", _BOOTSTRAP], stdin=stdin)
    try:
        return msgspec.json.decode(answer, type=answers)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CommandLostError(f"The answer of the host cannot be read: {answer[:_SHOWN]!r}.") from error


class _Done(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def _run(argv: Sequence[str], *, name: str, stdin: str, timeout_s: float, environment: Mapping[str, str]) -> _Done:
    """Run a program of this machine with exactly these environment variables.

    Raises:
        BatchCommandFailedError: it could not be started.
        CommandLostError: it timed out and was killed, with all its processes.
    """
    home = environment.get("HOME", "/")
    # A file, because a shared connection may keep standard error open, so that a pipe would never end.
    with tempfile.TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(  # noqa: S603 - a batch system's own program, and no shell
                list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=dict(environment),
                cwd=home if Path(home).is_dir() else "/", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise BatchCommandFailedError(f"{argv[0]} could not be started: {error.strerror}.") from error
        with process:
            try:
                stdout, _ = process.communicate(stdin.encode(), timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                raise CommandLostError(f"{name} gave no answer within {timeout_s:.0f} s.") from error
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        stderr.seek(0)
        return _Done(process.returncode, stdout.decode("utf-8", "replace"), stderr.read().decode("utf-8", "replace"))


def _output_of(name: str, done: _Done) -> str:
    """Return the output of a successful command.

    Raises:
        BatchCommandFailedError, CommandLostError: see ``Commands``.
    """
    if done.exit_code < 0 or done.exit_code in _BY_SIGNAL:
        number = abs(done.exit_code) if done.exit_code < 0 else done.exit_code - 128
        raise CommandLostError(f"{name} was ended by signal {number}.")
    if done.exit_code != 0:
        output = (done.stderr.strip() or done.stdout.strip() or "no output")[-_SHOWN:]
        raise BatchCommandFailedError(f"{name} ended with exit code {done.exit_code}: {output}")
    return done.stdout


def _own_environment() -> dict[str, str]:
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**passed_on, "PATH": ":".join(search_path(passed_on.get("PATH", "")))}


def _environment_of(options: Mapping[str, object]) -> Mapping[str, str]:
    if flaw := flaw_of_environment(options):
        raise BackendError(flaw)
    environment = options.get("environment", {})
    return environment if isinstance(environment, Mapping) else {}
