"""What the node has, and whether jobs can run on it: looked at before there is any job (PIL §2.1)."""

from __future__ import annotations

import os
import platform
import re
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilots.agent import accelerators, containers
from pilots.agent.fields import Record
from pilots.agent.version import VERSION

#: Certificates, tokens and time stamps of files go wrong long before an hour.
MAX_SKEW_S = 300.0
#: The pilot and its jobs' wrappers need this for themselves.
MIN_MEMORY_MB = 100.0
_BATCH_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "OAR_JOB_ID")
_RED_HAT = frozenset({"rhel", "centos", "almalinux", "rocky", "ol", "scientific", "fedora"})
_MB = 1024**2


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    ok: bool
    detail: str

    def as_record(self) -> Record:
        """Return it as the server reads it."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail[:1000]}


@dataclass(frozen=True)
class NodeReport:
    """What was found."""

    host_name: str
    batch_id: str
    platform: str
    processors: int
    #: Of the whole machine, or of the control group that the pilot lives in.
    memory_mb: float | None
    #: Free in the work directory.
    disk_mb: float | None
    #: Of this slot.
    gpus: tuple[str, ...]
    #: Program that runs containers; None: there is none.
    container_runtime: str | None
    checks: tuple[Check, ...]
    facts: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """Return whether jobs can run here."""
        return all(check.ok for check in self.checks)

    def as_record(self) -> Record:
        """Return it as the server reads it (POST /api/pilots/report/)."""
        return {
            "host_name": self.host_name[:255],
            "batch_id": self.batch_id[:255],
            "ok": self.ok,
            "checks": [check.as_record() for check in self.checks],
            "node": self.facts,
        }


def look(work_directory: Path, *, min_free_disk_mb: float, skew_s: float | None) -> NodeReport:
    """Return what the node has.

    Args:
        work_directory: where jobs will run.
        min_free_disk_mb: less is a failure.
        skew_s: how far this node's clock is ahead of the server's; None: not known.
    """
    processors = len(os.sched_getaffinity(0))
    memory_mb, available_mb = _memory_mb()
    disk_mb = _free_disk_mb(work_directory)
    load = os.getloadavg()
    gpus, runtime = accelerators.of_slot(os.environ, devices=Path("/dev")), containers.runtime()
    system = system_name(_os_release(), machine=platform.machine())
    checks = (
        _check_work_directory(work_directory),
        Check("disk", disk_mb is not None and disk_mb >= min_free_disk_mb, f"{_shown(disk_mb)} MB are free"),
        Check(
            "memory",
            available_mb is None or available_mb >= MIN_MEMORY_MB,
            f"{_shown(available_mb)} of {_shown(memory_mb)} MB are available",
        ),
        Check("clock", skew_s is None or abs(skew_s) <= MAX_SKEW_S, _shown_skew(skew_s)),
        Check("processors", processors >= 1, f"{processors}, load {load[0]:.2f}"),
    )
    return NodeReport(
        host_name=socket.gethostname(),
        batch_id=batch_id(os.environ),
        platform=system,
        processors=processors,
        memory_mb=memory_mb,
        disk_mb=disk_mb,
        gpus=gpus,
        container_runtime=runtime,
        checks=checks,
        facts={
            "agent": VERSION,
            "python": platform.python_version(),
            "platform": system,
            "kernel": platform.release(),
            "glibc": _glibc(),
            "processors": processors,
            "load": list(load),
            "memory_mb": memory_mb,
            "memory_available_mb": available_mb,
            "disk_free_mb": disk_mb,
            "gpus": len(gpus),
            "container_runtime": runtime,
            "clock_skew_s": skew_s,
            "user": os.getuid(),
        },
    )


def batch_id(environment: Mapping[str, str]) -> str:
    """Return what the batch system calls this pilot; empty outside of one."""
    for name in _BATCH_VARIABLES:
        if environment.get(name):
            return environment[name]
    try:
        advertisement = Path(environment["_CONDOR_JOB_AD"]).read_text(errors="replace")
    except (KeyError, OSError):
        return environment.get("_CONDOR_SLOT", "")
    ids = dict(re.findall(r"^(ClusterId|ProcId) *= *(\d+)", advertisement, re.MULTILINE))
    return f"{ids.get('ClusterId', '')}.{ids.get('ProcId', '')}"


def system_name(os_release: Mapping[str, str], *, machine: str) -> str:
    """Return the platform as jobs name it, such as ``x86_64-el9``.

    Everything that is built as Red Hat's system is ``el``; others are called by their own id: ``x86_64-debian12``.
    """
    own = os_release.get("ID", "linux")
    related = {own, *os_release.get("ID_LIKE", "").split()}
    family = "el" if related & _RED_HAT and own != "fedora" else own
    return f"{machine}-{family}{os_release.get('VERSION_ID', '').partition('.')[0]}"


def _check_work_directory(directory: Path) -> Check:
    flaw = _flaw_of(directory)
    return Check("work_directory", flaw is None, f"{directory} {flaw}" if flaw else str(directory))


def _flaw_of(directory: Path) -> str | None:
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix="wms-check-") as file:
            file.write(b"written")
            file.flush()
            os.fsync(file.fileno())
        if os.statvfs(directory).f_flag & os.ST_NOEXEC:
            return "is mounted so that nothing can be executed in it"
    except OSError as error:
        return f"cannot be written to: {error.strerror}"
    return None


def _free_disk_mb(directory: Path) -> float | None:
    try:
        status = os.statvfs(directory)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize / _MB


def _memory_mb() -> tuple[float | None, float | None]:
    """Return (what there is, what is available) to the pilot, by the kernel and by its control group."""
    lines = _read(Path("/proc/meminfo")).splitlines()
    told = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    total = _kilobytes(told.get("MemTotal"))
    available = _kilobytes(told.get("MemAvailable"))
    limit = memory_limit_mb(_read(Path("/proc/self/cgroup")), Path("/sys/fs/cgroup"))
    if limit is not None:
        total = limit if total is None else min(total, limit)
        available = limit if available is None else min(available, limit)
    return total, available


def memory_limit_mb(membership: str, root: Path) -> float | None:
    """Return the lowest memory limit of the control groups that /proc/self/cgroup names, of version 1 or 2.

    Args:
        membership: content of /proc/self/cgroup.
        root: where control groups are mounted.
    """
    limits: list[float] = []
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers == "":
            top, file = root, "memory.max"
        elif "memory" in controllers.split(","):
            top, file = root / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / name.strip("/")
        # A limit of any group above holds too. In a container the own group may be what is mounted as the top.
        for place in (group, *group.parents):
            content = _read(place / file).strip()
            if content.isdecimal():
                limits.append(int(content) / _MB)
            if place == top:
                break
    lowest = min(limits, default=None)
    # Version 1 says "no limit" with a number that is larger than any memory.
    return None if lowest is None or lowest > 2**40 else lowest


def _kilobytes(words: list[str] | None) -> float | None:
    return int(words[0]) / 1024 if words and words[0].isdecimal() else None


def _os_release() -> Mapping[str, str]:
    content = _read(Path("/etc/os-release")) or _read(Path("/usr/lib/os-release"))
    pairs = (line.partition("=") for line in content.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _glibc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _shown(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.0f}"


def _shown_skew(skew_s: float | None) -> str:
    return "the server told no time" if skew_s is None else f"{skew_s:+.0f} s from the server's"
