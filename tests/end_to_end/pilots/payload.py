"""The payload of the jobs of these tests; a program with the standard library alone.

``payload.py DIRECTORY KIND …``: while it runs it appends lines to a file of its job in the directory, so that
afterwards the times at which each attempt was running are known, also of one that was killed.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_EVERY_S = 0.05
RESCHEDULE_ME = 222


class Diary:
    """The lines of one attempt: the job's id, the attempt, the time of this machine's monotonic clock, a word."""

    def __init__(self, directory: Path) -> None:
        self._job = os.environ["WMS_JOB_ID"]
        self._copy = f"{os.getpid()}-{time.monotonic_ns()}"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        # Under root the job's next copy is another user.
        os.umask(0)
        self._file = os.open(directory / f"{self._job}.diary", flags, 0o666)
        self._next = 0.0

    def note(self, word: str) -> None:
        """Write a line by one write, so that lines of several writers do not mix."""
        os.write(self._file, f"{self._job} {self._copy} {time.monotonic():.6f} {word}\n".encode())

    def beat(self) -> None:
        """Write a line, unless the last one is recent."""
        if time.monotonic() >= self._next:
            self.note("lives")
            self._next = time.monotonic() + _EVERY_S


def main() -> int:
    """Run the job's work; return the exit code."""
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
    """Exit with the code for a reschedule, the first time."""
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
    """Wait for a file, half an hour at most, which is longer than the test needs on a slow machine."""
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
