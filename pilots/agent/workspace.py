"""The directories of one job: its own, and the pilot's beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from pilots.agent import log


class Workspace:
    """Fresh for each job; ``with`` removes what was made.

    Attributes:
        top: holds the others.
        job: where the payload runs.
        tmp: for the payload's temporary files; a pattern of its output does not find them.
        scratch: what the pilot needs beside it: archives on their way, the warden's script.
    """

    def __init__(self, below: Path, *, job_id: int) -> None:
        self._below = below
        self._job_id = job_id
        self.top = self.job = self.tmp = self.scratch = below
        self._made = False

    def __enter__(self) -> Workspace:  # noqa: PYI034 - Self is of Python 3.11
        return self

    def make(self) -> None:
        """Make the directories.

        Raises:
            OSError: the disk is full, or so.
        """
        made = tempfile.mkdtemp(prefix=f"wms-job-{self._job_id}-", dir=self._below)  # mode 0700
        # Its real name: what is compared with it later has its links resolved.
        self.top = Path(made).resolve()
        self._made = True
        self.job, self.tmp, self.scratch = self.top / "job", self.top / "tmp", self.top / "pilot"
        for directory in (self.job, self.tmp, self.scratch):
            directory.mkdir(mode=0o700)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if not self._made:
            return
        remove_tree(self.top)
        if self.top.exists():
            log.event("workspace.not_removed", directory=self.top)


def remove_tree(top: Path) -> None:
    """Remove *top* and all below it, also what a payload has locked against writing."""
    for parent, names, _ in os.walk(top):
        for name in names:
            path = os.path.join(parent, name)  # noqa: PTH118 - names that are no text must pass
            if not os.path.islink(path):  # noqa: PTH114
                try:
                    os.chmod(path, 0o700)  # noqa: PTH101
                except OSError:
                    continue
    shutil.rmtree(top, ignore_errors=True)
