"""The supervisor: one foreground process that starts the parts in order, restarts them, and stops them in reverse.

Each child has a session of its own, so that Ctrl-C in the terminal reaches only the supervisor. When the supervisor is
killed, each child gets its death signal from the kernel (``launch``) and the guard ends the rest (``guard``).
"""

import asyncio
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from wms.kernel.processes import is_stopped
from wms.operations.parts import Parts, PartState, ProcessState
from wms.stack.errors import StackError
from wms.stack.output import Output, copy_lines
from wms.stack.parts import ActivityPart, CallPart, CommandPart, Part, ServicePart, Stage
from wms.stack.pulses import SILENT_LOOKS, Pulses, group_of

_PROBE_EVERY_S = 0.05
_LINES_KEPT = 30
_SHORTEST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
#: Seconds after which a service counts as healthy, so that its next failure is a first one again.
_WELL_AFTER_S = 60.0
#: Seconds in which failures are counted.
_COUNTED_S = 600.0
#: Silent processes of a part that are ended in this time; of further ones it is only said that they hang.
_MOST_ENDED = 3


class ServiceFailedError(StackError):
    """A service ended while the system was being started."""


class CommandPartFailedError(StackError):
    """A command on which the system depends failed."""


class Supervisor:
    """Run the stages until stopped by SIGINT, SIGTERM or SIGHUP.

    Args:
        stages: started one after another, stopped in reverse.
        output: receives every line.
        announce: called once everything is ready.
        stay: whether to run until stopped; otherwise until all stages have been started.
        report_every_s: period of a line about a service that is not ready yet.
        watch_every_s: period in which services that run are looked at; after three times one that hangs is reported.
        pulses: of the processes of services; one that sends none any more is ended, and so started again (ADR 96).
        alarm: is told each sentence about a service that has ended, or hangs; does not block.
    """

    def __init__(
        self,
        *,
        stages: Sequence[Stage],
        output: Output,
        announce: Callable[[], None],
        stay: bool = True,
        report_every_s: float = 60.0,
        watch_every_s: float = 10.0,
        pulses: Pulses | None = None,
        alarm: Callable[[str], object] = lambda _sentence: None,
    ) -> None:
        self._stages = stages
        self._output = output
        self._announce = announce
        self._stay = stay
        self._report_every_s = report_every_s
        self._watch_every_s = watch_every_s
        self._pulses = pulses or Pulses()
        self._alarm = alarm
        self._running: list[list[_Child]] = []
        self._began = time.monotonic()
        self._asked_to_stop = asyncio.Event()

    async def run(self) -> None:
        """Start all stages, wait if ``stay``, stop all.

        Raises:
            StackError: a part could not be started; the others are stopped.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop_asked)
        starting = asyncio.create_task(self._start())
        waiting = asyncio.create_task(self._asked_to_stop.wait())
        try:
            await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self._announce()
                if self._stay:
                    await waiting
        finally:
            for task in (starting, waiting):
                task.cancel()
            await asyncio.gather(starting, waiting, return_exceptions=True)
            await self._stop()

    async def answer(self, path: Path) -> asyncio.Server:
        """Answer the state of all services as JSON to each connection to a new socket, until the server is closed."""

        def tell(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(msgspec.json.encode(self.state()))
            writer.close()

        return await asyncio.start_unix_server(tell, path)

    def state(self) -> Parts:
        """Return the state of the services that were started."""
        states = [child.state(self._pulses, look_s=self._watch_every_s) for child in self._children()]
        return Parts(supervisor_s=time.monotonic() - self._began, parts=[each for each in states if each])

    def _stop_asked(self) -> None:
        if self._asked_to_stop.is_set():  # the second signal
            for child in self._children():
                child.kill()
        self._asked_to_stop.set()

    def _children(self) -> "list[_Child]":
        return [child for stage in self._running for child in stage]

    async def _start(self) -> None:
        for stage in self._stages:
            self._running.append([])
            try:
                async with asyncio.TaskGroup() as together:
                    for part in stage:
                        together.create_task(self._start_part(part))
            except ExceptionGroup as failed:
                # NB: not except*, which before Python 3.11.4 puts an exception raised here into a group again.
                expected, others = failed.split(StackError)
                if expected is None or others is not None:
                    raise
                raise expected.exceptions[0] from None  # the first sentence suffices: it cancelled the others

    async def _start_part(self, part: Part) -> None:
        if isinstance(part, CallPart):
            await asyncio.to_thread(part.function)
            return
        if isinstance(part, ActivityPart):
            await part.function(self._output)
            return
        child = _Child(part, output=self._output, alarm=self._alarm)
        self._running[-1].append(child)
        await child.start()
        if isinstance(part, CommandPart):
            await child.succeed(part)
            return
        await child.become_ready(part, report_every_s=self._report_every_s)
        child.keep(part, watch_every_s=self._watch_every_s, pulses=self._pulses)

    async def _stop(self) -> None:
        for child in self._children():
            await child.let_go()
        for stage in reversed(self._running):
            await asyncio.gather(*(child.stop() for child in stage))


class _Child:
    """One process, restarted if need be, and the task that copies its output."""

    def __init__(self, part: ServicePart | CommandPart, *, output: Output, alarm: Callable[[str], object]) -> None:
        self._part = part
        self._output = output
        self._alarm = alarm
        self._process: asyncio.subprocess.Process | None = None
        self._copying: asyncio.Task[None] | None = None
        self._keeping: list[asyncio.Task[None]] = []
        self._last_lines: deque[str] = deque(maxlen=_LINES_KEPT)
        self._silent_ended = _Recent()
        #: Processes that hang, and are left.
        self._left: set[int] = set()
        self._began = time.monotonic()
        #: Since when it is known not to work.
        self._hangs_since: float | None = None
        self._restarts = 0
        self._restarted = _Recent()
        self._last_reason = ""
        #: Why the process was killed; empty: it ends by itself.
        self._killed_because = ""

    async def start(self) -> None:
        """Start the process."""
        # NB: a pipe made by asyncio would delay the end of the process until its children have ended too.
        reading, writing = os.pipe()
        with ExitStack() as if_not_started:
            if_not_started.callback(os.close, reading)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._part.command,
                    env=dict(self._part.environment),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=writing,
                    stderr=writing,
                    start_new_session=True,
                )
            finally:
                os.close(writing)
            if_not_started.pop_all()
        self._began, self._left = time.monotonic(), set()
        self._copying = asyncio.create_task(copy_lines(reading, write=self._write, last=self._last_lines))

    def _write(self, line: str) -> None:
        if not self._part.quiet:
            self._output.line(self._part.name, line)

    def state(self, pulses: Pulses, *, look_s: float) -> PartState | None:
        """Return the state of the service; None: it is a command, or is not started yet."""
        if not isinstance(self._part, ServicePart) or self._process is None:
            return None
        now, group = time.monotonic(), self._process.pid
        return PartState(
            name=self._part.name,
            running_s=now - self._began if self._process.returncode is None else None,
            hangs_s=0.0 if self._hangs_since is None else now - self._hangs_since,
            restarts=self._restarts,
            restarts_lately=self._restarted.count(),
            last_reason=self._last_reason,
            processes=[ProcessState(pid=pid, silent_s=n * look_s) for pid, n in sorted(pulses.looks(group).items())],
            left=[process for process in sorted(self._left) if group_of(process) == group],
        )

    async def succeed(self, command: CommandPart) -> None:
        """Wait for the end; raise CommandPartFailedError unless it succeeded."""
        if await self._end() != 0:
            raise CommandPartFailedError(command.failure or f"{command.name} failed{self._last_line()}")

    async def become_ready(self, service: ServicePart, *, report_every_s: float) -> None:
        """Wait until the service is ready, however long it takes; raise ServiceFailedError if it ends first."""
        end = asyncio.create_task(self._end())
        begun = time.monotonic()
        report_after_s = report_every_s
        try:
            while not await asyncio.to_thread(service.is_ready):
                if end.done():
                    raise ServiceFailedError(f"{service.name} did not start{self._last_line()}")
                elapsed_s = time.monotonic() - begun
                if elapsed_s >= report_after_s:
                    report_after_s += report_every_s
                    self._output.line(service.name, f"is not ready after {elapsed_s:.0f} s; Ctrl-C ends the wait")
                await asyncio.sleep(_PROBE_EVERY_S)
        finally:
            end.cancel()

    def keep(self, service: ServicePart, *, watch_every_s: float, pulses: Pulses) -> None:
        """Restart the service whenever it ends, report when it hangs, and end what has no pulse, from now on."""
        watching = self._watch(service, every_s=watch_every_s, pulses=pulses)
        self._keeping = [asyncio.create_task(each) for each in (self._keep(service), watching)]

    async def _keep(self, service: ServicePart) -> None:
        pause_s = _SHORTEST_PAUSE_S
        ends = _Recent()
        while True:
            begun = time.monotonic()
            code = await self._end()
            if time.monotonic() - begun > _WELL_AFTER_S:
                pause_s = _SHORTEST_PAUSE_S
            times = ends.add()
            often = f"; it has ended {times} times in {_COUNTED_S / 60:g} minutes" if times > 2 else ""
            self._say(f"ended with {_described(code)}; it is started again in {pause_s:g} s{often}")
            self._note_restart(self._killed_because or f"ended with {_described(code)}")
            self._killed_because = ""
            self.kill()  # its children may still hold its port
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            with suppress(OSError):  # no free process or memory: the loop tries again after the pause
                await asyncio.to_thread(service.before_restart)
                await self.start()

    async def _watch(self, service: ServicePart, *, every_s: float, pulses: Pulses) -> None:
        works = service.works or service.is_ready
        worked_at, report_after_s = time.monotonic(), 3 * every_s
        await asyncio.sleep(2 * every_s)  # the others are still being started
        while True:
            asleep_since = time.monotonic()
            await asyncio.sleep(every_s)
            if time.monotonic() - asleep_since > 2 * every_s:
                pulses.forgive()
            self._end_silent(pulses, every_s=every_s)
            hangs_s = time.monotonic() - worked_at
            assert self._process is not None  # noqa: S101 - for mypy: it was started
            if not is_stopped(self._process.pid) and await asyncio.to_thread(works):
                self._hangs_since = None
                if report_after_s > 3 * every_s:
                    self._say(f"works again, after {hangs_s:.0f} s")
                worked_at, report_after_s = time.monotonic(), 3 * every_s
                continue
            self._hangs_since = worked_at
            if hangs_s >= report_after_s:
                report_after_s *= 2
                self._say(f"has not worked for {hangs_s:.0f} s; it hangs or waits for another part")

    def _end_silent(self, pulses: Pulses, *, every_s: float) -> None:
        """End those processes of the service that sent pulses and send none any more."""
        assert self._process is not None  # noqa: S101 - for mypy: it was started
        for process in pulses.silent(self._process.pid):
            pulses.forget(process)
            hangs = f"process {process} hangs: it has sent no pulse for {SILENT_LOOKS * every_s:.0f} s"
            if self._silent_ended.count() >= _MOST_ENDED:
                self._left.add(process)
                self._say(f"{hangs}; {_MOST_ENDED} were ended in {_COUNTED_S / 60:g} minutes, and this one is left")
                continue
            self._silent_ended.add()
            self._say(f"{hangs}; it is ended and started again")
            if process == self._process.pid:
                self._killed_because = hangs
                self.kill()
            else:
                self._note_restart(hangs)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def _note_restart(self, reason: str) -> None:
        self._restarts += 1
        self._restarted.add()
        self._last_reason = reason

    def _say(self, sentence: str) -> None:
        """Write a sentence about trouble, and tell it to the operators."""
        self._output.line(self._part.name, sentence)
        self._alarm(f"{self._part.name} {sentence}.")

    async def let_go(self) -> None:
        """Stop restarting the service."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def stop(self) -> None:
        """Signal the process to end, wait, and kill the rest of its session."""
        if self._process is None:
            return
        if isinstance(self._part, ServicePart):
            self._signal(self._part.stop_signal)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self._part.stop_within_s)
        self.kill()
        await self._end()

    def kill(self) -> None:
        """Kill the process and its process group, whose number is the process's own."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None  # noqa: S101 - for mypy: checked by the caller
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _end(self) -> int:
        assert self._process is not None  # noqa: S101 - for mypy: it was started
        assert self._copying is not None  # noqa: S101 - for mypy
        code = await self._process.wait()
        # A child that left the session may hold the pipe open for ever; its output is not waited for.
        await asyncio.wait({self._copying}, timeout=1)
        return code

    def _last_line(self) -> str:
        return f": {self._last_lines[-1]}" if self._last_lines else ""


class _Recent:
    """Moments of the last _COUNTED_S seconds."""

    def __init__(self) -> None:
        self._moments: deque[float] = deque()

    def add(self) -> int:
        """Add this moment; return how many there are."""
        self._moments.append(time.monotonic())
        return self.count()

    def count(self) -> int:
        """Return how many there are."""
        while self._moments and time.monotonic() - self._moments[0] > _COUNTED_S:
            self._moments.popleft()
        return len(self._moments)


def _described(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
