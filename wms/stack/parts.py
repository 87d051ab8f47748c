"""Parts run by the supervisor: long-running services, commands that end, function calls and activities."""

import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from wms.stack.output import Output


def _at_once() -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePart:
    """A program that runs as long as the system does.

    Args:
        name: prefix of each line of its output.
        command: its command line; from ``launch.launched``, so that it ends with the supervisor.
        environment: all its variables.
        quiet: keep its output for an error sentence instead of showing it.
        is_ready: called in a thread until it returns True; by default a service is ready when started.
        works: called in a thread while it runs; the default is is_ready.
        before_restart: called in a thread before the program, which has ended, is started again.
        stop_signal: signal to end it.
        stop_within_s: time after which it is killed with its children.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool = False
    is_ready: Callable[[], bool] = _at_once
    works: Callable[[], bool] | None = None
    before_restart: Callable[[], object] = _at_once
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPart:
    """A program that must succeed before later stages start; arguments as for a service.

    Args:
        failure: error sentence; by default its name and the last line of its output.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A function that must return before later stages start; it runs in a thread.

    It may raise a StackError; any other exception is a programming error.
    """

    function: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityPart:
    """A coroutine that must return before later stages start; cancelled when the system stops.

    It may raise a StackError; any other exception is a programming error.
    """

    function: Callable[[Output], Awaitable[None]]


Part = ServicePart | CommandPart | CallPart | ActivityPart
#: Parts of one stage start together; the next stage starts when all of them are ready or done.
Stage = Sequence[Part]
