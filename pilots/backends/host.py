"""What has to be done on the host of a batch system: a program of its own, sent there as text for each request.

The request comes as JSON on standard input, the answer goes as JSON to standard output; it needs Python 3.9, as pilots
do, and nothing else. A request is ``{"do": name, …}`` with the arguments of the function of that name below.

A host without a batch system keeps one directory per pilot, named by its stamp: pilot.sh, secret (until the agent has
read it), pilot.log, process (which process it is) and, in the end, exit_code.
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
#: Of all pilots of one user on this host; made by them.
_PAYLOADS = "/tmp/wms-payloads-{uid}"  # noqa: S108 - only what its owner wrote there is read
KEEP_LOGS_S = 30 * 24 * 3600
#: Between a pilot's start and the note of its process there are a few system calls.
_STARTED_WITHIN_S = 10.0
_POLL_S = 0.01
#: The directory of a pilot is called so.
_STAMP = re.compile(r"[0-9a-f]{32}")
#: Of the directories of pilots, whenever some are cleaned up; on a shared disk each costs a while.
_LOOKED_AT = 1000
_SHOWN = 300
#: Stays until its pilot has ended, to say how; what asks the pilot to leave must not end it, nor be ignored by the
#: pilot, so it is caught. Of two pilots of one stamp the second has not begun, and has nothing to say.
_SHELL = """\
trap : HUP INT TERM
/bin/sh -c "$1"
code=$?
read -r host boot pilot started shell rest < process
[ "$shell" = $$ ] || exit 0
echo $code > exit_code.unfinished && mv exit_code.unfinished exit_code
"""
#: Notes which process it is and becomes the pilot. The link is what only one of a stamp can make; it is there with all
#: that is in it, or not at all, so that whatever is killed meanwhile no pilot runs that nobody knows of.
_PILOT = """\
started() { read -r line < "/proc/$1/stat"; set -- $line; shift 21; echo "$1"; }
read -r host < /proc/sys/kernel/hostname
read -r boot < /proc/sys/kernel/random/boot_id
echo "$host $boot $$ $(started $$) $PPID $(started $PPID)" > process.$$ && ln process.$$ process || exit 126
rm process.$$
exec /bin/sh ./pilot.sh
"""
#: Kills the processes of the user that runs it whose environment holds the first argument, and those of the others.
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
_SUDO_WITHIN_S = 20.0


class Process(NamedTuple):
    """A pilot's process, and that of the shell around it, for all time: a number is given again one day."""

    host: str
    boot: str
    pilot: int
    pilot_started: int
    shell: int
    shell_started: int

    @property
    def batch_id(self) -> str:
        """What a pilot is known by in lists."""
        return f"{self.host}:{self.pilot}:{self.pilot_started}"

    @property
    def pilot_lives(self) -> bool:
        """Whether the pilot itself does."""
        return self._is_of_now() and _lives(self.pilot, self.pilot_started)

    @property
    def lives(self) -> bool:
        """Whether the pilot does, or the shell that will say how it ended."""
        return self.pilot_lives or (self._is_of_now() and _lives(self.shell, self.shell_started))

    @property
    def is_here(self) -> bool:
        """Whether this is the machine; of several that share a home directory each knows its own processes."""
        return self.host == os.uname().nodename

    def _is_of_now(self) -> bool:
        return self.is_here and self.boot == _boot()


def write(directory: str, files: dict[str, str]) -> str:
    """Make the directory, for its owner alone, and the files in it: {relative path: content}; return its real path."""
    top = _real(directory)
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")  # another request may write the same
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(content)
        unfinished.rename(path)
    return str(top)


def remove(paths: Iterable[Path]) -> None:
    """Remove files and directories, whatever is in them; one that is not there is no mistake."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def tail(path: str, size: int) -> str:
    """Return the last *size* bytes of a file as text; nothing when there is none."""
    try:
        with Path(path).expanduser().open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


def start(directory: str, pilots: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    """Start pilots, each a session of its own that outlives this program and whoever started it.

    One whose stamp was started before is not started again.

    Args:
        directory: of all pilots of the computing element.
        pilots: ``stamp``, ``script`` and ``secret`` of each.

    Returns:
        {stamp: {"batch_id": …} or {"error": …}}; neither, when it cannot be told within a while whether it runs.
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
    for stamp in (one["stamp"] for one in pilots if one["stamp"] not in answers):
        answers[stamp] = _begun(_real(directory) / stamp, begun.get(stamp), give_up=give_up)
    return answers


def look(directory: str, stamps: list[str]) -> dict[str, dict[str, object]]:
    """Return {stamp: where the pilot is}, without those of which this host knows nothing."""
    states = ((stamp, _state_of(_real(directory) / stamp)) for stamp in stamps)
    return {stamp: state for stamp, state in states if state is not None}


def count(directory: str) -> dict[str, int]:
    """Return how many pilots live, and how many processors this host has."""
    running = sum(state is not None and state["presence"] == "running" for state in map(_state_of, _pilots(directory)))
    return {"living": running, "processors": os.cpu_count() or 1}


def kill(directory: str, stamps: list[str]) -> None:
    """Kill pilots; their supervisors end the payloads, and the shells around them say how they ended."""
    for stamp in stamps:
        process = process_of(_real(directory) / stamp)
        if process is not None and process.pilot_lives:
            with suppress(ProcessLookupError):
                os.kill(process.pilot, signal.SIGKILL)


def clean(directory: str, stamps: list[str]) -> None:
    """Remove what these pilots left but their logs and how they ended, and all of those that ended 30 days ago."""
    for own in (_real(directory) / stamp for stamp in stamps):
        process = process_of(own)
        if own.is_dir() and not (process is not None and process.lives):
            remove([path for path in own.iterdir() if path.name not in {PROCESS, LOG, EXIT_CODE}])
    for own in _pilots(directory):
        process = process_of(own)
        if (process is None or not process.lives) and _age_s(own) > KEEP_LOGS_S:
            shutil.rmtree(own, ignore_errors=True)


def forget(directory: str, stamps: list[str]) -> None:
    """Remove what these pilots of a batch system left but their logs, and what those left that ended 30 days ago.

    Which pilots live only the batch system knows: of others than these a log that nobody has written to for so long
    tells. Other things may be in the directory, too.
    """
    for own in (_real(directory) / stamp for stamp in stamps):
        if own.is_dir():
            remove([path for path in own.iterdir() if path.name != LOG])
    _remove_old(_real(directory))


def process_of(own: Path) -> Process | None:
    """Return the process of the pilot that has this directory; None when it has not begun."""
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
    if exit_code is None:  # between the two looks it may have ended in order
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
    """Return whether a payload of a pilot still runs; one that has lost all its supervisors is killed.

    A pilot that was killed has ended only when its payloads have: its jobs are given to other pilots then. The agent
    keeps the records of payloads, each locked by the process that supervises the payload (payload_records.py).
    """
    lives, records = False, Path(_PAYLOADS.format(uid=os.getuid()))
    if not records.exists() or records.lstat().st_uid != os.getuid():
        return False
    for file in records.glob("*.json"):
        try:
            head, *lines = file.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
            said = json.loads(head)
            if said["work_directory"] != str(own / "work") or said["boot"] != _boot():
                continue
            lives = _is_locked(file) or _kill_payload(said["marker"], lines, account=said["account"]) or lives
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
    """Kill the processes that carry the marker in their environment or were recorded; return whether any lived."""
    found = {int(pid) for pid, started in map(str.split, recorded) if _lives(int(pid), int(started))}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if marker.encode() in (place / "environ").read_bytes().split(b"\0"):
                found.add(int(place.name))
    for pid in found:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    killed_as_account = _kill_as(account, marker, found) if account else False
    return bool(found) or killed_as_account


def _kill_as(account: str, marker: str, recorded: Iterable[int]) -> bool:
    """Do the same as the payload's own user; return whether that found any process."""
    command = ["sudo", "-n", "-u", account, "--", "/bin/sh", "-c", _KILL, "kill", marker, *map(str, recorded)]
    try:
        killer = _start(command, cwd=Path("/"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return False  # those that were recorded still count as living
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
    return 128 - code if code > 128 else code  # which is how a shell says that a signal ended it


def _reason(own: Path, process: Process, exit_code: int | None) -> str:
    if exit_code is None:
        return "It ended without a word." if process.boot == _boot() else "Its host was restarted."
    # A signal says it all.
    return _last_line(own) if exit_code > 0 else ""


def _last_line(own: Path) -> str:
    return (tail(str(own / LOG), 4096).strip().splitlines() or [""])[-1][:_SHOWN]


def _pilots(directory: str) -> Iterator[Path]:
    """Yield the directories of pilots, and of those that were to be."""
    with suppress(FileNotFoundError):
        yield from (own for own in _real(directory).iterdir() if (own / PROCESS).exists() or (own / LOG).exists())


def _age_s(own: Path) -> float:
    """Return the seconds since the pilot last wrote something, or was to be started."""
    try:
        return time.time() - (own / LOG if (own / LOG).exists() else own).stat().st_mtime
    except OSError:
        return 0.0


def _remove_old(directory: Path) -> None:
    """Remove directories of pilots in which nothing was changed for long; of very many some, others the next time."""
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
    """Whether the process that was started then, in ticks since the machine was, has not ended."""
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
    """What whoever started this program blocks or ignores, the pilots would, too; they must hear who asks them."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


_REQUESTS: dict[str, Callable[..., object]] = {
    "write": write, "tail": tail, "forget": forget,
    "start": start, "look": look, "count": count, "kill": kill, "clean": clean,
}  # fmt: skip


def main() -> None:
    """Do what is asked."""
    request = json.load(sys.stdin)
    try:
        answer = _REQUESTS[request.pop("do")](**request)
    except OSError as error:
        sys.exit(str(error))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
