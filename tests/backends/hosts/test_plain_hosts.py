"""Pilots as detached processes of a plain host, local or behind SSH: started once, monitored, killed, cleaned up."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from pilots.backends import host
from pilots.backends.interface import BatchState, Handle, Presence
from tests.backends.hosts.conftest import Host
from tests.backends.hosts.pilots import order, process_of, start
from tests.pace import wait_for


def state(plain: Host, stamp: str) -> BatchState:
    return plain.backend().status([Handle(stamp=stamp)])[stamp]


def ended(plain: Host, stamp: str) -> BatchState:
    wait_for(lambda: state(plain, stamp).presence is Presence.ENDED)
    return state(plain, stamp)


def secrets_seen(secrets: list[str]) -> list[str]:
    """Return the command lines and environments that contain one of the secrets."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                content = (process / name).read_bytes()
            except OSError:
                continue
            found += [f"{process}/{name}" for secret in secrets if secret.encode() in content]
    return found


def test_ten_pilots_start_in_one_call_without_readable_secrets(plain: Host) -> None:
    orders = [order() for _ in range(10)]
    secrets = [one.secret for one in orders]
    seen: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.extend(secrets_seen(secrets))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        submissions = plain.backend(max_processes=12).submit(orders)
        wait_for(lambda: all((plain.place / one.stamp / "taken").exists() for one in orders))
    finally:
        done.set()
        watcher.join()

    assert [one.stamp for one in submissions] == [one.stamp for one in orders]
    assert [one.error for one in submissions] == [""] * 10
    assert len({one.batch_id for one in submissions}) == 10
    for one in orders:
        own = plain.place / one.stamp
        assert (own / "taken").read_text() == f"{one.secret}\n"
        assert (own.stat().st_mode & 0o777, (own / "pilot.log").stat().st_mode & 0o077) == (0o700, 0)
    assert seen + secrets_seen(secrets) == []
    assert plain.backend(max_processes=12).capacity() == 2
    states = plain.backend().status([Handle(stamp=one.stamp) for one in orders])
    assert {one.presence for one in states.values()} == {Presence.RUNNING}
    assert {stamp: one.batch_id for stamp, one in states.items()} == {one.stamp: one.batch_id for one in submissions}


def test_a_pilot_has_its_own_session_and_no_inherited_files(plain: Host) -> None:
    # A director waits for some signals instead of taking them; its pilots must hear those all the same.
    blocked = {signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        _, own = start(plain.backend(), plain.place)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    process = process_of(own)
    wait_for(lambda: Path(f"/proc/{process.pilot}/comm").read_text() == "sleep\n")  # no shell that reads its script
    assert os.getsid(process.pilot) == process.shell
    log = str(own / "pilot.log")
    for pid in (process.pilot, process.shell):
        open_files = {int(link.name): str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
        assert {number: open_files[number] for number in (0, 1, 2)} == {0: "/dev/null", 1: log, 2: log}
        assert open_files.keys() <= {0, 1, 2}
    status = dict(line.split(":\t") for line in Path(f"/proc/{process.pilot}/status").read_text().splitlines())
    assert int(status["SigBlk"], 16) == 0
    assert not int(status["SigIgn"], 16) & (1 << (signal.SIGTERM - 1) | 1 << (signal.SIGHUP - 1))


def test_a_stamp_is_started_once_by_concurrent_requests(plain: Host) -> None:
    orders = [order() for _ in range(5)]
    barrier = threading.Barrier(3)
    batch_ids: list[list[str]] = []

    def submit() -> None:
        backend = plain.backend()
        barrier.wait()
        batch_ids.append([one.batch_id for one in backend.submit(orders)])

    threads = [threading.Thread(target=submit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = [one.batch_id for one in plain.backend().submit(orders)]
    wait_for(lambda: all((plain.place / one.stamp / "taken").exists() for one in orders))

    assert batch_ids == [again] * 3
    assert [(plain.place / one.stamp / "begun").read_text() for one in orders] == ["begun\n"] * 5
    assert plain.backend(max_processes=10).capacity() == 5


def test_how_pilots_ended_is_known_and_a_pilot_that_has_ended_is_not_started_again(plain: Host) -> None:
    sleeping, _ = start(plain.backend(), plain.place)
    wanted = order("exit3")
    (first,) = plain.backend().submit([wanted])
    assert ended(plain, wanted.stamp) == BatchState(
        presence=Presence.ENDED, batch_id=first.batch_id, exit_code=3, reason=f"hello from {wanted.stamp}"
    )
    assert plain.backend().submit([wanted])[0] == first
    assert (plain.place / wanted.stamp / "begun").read_text() == "begun\n"

    well, _ = start(plain.backend(), plain.place, "exit0")
    assert (ended(plain, well).exit_code, ended(plain, well).reason) == (0, "")
    assert state(plain, sleeping).presence is Presence.RUNNING
    assert plain.backend(max_processes=3).capacity() == 2


def test_killed_pilots_end_with_the_signal(plain: Host) -> None:
    ours, _ = start(plain.backend(), plain.place)
    others, own = start(plain.backend(), plain.place)
    stubborn, _ = start(plain.backend(), plain.place, "stubborn")
    os.kill(process_of(own).pilot, signal.SIGKILL)
    plain.backend().kill([Handle(stamp=ours), Handle(stamp=stubborn), Handle(stamp="never")])
    for stamp in (ours, others, stubborn):
        assert ended(plain, stamp).exit_code == -9
    plain.backend().kill([Handle(stamp=ours)])
    assert plain.backend(max_processes=3).capacity() == 3


def test_a_pilot_whose_shell_was_killed_is_still_running(plain: Host) -> None:
    stamp, own = start(plain.backend(), plain.place)
    process = process_of(own)
    os.kill(process.shell, signal.SIGKILL)
    wait_for(lambda: not host._lives(process.shell, process.shell_started))
    assert state(plain, stamp).presence is Presence.RUNNING
    plain.backend().kill([Handle(stamp=stamp)])
    assert ended(plain, stamp).exit_code is None
    assert ended(plain, stamp).reason == "It ended without a message."


def test_after_a_restart_of_the_host_its_pilots_have_ended(plain: Host) -> None:
    stamp, own = start(plain.backend(), plain.place)
    now = (own / "process").read_text()
    try:
        name, boot, *rest = now.split()
        (own / "process").write_text(" ".join([name, boot[::-1], *rest]))
        assert state(plain, stamp).presence is Presence.ENDED
        assert (state(plain, stamp).exit_code, state(plain, stamp).reason) == (None, "Its host was restarted.")
        plain.backend().kill([Handle(stamp=stamp)])  # the process of that number is somebody else's today
        assert process_of(own).pilot_lives is False
        (own / "process").write_text(now)
        assert state(plain, stamp).presence is Presence.RUNNING
        (own / "process").write_text(" ".join([name, boot, rest[0], "1", rest[2], "1"]))
        assert state(plain, stamp).presence is Presence.ENDED
    finally:
        (own / "process").write_text(now)


@pytest.mark.parametrize("content", ["elsewhere {boot} 1 1 1 1\n", "", "nonsense\n", "a b c d e f\n"])
def test_a_pilot_unknown_to_the_host_is_not_reported_as_ended(plain: Host, content: str) -> None:
    plain.place.mkdir(parents=True)
    (plain.place / "stamp").mkdir()
    (plain.place / "stamp" / "process").write_text(content.format(boot=host._boot()))
    assert plain.backend().status([Handle(stamp="stamp"), Handle(stamp="never")]) == {}
    plain.backend().kill([Handle(stamp="stamp")])


def test_a_pilot_that_cannot_start_does_not_stop_others(plain: Host) -> None:
    blocked, wanted = order(), order()
    plain.place.mkdir(parents=True)
    (plain.place / blocked.stamp).write_text("in the way")

    first, second = plain.backend().submit([blocked, wanted])

    assert first.error.startswith("could not be started: ")
    assert (first.batch_id, second.error) == ("", "")
    assert state(plain, wanted.stamp).batch_id == second.batch_id


def test_a_pilot_that_cannot_record_its_process_does_not_run(plain: Host) -> None:
    wanted = order()
    (plain.place / wanted.stamp).mkdir(parents=True)
    (plain.place / wanted.stamp / "process").symlink_to("nowhere")  # as bad as a full disk
    (submission,) = plain.backend().submit([wanted])
    assert submission.batch_id == ""
    assert submission.error.startswith("could not be started: ")
    assert not (plain.place / wanted.stamp / "begun").exists()


def test_a_pilot_with_a_damaged_record_is_not_started_again(plain: Host) -> None:
    wanted = order()
    (plain.place / wanted.stamp).mkdir(parents=True)
    (plain.place / wanted.stamp / "process").write_text("spoilt")
    (submission,) = plain.backend().submit([wanted])
    assert (submission.batch_id, submission.error) == ("", "")
    assert not (plain.place / wanted.stamp / "begun").exists()


def test_output_is_the_end_of_what_the_pilot_wrote(plain: Host) -> None:
    stamp, own = start(plain.backend(), plain.place, "exit0")
    assert plain.backend().output(Handle(stamp=stamp)) == f"hello from {stamp}\n"
    (own / "pilot.log").write_bytes(b"x" * 2**21 + b"\xff the end")
    assert len(plain.backend().output(Handle(stamp=stamp))) == 2**20
    assert plain.backend().output(Handle(stamp=stamp)).endswith("\N{REPLACEMENT CHARACTER} the end")
    assert plain.backend().output(Handle(stamp="never")) == ""


def test_cleaning_leaves_logs_and_living_pilots(plain: Host) -> None:
    sleeping, at_work = start(plain.backend(), plain.place)
    gone, own = start(plain.backend(), plain.place, "exit0")
    old, forgotten = start(plain.backend(), plain.place, "exit0")
    for stamp in (gone, old):
        ended(plain, stamp)
    never = plain.place / "never"
    never.mkdir()
    (never / "secret").write_text("left by a start that broke off")
    long_ago = time.time() - host.KEEP_LOGS_S - 60
    os.utime(forgotten / "pilot.log", (long_ago, long_ago))
    os.utime(at_work / "pilot.log", (long_ago, long_ago))

    plain.backend().clean([Handle(stamp=stamp) for stamp in (sleeping, gone, "never", "nowhere")])

    assert {path.name for path in own.iterdir()} == {"process", "pilot.log", "exit_code"}
    assert list(never.iterdir()) == []
    assert not forgotten.exists()
    assert (at_work / "work").exists()
    assert ended(plain, gone).exit_code == 0


def test_without_a_limit_there_is_room_at_first(plain: Host) -> None:
    assert plain.backend().capacity() >= (os.cpu_count() or 1)
