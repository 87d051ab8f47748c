"""The workspace: the directories of one job, for the payload and for the pilot."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from pilots.agent.base import log
from pilots.agent.job.memory_use import WORKSPACE
from pilots.agent.job.user_helper import remove_tree, walk

#: Mode of a directory that others may pass through, but neither list nor write to.
_PASS = 0o711
#: Prefix of the names of all job directories.
NAME = WORKSPACE


class Workspace:
    """The directories of one job; the end of ``with`` removes them.

    Attributes:
        top: contains the others.
        job: working directory of the payload.
        tmp: for the payload's temporary files, outside the patterns of its output.
        scratch: archives of the pilot before unpacking or upload.
        tools: scripts that the payload's user must be able to read.
        runtime: files of a container runtime, which runs as the payload's user.

    If the payload has another user, everybody may pass through ``top``, but only ``tools`` can be read. The payload's
    directories are below ``area``, where that user can create them. ``gate`` above it is open only while the payload
    runs, so that files in it may be readable for everybody before and afterwards.
    """

    def __init__(self, top: Path) -> None:
        """Prepare; no directory is made yet. *top* is from directory_of()."""
        self.top = self.job = self.tmp = self.scratch = self.tools = self.runtime = self.area = self.gate = top
        self._made = False
        self._before_removal: Callable[[], None] = lambda: None

    def __enter__(self) -> Workspace:
        return self

    def make(self, *, shared: bool = False) -> None:
        """Make the directories.

        Args:
            shared: whether the payload has another user.

        Raises:
            OSError: the disk is full, for example.
        """
        self.top.mkdir(mode=0o700)
        # Resolved, because paths are compared with it later.
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
        """Set the paths below ``top``; *shared* as in make()."""
        self.gate = self.top / "gate" if shared else self.top
        self.area = self.gate / "area" if shared else self.top
        self.job, self.tmp = self.area / "job", self.area / "tmp"
        self.scratch, self.tools = self.top / "pilot", self.top / "tools"
        self.runtime = self.area / "pilot" if shared else self.top / "runtime"

    def before_removal(self, act: Callable[[], None]) -> None:
        """Register a function that is called before the directories are removed."""
        self._before_removal = act

    @property
    def shared(self) -> bool:
        """Return whether the payload has another user."""
        return self.gate != self.top

    @property
    def of_payload(self) -> list[Path]:
        """Return the directories that the payload may write to, but not replace."""
        return [self.area] if self.shared else [self.job, self.tmp, self.runtime]

    # ---- with another user

    def put_aside(self) -> Path:
        """Move the job's files away, for the user to copy; return their new directory."""
        aside = self.gate / "given"
        self.job.rename(aside)
        self.tmp.rmdir()
        make_readable(aside)
        self.let_write()
        return aside

    def let_write(self) -> None:
        """Let users with a descriptor of ``area`` create and remove their own files in it."""
        self.area.chmod(0o1733)

    def let_in(self) -> None:
        """Let all users pass through ``gate`` and ``area``, without listing them."""
        self.area.chmod(_PASS)
        self.gate.chmod(_PASS)

    def shut_out(self) -> None:
        """Let only the pilot pass through ``gate``."""
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
    """Return a new name for the directory of a job, which may run here several times."""
    return work_directory / f"{NAME}{job_id}-{uuid4().hex[:8]}"


def make_readable(top: Path) -> None:
    """Give everybody the right to read all below *top*, and to execute what its owner may; skip links."""
    for name, status in walk([str(top)]):
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            Path(name).chmod(0o755)
        elif stat.S_ISREG(status.st_mode):
            Path(name).chmod(mode | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
