"""Records of running payloads of a node: a later pilot finds and ends payloads whose supervisors were killed.

Each payload has one file in a directory shared by all pilots of one user on one node. The process that supervises the
payload holds a lock on the file; a process that gets the lock ends the payload. The processes of a payload are those
of its control group, where the pilot may make one; those with the match id in their environment; those recorded with
their start times, so that a reused process id is never killed; and all descendants and sessions of these.
"""

from __future__ import annotations

import fcntl
import json
import os
import pkgutil
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic
from pilots.agent.job import accounts, identity, user_helper
from pilots.agent.job.accounts import NoAccountError
from pilots.agent.node import cgroups
from pilots.agent.node.cgroups import read
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError

Pids = Iterable[tuple[int, int]]

_NAME = "wms-payloads-{uid}"
_SUFFIX = ".json"
_VERSION = 1
#: Environment variable of every process of a payload.
VARIABLE = "WMS_MATCH_ID"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
#: Bytes from which on a file is rewritten without the processes that have ended.
_MOST_BYTES = 256 * 1024
#: Age in seconds at which an unreadable record is removed.
_MOST_AGE_S = 7 * 24 * 3600.0
#: Seconds for processes to end after SIGKILL; later only those remain that wait for a hanging file system.
END_WITHIN_S = 10.0
#: Seconds between two signals to processes that are being killed.
_AGAIN_S = 0.02


@dataclass(frozen=True)
class Remains:
    """The marks by which the processes of a payload are found.

    Attributes:
        marker: environment variable of these processes, ``NAME=value``.
        account: their Unix user; empty: the pilot's own.
        uid: user id that only this payload has; 0: none.
        group: control group; None: none.
        processes: (process id, start time) of those recorded by the supervisor.
        supervisors: (process id, start time) of the pilot's processes above them, to be killed too.
    """

    marker: str
    account: str = ""
    uid: int = 0
    group: Path | None = None
    processes: Sequence[tuple[int, int]] = ()
    supervisors: Sequence[tuple[int, int]] = ()


class PayloadRecord:
    """The record of one payload: ``with`` creates and locks its file, and removes it at the end.

    If the file cannot be written, the payload runs without a record.
    """

    def __init__(
        self,
        match_id: str,
        *,
        account: str,
        work_directory: Path,
        uid: int = 0,
        directory: Path | None = None,
        keep: bool = False,
    ) -> None:
        """Prepare a record; nothing is written yet.

        Args:
            match_id: of the lease.
            account: Unix user of the payload; empty: the pilot's own.
            work_directory: of the pilot.
            uid: user id that only this payload has; 0: none.
            directory: of the records; None: the common one.
            keep: leave the file behind, like a supervisor that is killed.
        """
        self._head: dict[str, object] = {
            "version": _VERSION,
            "boot": _boot(),
            "namespace": _namespace(),
            "marker": f"{VARIABLE}={match_id}",
            "account": account,
            "uid": uid,
            "work_directory": str(work_directory.resolve()),
            "group": "",
        }
        self.match_id = match_id
        self._directory = directory
        self._keep = keep
        self._descriptor: int | None = None
        self._written: set[tuple[int, int]] = set()
        #: None: not written.
        self.file: Path | None = None

    def __enter__(self) -> PayloadRecord:
        try:
            self.file = (self._directory or accounts.common_directory(_NAME)) / f"{self.match_id}{_SUFFIX}"
            # Opens the record of an earlier process of the same lease that was killed.
            self._descriptor = os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_APPEND, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            self._rewrite(())
        except OSError as error:
            log.event("payload.not_recorded", error=error)
        return self

    def is_alone(self) -> bool:
        """Return whether no other payload of this account is recorded on the node."""
        account = self._head["account"]
        others = [file for file in _files(self._directory) if file != self.file]
        recorded = [_parse(read(file).encode()) for file in others]
        return all(remains is None or remains.account != account or remains.uid for remains in recorded)

    def note_group(self, group: Path) -> None:
        """Record the control group of the payload."""
        self._head["group"] = str(group)
        self._try(lambda: self._rewrite(self._written))

    def note(self, processes: Pids) -> None:
        """Add processes of the payload, as (process id, start time)."""
        now = set(processes)
        new = now - self._written
        if new:
            self._try(lambda: self._add(new, now=now))

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._descriptor is None:
            return
        if self.file is not None and not self._keep:
            with suppress(OSError):
                self.file.unlink()
        os.close(self._descriptor)

    def remove(self) -> None:
        """Remove the file of this lease, whichever process wrote it; the payload has ended."""
        with suppress(OSError):
            ((self._directory or accounts.common_directory(_NAME)) / f"{self.match_id}{_SUFFIX}").unlink()

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            log.event("payload.not_recorded", error=error)

    def _add(self, new: set[tuple[int, int]], *, now: set[tuple[int, int]]) -> None:
        if self._descriptor is None:
            return
        if os.fstat(self._descriptor).st_size > _MOST_BYTES:
            self._rewrite(now)
            return
        os.write(self._descriptor, _lines(new))
        self._written |= new

    def _rewrite(self, processes: Pids) -> None:
        if self._descriptor is None:
            return
        current = set(processes)
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, json.dumps(self._head).encode() + b"\n" + _lines(current))
        self._written = current


def end_all(*, stopped: Callable[[], object], directory: Path | None = None) -> int:
    """End all unsupervised payloads of this user's pilots on this node; return the number that could not be ended.

    Args:
        stopped: returns true when the pilot is to stop.
        directory: of the records; None: the common one.
    """
    left = 0
    for file in _files(directory):
        if stopped():
            break
        with suppress(OSError):  # supervised, or of another user
            descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left += not _end_recorded(descriptor, file)
            finally:
                os.close(descriptor)
    return left


def remains_of(match_id: str, *, orphans: Pids) -> Remains:
    """Return the remains of a payload whose supervisor has died, from its record if there is one.

    Args:
        match_id: of the lease.
        orphans: (process id, start time) of children that the supervisor left to its parent.
    """
    recorded = None
    with suppress(OSError):
        recorded = _parse((accounts.common_directory(_NAME) / f"{match_id}{_SUFFIX}").read_bytes())
    return replace(recorded or Remains(marker=f"{VARIABLE}={match_id}"), supervisors=tuple(orphans))


class Ending:
    """Ending the processes of one payload without a supervisor."""

    def __init__(self, remains: Remains) -> None:
        """Prepare; no process is killed yet."""
        self._remains = remains
        #: Grows, for children of a killed process get another parent.
        self._processes = set(remains.processes)
        self._accept_at = monotonic() + END_WITHIN_S

    def is_over(self) -> bool:
        """Kill all processes that are left; return whether none can run any more.

        Call it again until it is true. After END_WITHIN_S a killed process that waits for a device or file server
        counts as ended: it never runs again.
        """
        group = self._remains.group
        if group is not None:
            cgroups.kill(group)
        alive = user_helper.end_processes(self._remains.marker, self._processes, supervisors=self._remains.supervisors)
        if self._remains.account:
            alive |= self._as_account()
        if self._remains.uid:
            alive |= _end_exclusive(self._remains.uid)
        self._processes |= alive.difference(self._remains.supervisors)
        if monotonic() > self._accept_at:
            alive = {process for process in alive if not _is_as_good_as_dead(process[0])}
        elif group is not None and cgroups.is_populated(group):
            return False
        if not alive and group is not None:
            cgroups.remove(group)
        return not alive

    def wait(self, *, within_s: float) -> bool:
        """Repeat ``is_over`` for *within_s* seconds at most; return whether it became true."""
        give_up_at = monotonic() + within_s
        while not self.is_over():
            if monotonic() > give_up_at:
                return False
            time.sleep(_AGAIN_S)
        return True

    def _as_account(self) -> set[tuple[int, int]]:
        """Kill as the payload's user, whose processes the pilot can neither inspect nor signal; return those found."""
        request = {"marker": self._remains.marker, "processes": sorted(self._processes)}
        try:
            answer = _run_as(self._remains.account, request)
            listed = answer.get("processes") if answer is not None else None
            return {(int(pid), int(started)) for pid, started in listed} if isinstance(listed, list) else set()
        except (NoAccountError, TypeError, ValueError, OSError) as error:
            log.event("payload.not_ended", account=self._remains.account, error=error)
            return set()


def _end_exclusive(uid: int) -> set[tuple[int, int]]:
    """Kill all processes of a user id that only this payload has; return them."""
    pids = accounts.processes_of(uid)
    processes.kill(pids)
    started = {pid: user_helper.started_of(pid) for pid in pids}
    return {(pid, at) for pid, at in started.items() if at is not None}


def _run_as(account: str, request: Mapping[str, object]) -> Mapping[str, object] | None:
    """Run the user helper to end processes of another user; None: there is no sudo, or it failed."""
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    (user,) = accounts.named([account])
    # Not TMPDIR, which that user may not be able to read.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="wms-end-") as place:
        Path(place).chmod(0o755)
        script = Path(place) / "user_helper.py"
        script.write_bytes(pkgutil.get_data("pilots.agent.job", "user_helper.py") or b"")
        script.chmod(0o644)
        return identity.Other(accounts.Claim(user), sudo=str(Path(sudo).absolute())).end(script, request)


def _is_as_good_as_dead(pid: int) -> bool:
    if processes.is_being_killed(pid):
        return True
    try:
        # sudo itself, which belongs to root.
        return Path(f"/proc/{pid}").stat().st_uid == 0 != os.geteuid()
    except OSError:
        return True


def _end_recorded(descriptor: int, file: Path) -> bool:
    """End the payload of a record that this process has locked; return whether it has ended."""
    opened, named = os.fstat(descriptor), file.lstat()
    if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino) or not stat.S_ISREG(opened.st_mode):
        return True
    remains = _parse(os.pread(descriptor, _MOST_BYTES * 2, 0))
    if remains is None:
        if time.time() - opened.st_mtime > _MOST_AGE_S:
            file.unlink()
        return True
    if not Ending(remains).wait(within_s=2 * END_WITHIN_S):
        log.event("payload.left_behind", marker=remains.marker, account=remains.account)
        return False
    file.unlink()
    log.event("payload.ended_for_another_pilot", marker=remains.marker)
    return True


def _parse(content: bytes) -> Remains | None:
    """Return the remains in a record; None: it is no valid record, or of another machine, boot or container."""
    head, _, rest = content.decode("utf-8", "replace").partition("\n")
    try:
        fields = json_fields.record(json.loads(head))
        names = ("boot", "namespace", "marker", "account", "group")
        boot, namespace, marker, account, group = (json_fields.text(fields, name, "") for name in names)
        uid = json_fields.whole(fields, "uid", 0)
    except (ValueError, MalformedAnswerError):
        return None
    if uid and uid not in accounts.UIDS:
        return None
    if not marker.startswith(f"{VARIABLE}=") or (boot, namespace) != (_boot(), _namespace()):
        return None
    # The last line may be incomplete.
    lines = (line.split() for line in rest.split("\n")[:-1])
    pairs = tuple((int(line[0]), int(line[1])) for line in lines if len(line) == 2 and all(map(str.isdecimal, line)))
    return Remains(
        marker=marker, account=account, uid=uid, group=Path(group) if group else None, processes=pairs
    )  # fmt: skip


def _files(directory: Path | None) -> Iterator[Path]:
    try:
        records = directory or accounts.common_directory(_NAME)
        names = sorted(os.listdir(records))
    except OSError:
        return
    yield from (records / name for name in names if name.endswith(_SUFFIX))


def _lines(processes: Pids) -> bytes:
    return "".join(f"{pid} {started}\n" for pid, started in sorted(processes)).encode()


def _boot() -> str:
    return read(_BOOT).strip()


def _namespace() -> str:
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""
