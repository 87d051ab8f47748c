"""The directories of one job: its own, and the pilot's beside it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pilots.agent.base import log
from pilots.agent.job.user_helper import remove_tree, walk

#: Of a directory that others may pass, but neither list nor write to.
_PASS = 0o711
#: How the directories of all jobs begin.
NAME = "wms-job-"


class Workspace:
    """Fresh for each job; ``with`` removes what was made.

    Attributes:
        top: holds the others.
        job: where the payload runs.
        tmp: for the payload's temporary files; a pattern of its output does not find them.
        scratch: what the pilot needs beside it: archives on their way.
        tools: scripts that the payload's user must be able to read.
        runtime: what a container's runtime, which runs as the payload's user, has for its own files.

    Where the payload is another user's, everybody may pass ``top``, but only ``tools`` can be read. The payload's
    directories are below ``area``, where that user can make them, behind ``gate``, which is open only while the payload
    runs: before and after it they may be readable to everybody without anybody reading them.
    """

    def __init__(self, top: Path) -> None:
        """Make nothing yet; *top* is as directory_of() names it."""
        self.top = self.job = self.tmp = self.scratch = self.tools = self.runtime = self.area = self.gate = top
        self._made = False
        self._before_removal: Callable[[], None] = lambda: None

    def __enter__(self) -> Workspace:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def make(self, *, shared: bool = False) -> None:
        """Make the directories.

        Args:
            shared: with another user, whose the payload is.

        Raises:
            OSError: the disk is full, or so.
        """
        self.top.mkdir(mode=0o700)
        # Its real name: what is compared with it later has its links resolved.
        self.top = self.top.resolve()
        self._made = True
        self.lay_out(shared=shared)
        first, last = ((self.gate, self.area), ()) if shared else ((), (self.runtime,))
        for directory in (*first, self.job, self.tmp, self.scratch, self.tools, *last):
            directory.mkdir(mode=0o700)
        if shared:
            self.top.chmod(_PASS)
            self.tools.chmod(0o755)

    def lay_out(self, *, shared: bool) -> None:
        """Say where what is below ``top``; see make()."""
        self.gate = self.top / "gate" if shared else self.top
        self.area = self.gate / "area" if shared else self.top
        self.job, self.tmp = self.area / "job", self.area / "tmp"
        self.scratch, self.tools = self.top / "pilot", self.top / "tools"
        self.runtime = self.area / "pilot" if shared else self.top / "runtime"

    def before_removal(self, act: Callable[[], None]) -> None:
        """Call this before the directories are removed."""
        self._before_removal = act

    @property
    def shared(self) -> bool:
        """Return whether the payload is another user's."""
        return self.gate != self.top

    @property
    def of_payload(self) -> list[Path]:
        """Return what the payload may write to, but could not put anything else in the place of."""
        return [self.area] if self.shared else [self.job, self.tmp, self.runtime]

    # ---- with another user

    def put_aside(self) -> Path:
        """Move the job's files away, for the user to fetch; return where they are."""
        given = self.gate / "given"
        self.job.rename(given)
        self.tmp.rmdir()
        make_readable(given)
        self.let_write()
        return given

    def let_write(self) -> None:
        """Let whoever has a descriptor of ``area`` make and remove what belongs to him in it."""
        self.area.chmod(0o1733)

    def let_in(self) -> None:
        """Let users pass who know the names."""
        self.area.chmod(_PASS)
        self.gate.chmod(_PASS)

    def shut_out(self) -> None:
        """Let nobody but the pilot pass."""
        self.gate.chmod(0o700)
        self.area.chmod(_PASS)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if not self._made:
            return
        self._before_removal()
        remove_tree(str(self.top))
        if self.top.exists():
            log.event("workspace.not_removed", directory=self.top)


def directory_of(job_id: int, work_directory: Path) -> Path:
    """Return the directory of a job that is about to start: a new one, for a job may come again."""
    return work_directory / f"{NAME}{job_id}-{uuid4().hex[:8]}"


def make_readable(top: Path) -> None:
    """Let everybody read what is below *top*, and execute what its owner may; links are not followed."""
    for name, status in walk([str(top)]):
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            Path(name).chmod(0o755)
        elif stat.S_ISREG(status.st_mode):
            Path(name).chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
