"""What the supervisor runs: services that stay, commands that end, and calls and activities of our own."""

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
        name: stands before each line of its output.
        command: its command line; that of ``launch.launched``, so that it ends with the supervisor.
        environment: all its variables.
        quiet: keep its output for an error's sentence instead of showing it.
        is_ready: asked until it is true, in a thread; without one, a service is ready when it has been started.
        ready_within_s: after this long it is taken for failed.
        stop_signal: what asks it to end.
        stop_within_s: after this long it is killed with all it started.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool = False
    is_ready: Callable[[], bool] = _at_once
    ready_within_s: float = 60.0
    stop_signal: signal.Signals = signal.SIGTERM
    stop_within_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPart:
    """A program that has to end well before anything after it is started; arguments as for a service.

    Args:
        failure: the sentence to say when it does not; by default its name and the last line that it wrote.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    quiet: bool = False
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPart:
    """A function of ours that has to return before anything after it is started; it runs in a thread.

    Only a StackError that it raises is expected; anything else is a mistake in the program.
    """

    function: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityPart:
    """A coroutine of ours that has to return before anything after it is started; cancelled when all is to stop.

    Only a StackError that it raises is expected; anything else is a mistake in the program.
    """

    function: Callable[[Output], Awaitable[None]]


Part = ServicePart | CommandPart | CallPart | ActivityPart
#: Parts of one stage start together; the next stage starts when all of them are ready or done.
Stage = Sequence[Part]
