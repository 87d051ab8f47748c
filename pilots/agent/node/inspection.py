"""The inspection of the node: its resources, and checks whether jobs can run, before any job (PIL §2.1)."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.node import batch_system, benchmark, cgroups, container_runtime, gpus, site_environment
from pilots.agent.node.benchmark import Speed
from pilots.agent.server.json_fields import Record
from wms.wire.protocol import MAX_DETAIL, MAX_NAME, PROTOCOL
from wms.wire.version import __version__

#: Largest clock skew in seconds with which certificates, tokens and file times still work.
MAX_SKEW_S = 300.0
#: Memory that the pilot and the processes of jobs need.
MIN_MEMORY_MB = 100.0
_RED_HAT = frozenset({"rhel", "centos", "almalinux", "rocky", "ol", "scientific", "fedora"})


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    detail: str

    def as_record(self) -> Record:
        """Return the check as a field of the report."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail[:MAX_DETAIL]}


@dataclass(frozen=True)
class NodeReport:
    """The result of an inspection."""

    host_name: str
    batch_id: str
    platform: str
    processors: int
    #: Of the whole machine, or the limit of the pilot's control group.
    memory_mb: float | None
    #: Free in the work directory.
    disk_mb: float | None
    #: Names of the slot's GPUs.
    gpus: tuple[str, ...]
    #: Path of the container runtime; None: there is none, or it does not run.
    container_runtime: str | None
    #: Speed of a core, relative to the reference core.
    speed: float
    checks: tuple[Check, ...]
    facts: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """Return whether jobs can run here."""
        return all(check.ok for check in self.checks)

    def as_record(self) -> Record:
        """Return the body of POST /api/v1/pilots/report/."""
        return {
            "host_name": self.host_name,
            "batch_id": self.batch_id[:MAX_NAME],
            "ok": self.ok,
            "checks": [check.as_record() for check in self.checks],
            "node": self.facts,
        }


def look(
    work_directory: Path,
    *,
    min_free_disk_mb: float,
    skew_s: float | None,
    container_needed: bool = False,
    processors: int | None = None,
    memory_mb: float | None = None,
    speed: float | None = None,
    platform_name: str | None = None,
    stamp: str = "",
    isolation: str = "",
) -> NodeReport:
    """Inspect the node.

    Args:
        work_directory: of the pilot.
        min_free_disk_mb: less fails the check of the disk.
        skew_s: seconds by which the node's clock is ahead of the server's; None: unknown.
        container_needed: whether a missing container runtime fails its check.
        processors: of the node; None: from the CPU affinity and the control groups.
        memory_mb: of the node; None: from the kernel and the control groups.
        speed: of a core, relative to the reference core; None: measured.
        platform_name: of the node; None: detected.
        stamp: of the pilot; its id outside of a batch system.
        isolation: kind of isolation of payloads.
    """
    measured = _Measurements(
        processors=usable_processors() if processors is None else processors,
        memory=_memory_mb(memory_mb),
        disk_mb=site_environment.free_mb(work_directory),
        runtime=container_runtime.runtime(),
        speed=benchmark.measured() if speed is None else Speed(None, benchmark.clipped(speed)),
        platform=platform_name or detected_platform(),
        skew_s=skew_s,
        isolation=isolation,
    )
    checks = measured.checks(work_directory, min_free_disk_mb=min_free_disk_mb, container_needed=container_needed)
    return measured.report(work_directory, stamp=stamp, checks=checks)


class _Measurements:
    def __init__(
        self,
        *,
        processors: int,
        memory: tuple[float | None, float | None],
        disk_mb: float | None,
        runtime: str | None,
        speed: Speed,
        platform: str,
        skew_s: float | None,
        isolation: str,
    ) -> None:
        self.processors, self.memory, self.disk_mb = processors, memory, disk_mb
        self.runtime, self.speed, self.platform, self.skew_s = runtime, speed, platform, skew_s
        self.isolation = isolation
        self.runtime_version = None if runtime is None else container_runtime.version_of_runtime(runtime)
        self.load = _load()
        self.gpus = gpus.of_slot(os.environ).names

    def report(self, work_directory: Path, *, stamp: str, checks: tuple[Check, ...]) -> NodeReport:
        """Return the result of the inspection."""
        return NodeReport(
            host_name=host_name(),
            batch_id=batch_system.id_in_batch_system(os.environ, stamp=stamp),
            platform=self.platform,
            processors=self.processors,
            memory_mb=self.memory[0],
            disk_mb=self.disk_mb,
            gpus=self.gpus,
            container_runtime=self.runtime if self.runtime_version is not None else None,
            speed=self.speed.factor,
            checks=checks,
            facts=self.facts(work_directory),
        )

    def checks(self, work_directory: Path, *, min_free_disk_mb: float, container_needed: bool) -> tuple[Check, ...]:
        """Return the results of all checks."""
        flaw, (total_mb, available_mb) = site_environment.flaw_of(work_directory, to_disk=True), self.memory
        return (
            Check("work_directory", flaw is None, f"{work_directory} {flaw}" if flaw else str(work_directory)),
            Check(
                "disk",
                self.disk_mb is not None and self.disk_mb >= min_free_disk_mb,
                f"{_shown(self.disk_mb)} MB are free, {_shown(min_free_disk_mb)} are needed",
            ),
            Check(
                "memory",
                available_mb is None or available_mb >= MIN_MEMORY_MB,
                f"{_shown(available_mb)} of {_shown(total_mb)} MB are available",
            ),
            Check("clock", self.skew_s is None or abs(self.skew_s) <= MAX_SKEW_S, _shown_skew(self.skew_s)),
            Check(
                "processors",
                self.processors >= 1,
                f"{self.processors}, load {_shown_load(self.load)}, {self.speed.factor:.2f} times the reference",
            ),
            Check("isolation", ok=True, detail=self.isolation),
            Check("container", not container_needed or self.runtime_version is not None, self._shown_runtime()),
        )

    def facts(self, work_directory: Path) -> Record:
        """Return the facts that the server stores about the node."""
        total_mb, available_mb = self.memory
        return {
            "agent": __version__,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
            "platform": self.platform,
            "kernel": platform.release(),
            "glibc": _glibc(),
            "processors": self.processors,
            "processors_of_machine": os.cpu_count(),
            "speed": self.speed.factor,
            "benchmark_units_per_s": self.speed.units_per_s,
            "load": self.load,
            "memory_mb": total_mb,
            "memory_available_mb": available_mb,
            "disk_free_mb": self.disk_mb,
            "work_directory": str(work_directory)[:255],
            "scratch": [each.as_record() for each in site_environment.scratch_directories(os.environ)],
            "cvmfs": site_environment.repositories(Path("/cvmfs"), mounts=cgroups.read(Path("/proc/self/mounts"))),
            "gpus": len(self.gpus),
            "container_runtime": self.runtime,
            "container_runtime_version": self.runtime_version,
            "user_namespaces": container_runtime.has_user_namespaces(),
            "isolation": self.isolation,
            "clock_skew_s": self.skew_s,
            "user": os.getuid(),
        }

    def _shown_runtime(self) -> str:
        if self.runtime is None:
            return f"there is no {' or '.join(container_runtime.RUNTIMES)}"
        return f"{self.runtime} does not run" if self.runtime_version is None else self.runtime_version


def host_name() -> str:
    """Return the host name; ``unnamed`` if it is empty, for the server counts jobs by host name."""
    return socket.gethostname()[:MAX_NAME] or "unnamed"


def usable_processors() -> int:
    """Return the number of cores by the CPU affinity and the quota of the control groups."""
    allowed = len(os.sched_getaffinity(0))
    quota = cgroups.processor_quota(cgroups.read(cgroups.MEMBERSHIP), cgroups.ROOT)
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def system_name(os_release: Mapping[str, str], *, machine: str) -> str:
    """Return the platform as in requirements of jobs, such as ``x86_64-el9``.

    Systems derived from Red Hat Enterprise Linux are ``el``; others have their own id: ``x86_64-debian12``.
    """
    own = os_release.get("ID") or "linux"
    related = {own, *os_release.get("ID_LIKE", "").split()}
    family = "el" if related & _RED_HAT and own != "fedora" else own
    return f"{machine}-{family}{os_release.get('VERSION_ID', '').partition('.')[0]}"


def detected_platform() -> str:
    """Return the platform of this machine."""
    return system_name(_os_release(), machine=platform.machine())


def _memory_mb(configured_mb: float | None) -> tuple[float | None, float | None]:
    """Return (total, available) memory of kernel and control group; *configured_mb* replaces the total."""
    lines = cgroups.read(Path("/proc/meminfo")).splitlines()
    amounts = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    total = _megabytes(amounts.get("MemTotal"))
    available = _megabytes(amounts.get("MemAvailable"))
    limit = cgroups.memory_limit_mb(cgroups.read(cgroups.MEMBERSHIP), cgroups.ROOT)
    if limit is not None:
        total = limit if total is None else min(total, limit)
        available = limit if available is None else min(available, limit)
    return total if configured_mb is None else configured_mb, available


def _load() -> list[float] | None:
    try:
        return list(os.getloadavg())
    except OSError:  # not available
        return None


def _megabytes(words: list[str] | None) -> float | None:
    return int(words[0]) / 1024 if words and words[0].isdecimal() else None


def _os_release() -> Mapping[str, str]:
    content = cgroups.read(Path("/etc/os-release")) or cgroups.read(Path("/usr/lib/os-release"))
    pairs = (line.partition("=") for line in content.splitlines())
    return {name.strip(): value.strip().strip("\"'") for name, _, value in pairs}


def _glibc() -> str | None:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return None


def _shown(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.0f}"


def _shown_load(load: list[float] | None) -> str:
    return "unknown" if load is None else f"{load[0]:.2f}"


def _shown_skew(skew_s: float | None) -> str:
    return "the server sent no time" if skew_s is None else f"{skew_s:+.0f} s from the server's"
