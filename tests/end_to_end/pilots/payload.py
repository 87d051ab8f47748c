"""What the jobs of these tests run; a program of its own, with nothing but the standard library.

``payload.py DIRECTORY KIND …``: while it runs it adds a line to a file of its job in the directory again and again, so
that afterwards everybody can see when which copy of it was alive, also of one that was killed.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_EVERY_S = 0.05
RESCHEDULE_ME = 222


class Diary:
    """The lines of one copy: the job's id, which copy, the time of this machine's monotonic clock, a word."""

    def __init__(self, directory: Path) -> None:
        self._job = os.environ["WMS_JOB_ID"]
        self._copy = f"{os.getpid()}-{time.monotonic_ns()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        # Under root the job's next copy is another user.
        os.umask(0)
        self._file = os.open(directory / f"{self._job}.diary", flags, 0o666)
        self._next = 0.0

    def note(self, word: str) -> None:
        """Write a line; one write is one line, whoever else writes."""
        os.write(self._file, f"{self._job} {self._copy} {time.monotonic():.6f} {word}\n".encode())

    def beat(self) -> None:
        """Write a line, unless the last one is only a moment old."""
        if time.monotonic() >= self._next:
            self.note("lives")
            self._next = time.monotonic() + _EVERY_S


def main() -> int:
    """Do what the job is for; return the exit code."""
    directory, kind, *arguments = sys.argv[1:]
    diary = Diary(Path(directory))
    diary.note(f"in-{Path.cwd()}")
    code = _KINDS[kind](diary, Path(directory), *arguments)
    diary.note(f"ends-with-{code}")
    return code


def _sleep(diary: Diary, _directory: Path, seconds: str) -> int:
    for _ in _moments(diary, float(seconds)):
        time.sleep(_EVERY_S)
    return 0


def _exit(diary: Diary, _directory: Path, code: str) -> int:
    diary.beat()
    return int(code)


def _again(_diary: Diary, directory: Path) -> int:
    """Ask to be run elsewhere, the first time."""
    try:
        (directory / f"{os.environ['WMS_JOB_ID']}.again").touch(exist_ok=False)
    except FileExistsError:
        return 0
    return RESCHEDULE_ME


def _eat(diary: Diary, _directory: Path, cpu_s: str) -> int:
    while time.process_time() < float(cpu_s):
        sum(range(10_000))
        diary.beat()
    return 0


def _sort(diary: Diary, _directory: Path, name: str, sorted_name: str) -> int:
    """Sort the lines of a file of the input sandbox into one for the output sandbox."""
    diary.beat()
    lines = Path(name).read_text(encoding="utf-8").splitlines()
    Path(sorted_name).write_text("\n".join(sorted(lines)), encoding="utf-8")
    return 0


def _until(diary: Diary, directory: Path, flag: str) -> int:
    """Wait for a file, for half an hour at most: however slow the machine is, this outlasts what happens meanwhile."""
    for _ in _moments(diary, 1800.0):
        if (directory / flag).exists():
            return 0
        time.sleep(_EVERY_S)
    return 1


def _moments(diary: Diary, seconds: float) -> Iterator[None]:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        diary.beat()
        yield


_KINDS: Mapping[str, Callable[..., int]] = {
    "sleep": _sleep, "exit": _exit, "again": _again, "eat": _eat, "sort": _sort, "until": _until,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
