"""Runs the command lines of batch systems, on this machine or, through OpenSSH, on the host where they are."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pilots.backends.interface import BackendError

#: Of one command; a batch system that takes longer is as good as dead.
TIMEOUT_S = 30.0
_PROGRAM = (Path(__file__).parent / "host.py").read_text(encoding="utf-8")
_SHOWN = 300


class CommandFailedError(BackendError):
    """The command was run and refused; nothing of it is still under way."""


class CommandLostError(BackendError):
    """Nobody knows what became of the command: it took too long, or the way to its host broke."""


class Commands(Protocol):
    """Where command lines are run."""

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Return what the command wrote to standard output.

        Raises:
            CommandFailedError: it ended with another exit code than 0, or there is no such program.
            CommandLostError: it may have done its work, or not.
        """


class Here:
    """This machine.

    Args:
        environment: variables beside the few that batch systems need.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(environment or {})

    def run(self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Run the command; see ``Commands``."""
        return run_locally(argv, stdin=stdin, timeout_s=timeout_s, environment=self._environment)


def run_locally(argv: Sequence[str], *, stdin: str, timeout_s: float, environment: Mapping[str, str]) -> str:
    """Run a program of this machine with no other variables than these.

    Raises:
        CommandFailedError, CommandLostError: see ``Commands``.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a batch system's own program, and no shell
            list(argv), input=stdin, capture_output=True, text=True, errors="replace", check=False, timeout=timeout_s,
            env=dict(environment),
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise CommandLostError(f"{argv[0]} gave no answer within {timeout_s:.0f} s.") from error
    except OSError as error:
        raise CommandFailedError(f"{argv[0]} could not be started: {error.strerror}.") from error
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-_SHOWN:]
        raise CommandFailedError(f"{argv[0]} ended with exit code {done.returncode}: {said}")
    return done.stdout


def ask_host(commands: Commands, request: Mapping[str, object], *, timeout_s: float = TIMEOUT_S) -> Any:
    """Have ``host.py`` do something on the host and return its answer; needs a Python there, as pilots do.

    The request goes by standard input: what is on a command line everybody on the host could read.

    Raises:
        BackendError: as ``Commands.run``; or the host answered nonsense.
    """
    answer = commands.run(["python3", "-I", "-S", "-c", _PROGRAM], stdin=json.dumps(request), timeout_s=timeout_s)
    try:
        return json.loads(answer)
    except ValueError as error:
        raise BackendError(f"The host answered what cannot be read: {answer[:_SHOWN]!r}.") from error
