"""The batch system: time, cores and memory that it allocates to the slot, and its id of this pilot.

Read from Slurm and HTCondor. From other batch systems only the id is read; the server's configuration of the queue
gives the limits.
"""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import log, processes
from pilots.agent.base.clock import monotonic

#: Seconds kept free at the end of a slot for stopping the payload, its output and its final report.
MARGIN_S = 120.0
#: The same as a fraction of a short slot; the smaller one counts.
MARGIN = 0.1
#: Timeout in seconds of one command of the batch system; it is repeated at the next inspection.
_TIMEOUT_S = 10.0
#: Variables of Slurm, PBS and Torque, LSF, OAR, Grid Engine; the last name may also have another meaning.
_NAMES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "OAR_JOB_ID", "JOB_ID")
_LENGTH = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
_ATTRIBUTE = re.compile(r"^(\w+) *= *(.*)$", re.MULTILINE)
#: Attributes of an HTCondor job that limit it: {name in lower case: (attribute of its start, seconds per unit)}.
#: Not JobLeaseDuration: it limits only the time without contact to the submitter.
_CONDOR_LIMITS = {
    "allowedjobduration": ("jobcurrentstartdate", 1.0),
    "allowedexecuteduration": ("jobcurrentstartexecutingdate", 1.0),
    "maxwalltime": ("jobcurrentstartdate", 60.0),
    "maxwalltimemins": ("jobcurrentstartdate", 60.0),
    "maxruntime": ("jobcurrentstartdate", 1.0),
}


@dataclass(frozen=True)
class Allocation:
    """The allocation of this pilot; None: not given by the batch system."""

    #: Monotonic time at which the batch system ends the slot; infinity: never.
    ends_at: float | None = None
    processors: int | None = None
    memory_mb: int | None = None

    def usable_until(self, *, started_at: float) -> float | None:
        """Return the seconds from *started_at* until payloads must have ended; None: no limit."""
        if self.ends_at is None or math.isinf(self.ends_at):
            return None
        whole_s = self.ends_at - started_at
        return whole_s - min(MARGIN_S, whole_s * MARGIN)


class BatchSystem:
    """The batch system of the slot, queried each time because operators may change the length of a slot."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        #: Wall-clock time, as the batch system counts.
        self._began_at = time.time()
        self._ends_at: float | None = None

    def allocation(self) -> Allocation:
        """Return the current allocation; the last known end is kept while the batch system does not answer."""
        environment = self._environment
        if "SLURM_JOB_ID" in environment:
            self._ends_at = _end_by(_slurm_left_s(environment), otherwise=self._ends_at)
            return Allocation(self._ends_at, slurm_processors(environment), slurm_memory_mb(environment))
        job = _advertisement(environment.get("_CONDOR_JOB_AD"))
        machine = _advertisement(environment.get("_CONDOR_MACHINE_AD"))
        self._ends_at = _end_by(condor_left_s(job, now=time.time(), began_at=self._began_at), otherwise=self._ends_at)
        return Allocation(self._ends_at, _whole(machine.get("cpus")), _whole(machine.get("memory")))


def id_in_batch_system(environment: Mapping[str, str], *, stamp: str = "") -> str:
    """Return the batch system's id of this pilot; outside of a batch system its *stamp*."""
    for name in _NAMES:
        if environment.get(name):
            return environment[name]
    job = _advertisement(environment.get("_CONDOR_JOB_AD"))
    if "clusterid" in job:
        return f"{job['clusterid']}.{job.get('procid', '0')}"
    return environment.get("_CONDOR_SLOT") or stamp


def seconds_of(length: str) -> float | None:
    """Return the seconds of a duration of Slurm, ``days-hours:minutes:seconds`` or UNLIMITED; None: not valid."""
    if length.strip() == "UNLIMITED":
        return math.inf
    match = _LENGTH.fullmatch(length.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def slurm_processors(environment: Mapping[str, str]) -> int | None:
    """Return the CPUs of this node that the job has."""
    for name in ("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"):
        if (number := _whole(environment.get(name))) is not None:
            return number
    return None


def slurm_memory_mb(environment: Mapping[str, str]) -> int | None:
    """Return the memory that the job has on this node; None: unknown, or the whole node (0 in Slurm)."""
    per_cpu_mb, processors = _whole(environment.get("SLURM_MEM_PER_CPU")), slurm_processors(environment)
    if per_cpu_mb and processors:
        return per_cpu_mb * processors
    return _whole(environment.get("SLURM_MEM_PER_NODE")) or None


def condor_left_s(job: Mapping[str, str], *, now: float, began_at: float) -> float | None:
    """Return the seconds for which HTCondor lets a job run on; None: no limit.

    Args:
        job: attributes of its ClassAd, with names in lower case.
        now: wall-clock time.
        began_at: wall-clock time of the pilot's start, used where the attribute of the start is missing.
    """
    left_s = []
    for name, (start, unit_s) in _CONDOR_LIMITS.items():
        limit = _whole(job.get(name))
        if limit:
            left_s.append(limit * unit_s - (now - (_whole(job.get(start)) or began_at)))
    return min(left_s, default=None)


def _slurm_left_s(environment: Mapping[str, str]) -> float | None:
    command = ["squeue", "--noheader", "--states=RUNNING", "--format=%L", "--jobs", environment["SLURM_JOB_ID"]]
    try:
        ended = processes.run_command(command, timeout_s=_TIMEOUT_S, environment=environment)
        ended.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        log.event("batch.silent", error=error)
        end = environment.get("SLURM_JOB_END_TIME", "")
        return float(end) - time.time() if end.isdecimal() else None
    # One line, or several for the last job of an array: the others have the same limit and began earlier.
    return min((left for left in map(seconds_of, ended.stdout.splitlines()) if left is not None), default=None)


def _end_by(left_s: float | None, *, otherwise: float | None) -> float | None:
    return otherwise if left_s is None else monotonic() + left_s


def _advertisement(path: str | None) -> Mapping[str, str]:
    if not path:
        return {}
    try:
        content = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return {name.lower(): value.strip() for name, value in _ATTRIBUTE.findall(content)}


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
