"""The identity of a payload: its Unix user, the pilot's own or, as with gLExec, another one (PIL §3.1).

Another user cannot read anything of the pilot. The user helper (user_helper.py), a script that runs as that user,
handles its files. A pilot that is root gives each payload a user id of its own; any other pilot becomes an account of
the site by sudo, and the user helper then also signals the payload's processes.
"""

from __future__ import annotations

import os
import pkgutil
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.processes import Process
from pilots.agent.job import accounts, scripts, user_helper
from pilots.agent.job.accounts import NoAccountError
from pilots.agent.job.memory_use import Memory, PayloadScope, memory_of
from pilots.agent.job.preparation import CannotRunError, NodeFlawError
from pilots.agent.job.scripts import FailedOperationError, NoAnswerError
from pilots.agent.job.workspace import Workspace
from pilots.agent.node import site_environment
from pilots.agent.server import json_fields
from pilots.agent.server.configuration import Place
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import LeasedJob
from wms.wire.protocol import IDENTITY_ENVIRONMENT, IDENTITY_NONE, IDENTITY_SUDO

#: Seconds for copying the input of a job, and for unlocking and removing its files.
_FILES_WITHIN_S = 600.0
#: Seconds for any other operation of the user helper.
_WITHIN_S = 20.0
#: Largest part of the time that measuring memory by the user helper may take while no limit is near.
_EFFORT = 1 / 20
#: Used where other users cannot execute the pilot's own Python.
_SYSTEM_PYTHON = "/usr/bin/python3"
#: Failed measurements of shared memory in a row, which a payload may cause, until resident memory counts instead.
_SILENCES = 3


class NoIdentityError(NodeFlawError):
    """The payload cannot run as the intended user; it is not started."""

    what = "identity"
    of_node = True

    def __init__(self, why: str) -> None:
        super().__init__(f"The payload cannot be given an identity of its own: {why}")


@dataclass(frozen=True)
class Streams:
    """Descriptors of standard output and error; equal when both go to one file."""

    stdout: int
    stderr: int


class Identity(Protocol):
    """The user of a payload, with operations on its processes and files."""

    uid: int
    #: True if it is another user than the pilot.
    is_other: bool
    #: Name of the account of the site; else empty.
    account: str
    #: True if nothing but this payload has this user.
    is_exclusive: bool
    #: Environment variables with the name of the user.
    variables: Mapping[str, str]

    def command(self, script: Path) -> Sequence[str]:
        """Return the command line that runs a script as this user."""

    def inside(self, workspace: Workspace, job: LeasedJob) -> AbstractContextManager[Streams]:
        """Give the job's files to the user and open its output; at the end make them readable for the pilot.

        Raises:
            CannotRunError: they cannot be handed over, or the output cannot be written.
        """

    def memory(self, payload_processes: Sequence[Process], scope: PayloadScope, *, limit_mb: float) -> Memory:
        """Return the memory of the processes and of what *scope* names; exact only near *limit_mb*."""

    def disk_mb(self, workspace: Workspace, payload_processes: Sequence[Process]) -> float | None:
        """Return the disk use of the job, with deleted files that are still open; None: it cannot be measured."""

    def kill(self, pids: Sequence[int]) -> None:
        """Kill processes of the user."""

    def close(self, workspace: Workspace) -> None:
        """Remove those files of the job that only the user can remove, and release the identity."""


def identity_of(place: Place, job: LeasedJob, directory: Path) -> Identity:
    """Return the identity of the job's payload at this place.

    Args:
        place: of the pilot.
        job: the payload belongs to it.
        directory: of the job.

    Raises:
        NoIdentityError: the node cannot provide it.
    """
    if place.identity not in {IDENTITY_NONE, "", IDENTITY_ENVIRONMENT, IDENTITY_SUDO}:
        raise NoIdentityError(f"this agent does not support the identity {place.identity}; a newer agent is required")
    names = {"USER": job.owner, "LOGNAME": job.owner} if place.identity == IDENTITY_ENVIRONMENT and job.owner else {}
    try:
        if place.identity == IDENTITY_SUDO:
            return Other(accounts.claim(place.payload_users, owner=job.owner), sudo=_sudo())
        if not accounts.can_change_user():
            return Own(names)
        if (closed := site_environment.closed_to_others(directory.parent)) is not None:
            raise NoIdentityError(f"only root can pass {closed}, above the pilot's work directory: chmod o+x {closed}")
        return Unprivileged(accounts.claim_uid(directory), names)
    except NoAccountError as error:
        raise NoIdentityError(str(error)) from error


def _sudo() -> str:
    program = shutil.which("sudo")
    if program is None:
        raise NoIdentityError("there is no sudo on the node")
    return str(Path(program).absolute())


class Own:
    """The pilot's own user."""

    is_other = is_exclusive = False
    account = ""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.uid = os.getuid()
        self.variables = variables

    def command(self, script: Path) -> Sequence[str]:
        """See Identity."""
        return [sys.executable or _SYSTEM_PYTHON, "-I", "-S", str(script)]

    @contextmanager
    def inside(self, workspace: Workspace, job: LeasedJob) -> Iterator[Streams]:
        """See Identity."""
        opened: list[int] = []
        try:
            with _fault_of_job():
                opened += (user_helper.open_stream(str(workspace.job), name) for name in _names_of_streams(job))
            yield Streams(opened[0], opened[-1])
        finally:
            for descriptor in opened:
                os.close(descriptor)
            user_helper.open_up(str(workspace.job), directories=0o700, files=0o400)

    def memory(self, payload_processes: Sequence[Process], scope: PayloadScope, *, limit_mb: float) -> Memory:  # noqa: ARG002 - see Identity
        """See Identity."""
        return memory_of(_resident_mb(payload_processes), scope)

    def disk_mb(self, workspace: Workspace, payload_processes: Sequence[Process]) -> float | None:
        """See Identity."""
        return _disk_mb(workspace, payload_processes)

    def kill(self, pids: Sequence[int]) -> None:
        """See Identity."""
        processes.kill(pids)

    def close(self, workspace: Workspace) -> None:
        """See Identity."""


class Other:
    """Another user: an account of the site that the pilot becomes by sudo."""

    is_other, is_exclusive = True, False

    def __init__(self, claim: accounts.Claim, *, sudo: str) -> None:
        self._claim = claim
        self._words = (sudo, "-n", "-u", claim.account.name, "--") if sudo else ()
        self._python = ""
        self._area = -1
        #: Number of failed measurements of memory since the last success, its files in memory, and the next one.
        self._silences, self._files_mb, self._measure_at = 0, 0.0, 0.0
        self._script = Path()
        self.account, self.uid = claim.account
        self.variables: Mapping[str, str] = {"USER": claim.account.name, "LOGNAME": claim.account.name}

    def command(self, script: Path) -> Sequence[str]:
        """See Identity."""
        python = self._python or _SYSTEM_PYTHON
        return [*self._words, python, "-I", "-S", str(script)]

    @contextmanager
    def inside(self, workspace: Workspace, job: LeasedJob) -> Iterator[Streams]:
        """See Identity."""
        self.enter(workspace)
        opened: list[int] = []
        try:
            with _fault_of_job():
                opened = self._give_files(workspace, _names_of_streams(job))
            yield Streams(opened[0], opened[-1])
        finally:
            for descriptor in opened:
                os.close(descriptor)
            workspace.shut_out()
            if opened:
                self._try("open_up", within_s=_FILES_WITHIN_S)

    def memory(self, payload_processes: Sequence[Process], scope: PayloadScope, *, limit_mb: float) -> Memory:
        """See Identity."""
        resident_mb = _resident_mb(payload_processes)
        estimate = Memory(sum(resident_mb.values()) + self._files_mb, self._files_mb)
        began = monotonic()
        if estimate.total_mb <= limit_mb and began < self._measure_at:
            return estimate
        request = {"resident_mb": resident_mb, "files_of": scope.uid, "since": scope.since}
        answer = self._try("memory", request)
        self._measure_at = began + (monotonic() - began) / _EFFORT
        self._silences = self._silences + 1 if answer is None else 0
        if 0 < self._silences < _SILENCES:
            return Memory(0.0)
        try:
            measured = Memory(*(json_fields.number(answer or {}, name) for name in Memory._fields))
        except MalformedAnswerError:
            return estimate
        self._files_mb = measured.files_mb
        return measured

    def disk_mb(self, workspace: Workspace, payload_processes: Sequence[Process]) -> float | None:  # noqa: ARG002 - see Identity
        """See Identity."""
        answer = self._try("disk", {"pids": [process.pid for process in payload_processes]})
        try:
            return None if answer is None else json_fields.number(answer, "disk_mb")
        except MalformedAnswerError:
            return None

    def kill(self, pids: Sequence[int]) -> None:
        """See Identity."""
        self._try("kill", {"pids": list(pids)})

    def end(self, script: Path, request: Mapping[str, object]) -> Mapping[str, object] | None:
        """Run the operation ``end`` of the user helper in the file *script*; None: it failed."""
        self._script = script
        return self._try("end", request)

    def close(self, workspace: Workspace) -> None:
        """See Identity."""
        if self._area >= 0:
            workspace.let_write()
            self._try("remove", within_s=_FILES_WITHIN_S)
            os.close(self._area)
        self._claim.give_back()

    def enter(self, workspace: Workspace) -> None:
        """Put a copy of the user helper, and of what it runs, into the workspace."""
        for name in ("memory_use.py", "user_helper.py"):
            self._script = workspace.tools / name
            self._script.write_bytes(pkgutil.get_data("pilots.agent.job", name) or b"")
            self._script.chmod(0o644)
        self._area = os.open(workspace.area, os.O_RDONLY | os.O_DIRECTORY)

    def _give_files(self, workspace: Workspace, names: Sequence[str]) -> list[int]:
        """Give the job's files to the user; return descriptors of its output."""
        aside = workspace.put_aside()
        opened = self._hand_over(aside, names)
        user_helper.remove_tree(str(aside))
        workspace.let_in()
        return opened

    def _hand_over(self, aside: Path, names: Sequence[str]) -> list[int]:
        """Let the user copy the files that were put aside; return descriptors of its output."""
        directory = os.open(aside, os.O_RDONLY | os.O_DIRECTORY)
        try:
            why = ""
            for self._python in dict.fromkeys((sys.executable or _SYSTEM_PYTHON, _SYSTEM_PYTHON)):
                try:
                    return self._run("enter", {"streams": names}, [self._area, directory], within_s=_FILES_WITHIN_S)[1]
                except NoAnswerError as error:
                    # The last error is reported: every user can execute the system's Python.
                    why = str(error)
                except FailedOperationError as error:
                    raise NoIdentityError(str(error)) from error
            raise NoIdentityError(why)
        finally:
            os.close(directory)

    def _try(
        self, name: str, more: Mapping[str, object] | None = None, *, within_s: float = _WITHIN_S
    ) -> Mapping[str, object] | None:
        """Run an operation of the user helper; log a failure and return None."""
        try:
            answer, opened = self._run(name, more or {}, self._opened_area(), within_s=within_s)
        except (NoAnswerError, FailedOperationError) as error:
            log.event("user_helper.failed", operation=name, user=self.account or self.uid, error=error)
            return None
        for descriptor in opened:
            os.close(descriptor)
        return answer

    def _opened_area(self) -> list[int]:
        return [self._area] if self._area >= 0 else []

    def _run(
        self, name: str, more: Mapping[str, object], descriptors: Sequence[int], *, within_s: float
    ) -> tuple[Mapping[str, object], list[int]]:
        request = {"operation": name, "uid": self.uid, **more}
        return scripts.ask_user_helper(self.command(self._script), request, descriptors, within_s=within_s)


class Unprivileged(Other):
    """A user id without an account, for one payload of a pilot that is root."""

    is_exclusive = True

    def __init__(self, claim: accounts.Claim, variables: Mapping[str, str]) -> None:
        super().__init__(claim, sudo="")
        self.variables = variables

    def _give_files(self, workspace: Workspace, names: Sequence[str]) -> list[int]:
        """See Other; root changes the owner of the files instead of copying them."""
        workspace.runtime.mkdir(mode=0o700)
        for path, _ in user_helper.walk(
            [str(directory) for directory in (workspace.job, workspace.tmp, workspace.runtime)]
        ):
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
        workspace.let_in()
        try:
            return self._run("open", {"streams": names}, self._opened_area(), within_s=_WITHIN_S)[1]
        except (NoAnswerError, FailedOperationError) as error:
            raise NoIdentityError(str(error)) from error

    def memory(self, payload_processes: Sequence[Process], scope: PayloadScope, *, limit_mb: float) -> Memory:  # noqa: ARG002 - see Identity
        """See Identity; root measures without the user helper."""
        return memory_of(_resident_mb(payload_processes), scope)

    def disk_mb(self, workspace: Workspace, payload_processes: Sequence[Process]) -> float | None:
        """See Identity; root measures without the user helper."""
        return _disk_mb(workspace, payload_processes)

    def kill(self, pids: Sequence[int]) -> None:
        """See Identity; the supervisor belongs to root."""
        processes.kill(pids)

    def close(self, workspace: Workspace) -> None:
        """See Identity; also end all processes and remove all files of the user."""
        if not accounts.end_all_of(self.uid):
            log.event("payload.not_killed", user=self.uid)
        accounts.remove_files_of(self.uid)
        super().close(workspace)


@contextmanager
def _fault_of_job() -> Iterator[None]:
    """Turn the refusal of a file for standard output or error into one of the job."""
    try:
        yield
    except user_helper.StreamError as error:
        raise CannotRunError(None, str(error)) from error


def _resident_mb(payload_processes: Sequence[Process]) -> dict[int, float]:
    return {process.pid: process.memory_mb for process in payload_processes}


def _disk_mb(workspace: Workspace, payload_processes: Sequence[Process]) -> float:
    top = str(workspace.top)
    return user_helper.disk_usage_mb(top) + user_helper.deleted_mb(
        [process.pid for process in payload_processes], beside=top
    )


def remove_left(top: Path, *, names: Sequence[str]) -> None:
    """Remove files of other users in the directory of a job whose pilot was killed, as far as possible.

    Args:
        top: of the job's workspace.
        names: of the accounts that the payload may have had.
    """
    workspace, sudo = Workspace(top), shutil.which("sudo")
    workspace.lay_out(shared=True)
    try:
        left = {path.lstat().st_uid for path in workspace.area.iterdir()} - {os.getuid()}
        for uid in left.intersection(accounts.UIDS) if os.geteuid() == 0 else ():
            # The user id is not given to another payload while the directory exists (see accounts.claim_uid).
            accounts.end_all_of(uid)
            accounts.remove_files_of(uid)
        if not left or sudo is None:
            return
        for account in accounts.named(names):
            if account.uid in left:
                other = Other(accounts.Claim(account), sudo=str(Path(sudo).absolute()))
                other.enter(workspace)
                other.close(workspace)
    except (OSError, NoAccountError) as error:
        if not isinstance(error, FileNotFoundError):
            log.event("workspace.closed", directory=top, error=error)


def _names_of_streams(job: LeasedJob) -> list[str]:
    """Return the file names of standard output and, if it differs, of standard error."""
    names = [job.std_output, job.std_error]
    for name in names:
        if name.startswith("/") or ".." in Path(name).parts:
            raise CannotRunError(None, f"Output would leave the job's directory: {name}")
    return names[:1] if Path(names[0]) == Path(names[1]) else names
