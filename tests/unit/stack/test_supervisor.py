"""The supervisor: start, restart and stop of services, with small real processes."""

import asyncio
import os
import signal
import socketserver
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import psutil
import pytest

from wms.kernel.pulse import VARIABLE
from wms.operations.parts import VARIABLE as PARTS_SOCKET
from wms.operations.parts import PartState, has_supervisor, read_parts
from wms.stack.launch import launched
from wms.stack.output import Output
from wms.stack.parts import ActivityPart, CallPart, CommandPart, ServicePart, Stage
from wms.stack.pulses import SILENT_LOOKS, Pulses
from wms.stack.supervisor import CommandPartFailedError, ServiceFailedError, Supervisor


@pytest.fixture
def socket() -> Iterator[Path]:
    """Return the path of a socket, short enough for one."""
    with TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory) / "pulses"


class Recorder(Output):
    """An output that records its texts, and interrupts this process after a given one."""

    def __init__(self, *, interrupt_at: str = "") -> None:
        self.lines: list[str] = []
        self._interrupt_at = interrupt_at

    def text(self, text: str) -> None:
        self.lines.append(text)
        if self._interrupt_at and self._interrupt_at in text:
            self._interrupt_at = ""
            interrupt()


class Asking(Recorder):
    """An output that asks for the state of the one service, from a line on until a condition; then it interrupts."""

    def __init__(self, *, at: str, until: Callable[[PartState], bool]) -> None:
        super().__init__()
        self.states: list[PartState] = []
        self._at = at
        self._until = until

    def text(self, text: str) -> None:
        super().text(text)
        if self._at in text:
            self._at = "\n"  # no line has one
            Thread(target=self._ask).start()

    def _ask(self) -> None:
        while not self.states or not self._until(self.states[-1]):
            if parts := read_parts():
                self.states.extend(parts.parts)
        interrupt()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def shell(script: str) -> list[str]:
    return launched(["/bin/sh", "-c", script])


def service(name: str, script: str, *, is_ready: Callable[[], bool] = lambda: True) -> ServicePart:
    return ServicePart(name=name, command=shell(script), environment=dict(os.environ), is_ready=is_ready)


def command(name: str, script: str) -> CommandPart:
    return CommandPart(name=name, command=shell(script), environment=dict(os.environ))


def run(stages: Sequence[Stage], *, output: Output | None = None, announce: Callable[[], None] = interrupt) -> None:
    async def supervise() -> None:
        await Supervisor(stages=stages, output=output or Recorder(), announce=announce).run()

    asyncio.run(supervise())


def noting(journal: Path, name: str) -> ServicePart:
    """Return a service that records its start and its end, and is ready when the start is recorded."""
    at_the_end = f"trap 'echo {name} ended >> {journal}; exit' TERM"
    script = f"{at_the_end}; echo {name} began >> {journal}; while :; do sleep 0.01; done"
    return service(name, script, is_ready=lambda: f"{name} began" in journal.read_text())


def test_stages_start_in_order_and_stop_in_reverse(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()

    run([[noting(journal, "database")], [command("migrate", f"echo migrated >> {journal}")], [noting(journal, "web")]])

    assert journal.read_text().splitlines() == [
        "database began",
        "migrated",
        "web began",
        "web ended",
        "database ended",
    ]


def test_output_bears_the_name_of_its_writer() -> None:
    output = Recorder()

    run([[command("first", "echo one; echo; echo two >&2")]], output=output)

    assert output.lines == ["first    | one", "first    | two"]


def test_a_command_that_fails_stops_everything_before_it(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()

    with pytest.raises(CommandPartFailedError, match="migrate failed: no such table"):
        run([[noting(journal, "database")], [command("migrate", "echo no such table; exit 3")]])

    assert journal.read_text().splitlines() == ["database began", "database ended"]


def test_a_service_that_ends_before_it_is_ready_is_one_sentence() -> None:
    with pytest.raises(ServiceFailedError, match="web did not start: port taken"):
        run([[service("web", "echo port taken; exit 1", is_ready=lambda: False)]])


def test_a_service_that_is_late_is_reported_and_waited_for() -> None:
    output = Recorder()
    announced: list[bool] = []
    stages = [[service("web", "sleep 60", is_ready=lambda: len(output.lines) >= 2)]]

    async def supervise() -> None:
        supervisor = Supervisor(
            stages=stages, output=output, announce=lambda: announced.append(True), stay=False, report_every_s=0.01
        )
        await supervisor.run()

    asyncio.run(supervise())

    assert output.lines[:2] == ["web      | is not ready after 0 s; Ctrl-C ends the wait"] * 2
    assert announced == [True]


def test_one_failure_in_a_stage_stops_the_others_of_that_stage(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    slow = service("slow", "sleep 60", is_ready=lambda: False)

    with pytest.raises(ServiceFailedError, match="web did not start"):
        run([[noting(journal, "database")], [slow, service("web", "exit 1", is_ready=lambda: False)]])

    assert journal.read_text().splitlines() == ["database began", "database ended"]


def test_a_call_that_raises_stops_everything() -> None:
    def refuse() -> None:
        raise CommandPartFailedError("no")

    with pytest.raises(CommandPartFailedError, match="no"):
        run([[service("database", "sleep 60")], [CallPart(function=refuse)]])


def test_a_service_that_ends_is_started_again(tmp_path: Path) -> None:
    output = Recorder(interrupt_at="second time")
    been_here = tmp_path / "been_here"
    script = f"test -e {been_here} && echo second time && exec sleep 60; touch {been_here}; exit 5"

    run([[service("web", script)]], output=output, announce=lambda: None)

    assert output.lines == ["web      | ended with exit code 5; it is started again in 0.5 s", "web      | second time"]


def test_a_service_that_ends_often_is_reported_and_what_it_left_is_ended_first(tmp_path: Path) -> None:
    output = Recorder(interrupt_at="3 times in 10 minutes")
    journal = tmp_path / "journal"
    part = replace(service("web", f"echo began >> {journal}; exit 5"), before_restart=partial(append, journal, "ended"))

    run([[part]], output=output, announce=lambda: None)

    assert output.lines[-1] == (
        "web      | ended with exit code 5; it is started again in 2 s; it has ended 3 times in 10 minutes"
    )
    assert journal.read_text().split()[:4] == ["began", "ended", "began", "ended"]


def append(journal: Path, word: str) -> None:
    journal.write_text(f"{journal.read_text()}{word}\n")


def test_a_service_that_hangs_is_reported_until_it_works_again(tmp_path: Path) -> None:
    output = Recorder(interrupt_at="works again")
    number = tmp_path / "number"
    part = service("web", f"echo $$ > {number}; kill -STOP $$; while :; do sleep 0.01; done")

    async def supervise() -> None:
        await Supervisor(stages=[[part]], output=resuming, announce=lambda: None, watch_every_s=0.05).run()

    class Resuming(Recorder):
        def text(self, text: str) -> None:
            if "has not worked" in text and len(output.lines) == 1:
                os.kill(int(number.read_text()), signal.SIGCONT)
            output.text(text)

    resuming = Resuming()
    asyncio.run(supervise())

    assert output.lines[0] == "web      | has not worked for 0 s; it hangs or waits for another part"
    assert output.lines[-1] == "web      | works again, after 0 s"


def pulsing(name: str, script: str, socket: Path) -> ServicePart:
    """Return a service that is a Python program, with the function that sends a pulse."""
    program = f"import os, signal, time\nfrom pathlib import Path\nfrom wms.kernel.pulse import send\n{script}"
    environment = {**os.environ, VARIABLE: str(socket)}
    return ServicePart(name=name, command=launched([sys.executable, "-c", program]), environment=environment)


def run_with_pulses(part: ServicePart, socket: Path, output: Output) -> list[str]:
    """Run a service until it interrupts; return the alarms. Its state is answered at ``parts`` beside the socket."""
    alarms: list[str] = []

    async def supervise() -> None:
        pulses = Pulses()
        supervisor = Supervisor(
            stages=[[part]],
            output=output,
            announce=lambda: None,
            watch_every_s=0.1,
            pulses=pulses,
            alarm=alarms.append,
        )
        with closing(await pulses.listen(socket)), closing(await supervisor.answer(socket.with_name("parts"))):
            await supervisor.run()

    asyncio.run(supervise())
    return alarms


def test_a_service_without_a_pulse_is_started_again_and_operators_are_told(socket: Path, tmp_path: Path) -> None:
    output = Recorder(interrupt_at="second time")
    number = tmp_path / "number"
    script = f"""
if Path({str(number)!r}).exists():
    print("second time", flush=True)
    time.sleep(60)
Path({str(number)!r}).write_text(str(os.getpid()))
send()
os.kill(os.getpid(), signal.SIGSTOP)
"""
    alarms = run_with_pulses(pulsing("beat", script, socket), socket, output)

    hangs = f"process {number.read_text()} hangs: it has sent no pulse for 1 s; it is ended and started again"
    assert f"beat     | {hangs}" in output.lines
    assert output.lines[-1] == "beat     | second time"
    assert f"beat {hangs}." in alarms
    assert "beat ended with signal SIGKILL; it is started again in 0.5 s." in alarms


def test_of_several_processes_only_silent_ones_are_ended_and_not_too_many(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A web server, each of whose processes sends one pulse and hangs, though its own goes on."""
    monkeypatch.setenv(PARTS_SOCKET, str(socket.with_name("parts")))
    output = Asking(at="this one is left", until=lambda state: bool(state.left))
    script = """
children = {}
while True:
    send()
    while len(children) < 4:
        child = os.fork()
        if not child:
            send()
            time.sleep(60)
        children[child] = True
    ended, _ = os.waitpid(-1, os.WNOHANG)
    if ended:
        print("ended", flush=True)
    time.sleep(0.02)
"""
    run_with_pulses(pulsing("web", script, socket), socket, output)

    assert sum("it is ended and started again" in line for line in output.lines) == 3
    # Other lines may follow until it stops.
    assert any(line.endswith("; 3 were ended in 10 minutes, and this one is left") for line in output.lines)
    assert not any("ended with" in line for line in output.lines)
    last = output.states[-1]
    assert (last.restarts, last.restarts_lately, last.hangs_s) == (3, 3, 0)


def test_a_service_that_goes_on_to_send_pulses_is_left_alone(socket: Path) -> None:
    output = Recorder(interrupt_at="enough")
    script = "for look in range(100):\n    send()\n    time.sleep(0.02)\nprint('enough', flush=True)\ntime.sleep(60)"

    run_with_pulses(pulsing("web", script, socket), socket, output)

    assert output.lines == ["web      | enough"]


def test_the_state_of_parts_is_answered_while_they_hang_and_after_their_restart(
    socket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PARTS_SOCKET, str(socket.with_name("parts")))
    output = Asking(at="first time", until=lambda state: state.restarts > 0 and state.running_s is not None)
    number = tmp_path / "number"
    script = f"""
send()
if not Path({str(number)!r}).exists():
    Path({str(number)!r}).write_text(str(os.getpid()))
    print("first time", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(60)
"""
    run_with_pulses(pulsing("beat", script, socket), socket, output)

    states, hanging = output.states, number.read_text()
    assert {state.name for state in states} == {"beat"}
    silent = {process.silent_s for state in states for process in state.processes if str(process.pid) == hanging}
    assert max(silent) >= SILENT_LOOKS * 0.1
    assert any(state.hangs_s for state in states if not state.restarts)  # the process is stopped
    last = states[-1]
    assert (last.restarts, last.restarts_lately, last.left) == (1, 1, [])
    assert last.last_reason == f"process {hanging} hangs: it has sent no pulse for 1 s"


def test_there_is_no_state_without_a_supervisor_or_while_it_is_silent(
    socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PARTS_SOCKET, raising=False)
    assert not has_supervisor()
    assert read_parts() is None
    monkeypatch.setenv(PARTS_SOCKET, str(socket))
    assert has_supervisor()
    assert read_parts() is None  # nobody listens
    with socketserver.UnixStreamServer(str(socket), socketserver.BaseRequestHandler):
        assert read_parts() is None  # nobody answers


def test_processes_of_others_and_looks_after_a_pause_do_not_count() -> None:
    pulses = Pulses()
    own = os.getpgid(0)
    pulses.datagram_received(b"%d" % os.getpid(), None)
    pulses.datagram_received(b"1", None)
    pulses.datagram_received(b"no number", None)
    for _ in range(SILENT_LOOKS):
        assert pulses.silent(own) == []
    pulses.forgive()
    for _ in range(SILENT_LOOKS):
        assert pulses.silent(own) == []
    assert pulses.silent(own) == [os.getpid()]


def test_an_interrupt_while_starting_stops_what_has_been_started(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    announced: list[str] = []

    def interrupting() -> bool:
        interrupt()
        return False

    run(
        [[noting(journal, "database")], [service("web", "sleep 60", is_ready=interrupting)]],
        announce=lambda: announced.append("ready"),
    )

    assert announced == []
    assert journal.read_text().splitlines() == ["database began", "database ended"]


def test_a_second_interrupt_kills() -> None:
    stubborn = service("web", "trap '' TERM; echo asked in vain; while :; do sleep 0.01; done")
    output = Recorder()

    def twice() -> None:
        interrupt()
        asyncio.get_running_loop().call_later(0.1, interrupt)

    run([[stubborn]], output=output, announce=twice)


def test_a_line_without_end_is_cut_and_written() -> None:
    output = Recorder()

    run([[command("loud", "head -c 200000 /dev/zero | tr '\\0' x")]], output=output)

    assert sum(line.count("x") for line in output.lines) == 200_000
    assert len(output.lines) > 1


def test_a_service_whose_child_lives_on_is_started_again_and_the_child_ended(tmp_path: Path) -> None:
    output = Recorder(interrupt_at="second time")
    child = tmp_path / "child"
    script = f"test -e {child} && echo second time && exec sleep 60; sleep 60 & echo $! > {child}; exit 5"

    run([[service("web", script)]], output=output, announce=lambda: None)

    assert output.lines[-1] == "web      | second time"
    assert not psutil.pid_exists(int(child.read_text())) or psutil.Process(int(child.read_text())).status() == "zombie"


def test_an_activity_writes_and_ends_before_what_comes_after_it() -> None:
    output = Recorder()

    async def act(shared: Output) -> None:
        shared.line("activity", "began")
        await asyncio.sleep(0)
        shared.line("activity", "ended")

    run([[ActivityPart(function=act)], [command("after", "echo began")]], output=output)

    assert output.lines == ["activity | began", "activity | ended", "after    | began"]


def test_an_activity_is_cut_short_by_an_interrupt(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    announced: list[bool] = []

    async def act(_output: Output) -> None:
        try:
            interrupt()
            await asyncio.Event().wait()
        finally:
            journal.write_text(journal.read_text() + "activity cut short\n")

    run([[noting(journal, "web")], [ActivityPart(function=act)]], announce=lambda: announced.append(True))

    assert journal.read_text().splitlines() == ["web began", "activity cut short", "web ended"]
    assert announced == []


def test_without_staying_it_ends_after_the_last_stage(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    output = Recorder()
    stages = [[noting(journal, "web")]]

    async def supervise() -> None:
        await Supervisor(stages=stages, output=output, announce=partial(output.text, "ready"), stay=False).run()

    asyncio.run(supervise())

    assert output.lines == ["ready"]
    assert journal.read_text().splitlines() == ["web began", "web ended"]
