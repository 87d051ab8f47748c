"""The program for the host of a batch system; its text is sent there with each request.

A request is JSON on standard input, the answer JSON on standard output. It needs only Python 3.9, as pilots do. A
request is ``{"do": name, …}`` with the arguments of the function of that name below.

A host without a batch system has one directory per pilot, named by its stamp: pilot.sh, secret (until the agent has
read it), pilot.log, process (the ids of its process) and, after its end, exit_code.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

PROCESS, LOG, EXIT_CODE = "process", "pilot.log", "exit_code"
#: Payload records of all pilots of one user on this host; the pilots write them.
_PAYLOADS = "/tmp/wms-payloads-{uid}"  # noqa: S108 - only what its owner wrote there is read
#: Seconds that logs of ended pilots are kept.
KEEP_LOGS_S = 30 * 24 * 3600
#: Timeout between a pilot's start and the record of its process; a few system calls lie between them.
_STARTED_WITHIN_S = 10.0
_POLL_S = 0.01
#: Name of the directory of a pilot.
_STAMP = re.compile(r"[0-9a-f]{32}")
#: Directories of pilots checked at each clean-up; on a shared disk each takes a while.
_LOOKED_AT = 1000
#: Characters of a log that a reason quotes.
_SHOWN = 300
#: Waits for its pilot and records the exit code. It catches signals: they must not end it, and an ignored signal would
#: be ignored by the pilot too. Of two pilots of one stamp, the second has not begun and records nothing.
_SHELL = """\
trap : HUP INT TERM
/bin/sh -c "$1"
code=$?
read -r host boot pilot started shell rest < process
[ "$shell" = $$ ] || exit 0
echo $code > exit_code.unfinished && mv exit_code.unfinished exit_code
"""
#: Records its process and becomes the pilot. Only one process of a stamp can create the link, which appears with its
#: whole content; so even after a kill in between, no pilot runs without a record.
_PILOT = """\
started() { read -r line < "/proc/$1/stat"; set -- $line; shift 21; echo "$1"; }
read -r host < /proc/sys/kernel/hostname
read -r boot < /proc/sys/kernel/random/boot_id
echo "$host $boot $$ $(started $$) $PPID $(started $PPID)" > process.$$ && ln process.$$ process || exit 126
rm process.$$
exec /bin/sh ./pilot.sh
"""
#: Kills the processes of its user whose environment contains the first argument, and those with the ids that follow.
_KILL = """\
marker=$1
shift
for file in $(grep -lzxF -e "$marker" /proc/[0-9]*/environ 2> /dev/null); do
  pid=${file#/proc/}
  kill -KILL "${pid%/environ}" 2> /dev/null && echo "$pid"
done
for pid; do kill -KILL "$pid" 2> /dev/null && echo "$pid"; done
exit 0
"""
#: Timeout of sudo.
_SUDO_WITHIN_S = 20.0


class Process(NamedTuple):
    """The processes of a pilot and of the shell around it, with their start times: process ids are reused."""

    host: str
    boot: str
    pilot: int
    pilot_started: int
    shell: int
    shell_started: int

    @property
    def batch_id(self) -> str:
        """Return the name of a pilot in lists."""
        return f"{self.host}:{self.pilot}:{self.pilot_started}"

    @property
    def pilot_lives(self) -> bool:
        """Return whether the pilot runs."""
        return self._is_of_now() and _lives(self.pilot, self.pilot_started)

    @property
    def lives(self) -> bool:
        """Return whether the pilot runs, or the shell that will record its exit code."""
        return self.pilot_lives or (self._is_of_now() and _lives(self.shell, self.shell_started))

    @property
    def is_here(self) -> bool:
        """Return whether the process is of this machine; several machines may share a home directory."""
        return self.host == os.uname().nodename

    def _is_of_now(self) -> bool:
        return self.is_here and self.boot == _boot()


def write(directory: str, files: dict[str, str]) -> str:
    """Write files into a directory for its owner alone, as {relative path: content}; return its real path."""
    top = _real(directory)
    _make_private(top)
    for name, content in files.items():
        path = top / name
        _make_private(path.parent)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")  # another request may write the same
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(content)
        unfinished.rename(path)
    return str(top)


def _make_private(directory: Path) -> None:
    """As wms.wire.private_directories, which this program, sent to other hosts alone, cannot import."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        _make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


def remove(paths: Iterable[Path]) -> None:
    """Remove files and directories with their content; missing ones are ignored."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def tail(path: str, size: int) -> str:
    """Return the last *size* bytes of a file as text; empty if there is no file."""
    try:
        with Path(path).expanduser().open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def start(directory: str, pilots: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """Start pilots, each in a session of its own that outlives this program and its caller.

    A pilot whose stamp was started before is not started again.

    Args:
        directory: of all pilots of the computing element.
        pilots: ``stamp``, ``script`` and ``secret`` of each.

    Returns:
        {stamp: {"batch_id": …} or {"error": …}}; an empty value if it is not known in time whether the pilot runs.
    """
    _forget_signals()
    os.umask(0o077)
    begun: dict[str, subprocess.Popen[bytes]] = {}
    answers: dict[str, dict[str, str]] = {}
    for pilot in pilots:
        own = _real(directory) / pilot["stamp"]
        try:
            if not (own / PROCESS).exists():
                begun[pilot["stamp"]] = _begin(own, script=pilot["script"], secret=pilot["secret"])
        except OSError as error:
            answers[pilot["stamp"]] = {"error": f"could not be started: {error}"}
    give_up = time.monotonic() + _STARTED_WITHIN_S
    for stamp in (pilot["stamp"] for pilot in pilots if pilot["stamp"] not in answers):
        answers[stamp] = _begun(_real(directory) / stamp, begun.get(stamp), give_up=give_up)
    return answers


def look(directory: str, stamps: list[str]) -> dict[str, dict[str, object]]:
    """Return {stamp: state of the pilot}; pilots without a record on this host are missing."""
    states = ((stamp, _state_of(_real(directory) / stamp)) for stamp in stamps)
    return {stamp: state for stamp, state in states if state is not None}


def count(directory: str) -> dict[str, int]:
    """Return the number of running pilots, and of processors of this host."""
    running = sum(state is not None and state["presence"] == "running" for state in map(_state_of, _pilots(directory)))
    return {"living": running, "processors": os.cpu_count() or 1}


def kill(directory: str, stamps: list[str]) -> None:
    """Kill pilots; their supervisors end the payloads, and the shells around them record their exit codes."""
    for stamp in stamps:
        process = process_of(_real(directory) / stamp)
        if process is not None and process.pilot_lives:
            with suppress(ProcessLookupError):
                os.kill(process.pilot, signal.SIGKILL)


def clean(directory: str, stamps: list[str]) -> None:
    """Remove the files of these pilots except logs and exit codes, and all files of pilots that ended 30 days ago."""
    for own in (_real(directory) / stamp for stamp in stamps):
        process = process_of(own)
        if own.is_dir() and not (process is not None and process.lives):
            remove([path for path in own.iterdir() if path.name not in {PROCESS, LOG, EXIT_CODE}])
    for own in _pilots(directory):
        process = process_of(own)
        if (process is None or not process.lives) and _age_s(own) > KEEP_LOGS_S:
            shutil.rmtree(own, ignore_errors=True)


def forget(directory: str, stamps: list[str]) -> None:
    """Remove the files of these pilots of a batch system except logs, and all files of pilots that ended 30 days ago.

    Only the batch system knows which pilots live; of others than these, the age of the log decides. The directory may
    contain other things too.
    """
    for own in (_real(directory) / stamp for stamp in stamps):
        if own.is_dir():
            remove([path for path in own.iterdir() if path.name != LOG])
    _remove_old(_real(directory))


def process_of(own: Path) -> Process | None:
    """Return the process of the pilot with this directory; None: it has not begun."""
    try:
        host, boot, *numbers = (own / PROCESS).read_text(encoding="utf-8").split()
        return Process(host, boot, *map(int, numbers))
    except (OSError, ValueError, TypeError):
        return None


def _begin(own: Path, *, script: str, secret: str) -> subprocess.Popen[bytes]:
    write(str(own), {"pilot.sh": script, "secret": f"{secret}\n"})
    (own / "work").mkdir(exist_ok=True)
    with (own / LOG).open("ab") as log:
        return _start(["/bin/sh", "-c", _SHELL, "pilot", _PILOT], cwd=own, stdout=log, stderr=log)


def _start(
    command: list[str], *, cwd: Path, stdout: int | IO[bytes], stderr: int | IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the scripts above
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
    )


def _begun(own: Path, shell: subprocess.Popen[bytes] | None, *, give_up: float) -> dict[str, str]:
    while True:
        ended = shell is not None and shell.poll() is not None
        process = process_of(own)
        if process is not None:
            return {"batch_id": process.batch_id}
        if ended:
            return {"error": f"could not be started: {_last_line(own) or 'its shell ended'}"}
        if shell is None or time.monotonic() > give_up:
            return {}
        time.sleep(_POLL_S)


def _state_of(own: Path) -> dict[str, object] | None:
    process = process_of(own)
    if process is None:
        return None
    exit_code = _exit_code_of(own)
    if (exit_code is None and process.lives) or (process.is_here and _payload_lives(own)):
        return {"presence": "running", "batch_id": process.batch_id}
    if not process.is_here and exit_code is None:
        return None
    if exit_code is None:  # it may have been recorded since the first look
        exit_code = _exit_code_of(own)
    state: dict[str, object] = {"presence": "ended", "batch_id": process.batch_id}
    restarted = exit_code is None and process.boot != _boot()
    return {
        **state,
        "exit_code": exit_code,
        "reason": _reason(own, process, exit_code),
        **({"by_system": True} if restarted else {}),
    }


def _payload_lives(own: Path) -> bool:
    """Return whether a payload of a pilot still runs; one without any supervisor is killed.

    A killed pilot counts as ended only when its payloads have ended, because its jobs go to other pilots then. The
    agent keeps the records of payloads, each locked by the process that supervises the payload (payload_records.py).
    """
    lives, records = False, Path(_PAYLOADS.format(uid=os.getuid()))
    if not records.exists() or records.lstat().st_uid != os.getuid():
        return False
    for file in records.glob("*.json"):
        try:
            head, *lines = file.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
            record = json.loads(head)
            if record["work_directory"] != str(own / "work") or record["boot"] != _boot():
                continue
            supervised = _is_locked(file)
            lives = supervised or _kill_payload(record["marker"], lines, account=record["account"]) or lives
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return lives


def _is_locked(file: Path) -> bool:
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _kill_payload(marker: str, recorded: list[str], *, account: str) -> bool:
    """Kill the recorded processes and those with the marker in their environment; return whether any lived."""
    pids = {int(pid) for pid, started in map(str.split, recorded) if _lives(int(pid), int(started))}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (place / "environ").read_bytes().split(b"\0"):
                pids.add(int(place.name))
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    killed_as_account = _kill_as(account, marker, pids) if account else False
    return bool(pids) or killed_as_account


def _kill_as(account: str, marker: str, recorded: Iterable[int]) -> bool:
    """Kill the processes as the user of the payload; return whether any was killed."""
    command = ["sudo", "-n", "-u", account, "--", "/bin/sh", "-c", _KILL, "kill", marker, *map(str, recorded)]
    try:
        killer = _start(command, cwd=Path("/"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return False  # recorded processes still count as living
    try:
        killed, _ = killer.communicate(timeout=_SUDO_WITHIN_S)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            killer.kill()
        return False
    return bool(killed.strip())


def _exit_code_of(own: Path) -> int | None:
    try:
        code = int((own / EXIT_CODE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return 128 - code if code > 128 else code  # shells report a signal so


def _reason(own: Path, process: Process, exit_code: int | None) -> str:
    if exit_code is None:
        return "It ended without a message." if process.boot == _boot() else "Its host was restarted."
    # A signal needs no further reason.
    return _last_line(own) if exit_code > 0 else ""


def _last_line(own: Path) -> str:
    return (tail(str(own / LOG), 4096).strip().splitlines() or [""])[-1][:_SHOWN]


def _pilots(directory: str) -> Iterator[Path]:
    """Yield the directories of pilots that were started, or should have been."""
    with suppress(FileNotFoundError):
        yield from (own for own in _real(directory).iterdir() if (own / PROCESS).exists() or (own / LOG).exists())


def _age_s(own: Path) -> float:
    """Return the seconds since the pilot last wrote to its log, or should have been started."""
    try:
        return time.time() - (own / LOG if (own / LOG).exists() else own).stat().st_mtime
    except OSError:
        return 0.0


def _remove_old(directory: Path) -> None:
    """Remove directories of pilots without changes for KEEP_LOGS_S; at most _LOOKED_AT are checked in one call."""
    with suppress(OSError):
        names = [name for name in os.listdir(directory) if _STAMP.fullmatch(name)]  # noqa: PTH208 - the names alone
        for own in (directory / name for name in random.sample(names, min(len(names), _LOOKED_AT))):
            if own.is_dir() and not own.is_symlink() and _untouched_s(own) > KEEP_LOGS_S:
                shutil.rmtree(own, ignore_errors=True)


def _untouched_s(own: Path) -> float:
    try:
        untouched_s = time.time() - own.lstat().st_mtime
        if untouched_s > KEEP_LOGS_S:
            untouched_s = time.time() - max(path.lstat().st_mtime for path in (own, *own.iterdir()))
    except OSError:
        return 0.0
    return untouched_s


def _lives(pid: int, started: int) -> bool:
    """Return whether the process with this start time, in clock ticks since boot, still runs."""
    try:
        # The program's name, in parentheses, may contain anything.
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return int(stat[19]) == started and stat[0] not in "ZX"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _real(directory: str) -> Path:
    return Path(directory).expanduser().resolve()


def _forget_signals() -> None:
    """Reset the signals that the caller of this program blocks or ignores: pilots would inherit that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


_REQUESTS: dict[str, Callable[..., object]] = {
    "write": write, "tail": tail, "forget": forget,
    "start": start, "look": look, "count": count, "kill": kill, "clean": clean,
}  # fmt: skip


def main() -> None:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    try:
        answer = _REQUESTS[request.pop("do")](**request)
    except OSError as error:
        sys.exit(str(error))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
