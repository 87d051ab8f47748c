"""What the batch system grants: the time, cores and memory of the slot, and how this pilot is called there.

Slurm and HTCondor tell. Of others only the name is known; there the server's word on the queue counts.
"""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pilots.agent.base import commands, log
from pilots.agent.base.clock import monotonic

#: Kept free at the end of a slot: the payload has to be stopped, and its output and last report to be sent.
MARGIN_S = 120.0
#: Of a short slot no more than this part.
MARGIN = 0.1
#: Of a command of the batch system; what takes longer is asked again the next time.
_TIMEOUT_S = 10.0
#: Slurm, PBS (also Torque), LSF, OAR, Grid Engine; the last name is so common that it is looked at last.
_NAMES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "OAR_JOB_ID", "JOB_ID")
_LENGTH = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+)")
_ATTRIBUTE = re.compile(r"^(\w+) *= *(.*)$", re.MULTILINE)
#: Attributes of a job of HTCondor that limit it: {name in lower case: (attribute from which it counts, its seconds)}.
#: JobLeaseDuration is none of them: it says how long a job goes on while nobody hears of its submitter.
_CONDOR_LIMITS = {
    "allowedjobduration": ("jobcurrentstartdate", 1.0),
    "allowedexecuteduration": ("jobcurrentstartexecutingdate", 1.0),
    "maxwalltime": ("jobcurrentstartdate", 60.0),
    "maxwalltimemins": ("jobcurrentstartdate", 60.0),
    "maxruntime": ("jobcurrentstartdate", 1.0),
}


@dataclass(frozen=True)
class Allocation:
    """What the batch system gives to this pilot; None: it does not say."""

    #: By the pilot's clock: when the batch system ends the slot; infinity: never.
    ends_at: float | None = None
    processors: int | None = None
    memory_mb: int | None = None

    def usable_until(self, *, started_at: float) -> float | None:
        """Return the seconds from *started_at* to the moment when payloads must have ended."""
        if self.ends_at is None or math.isinf(self.ends_at):
            return None
        whole_s = self.ends_at - started_at
        return whole_s - min(MARGIN_S, whole_s * MARGIN)


class BatchSystem:
    """Asks the batch system, as often as one likes: an operator may lengthen a slot, or shorten it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        #: By the wall clock, as the batch system counts.
        self._began_at = time.time()
        self._ends_at: float | None = None

    def allocation(self) -> Allocation:
        """Return what is granted now; an end that was told before holds while the batch system does not answer."""
        environment = self._environment
        if "SLURM_JOB_ID" in environment:
            self._ends_at = _end_by(_slurm_left_s(environment), otherwise=self._ends_at)
            return Allocation(self._ends_at, slurm_processors(environment), slurm_memory_mb(environment))
        job = _advertisement(environment.get("_CONDOR_JOB_AD"))
        machine = _advertisement(environment.get("_CONDOR_MACHINE_AD"))
        self._ends_at = _end_by(condor_left_s(job, now=time.time(), began_at=self._began_at), otherwise=self._ends_at)
        return Allocation(self._ends_at, _whole(machine.get("cpus")), _whole(machine.get("memory")))


def id_in_batch_system(environment: Mapping[str, str], *, stamp: str = "") -> str:
    """Return what the batch system calls this pilot; outside of one, its *stamp*."""
    for name in _NAMES:
        if environment.get(name):
            return environment[name]
    job = _advertisement(environment.get("_CONDOR_JOB_AD"))
    if "clusterid" in job:
        return f"{job['clusterid']}.{job.get('procid', '0')}"
    return environment.get("_CONDOR_SLOT") or stamp


def seconds_of(length: str) -> float | None:
    """Return a length of time as Slurm writes it, ``days-hours:minutes:seconds`` or UNLIMITED; None: it is none."""
    if length.strip() == "UNLIMITED":
        return math.inf
    found = _LENGTH.fullmatch(length.strip())
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def slurm_processors(environment: Mapping[str, str]) -> int | None:
    """Return the CPUs of this node that the job has."""
    for name in ("SLURM_CPUS_ON_NODE", "SLURM_CPUS_PER_TASK"):
        if (number := _whole(environment.get(name))) is not None:
            return number
    return None


def slurm_memory_mb(environment: Mapping[str, str]) -> int | None:
    """Return the memory that the job has on this node; Slurm's 0 is the whole node."""
    per_cpu_mb, processors = _whole(environment.get("SLURM_MEM_PER_CPU")), slurm_processors(environment)
    if per_cpu_mb and processors:
        return per_cpu_mb * processors
    return _whole(environment.get("SLURM_MEM_PER_NODE")) or None


def condor_left_s(job: Mapping[str, str], *, now: float, began_at: float) -> float | None:
    """Return how long HTCondor lets a job run on; None: as long as it likes.

    Args:
        job: attributes of its advertisement, with names in lower case.
        now: by the wall clock.
        began_at: when the pilot did; from then on a limit counts whose own beginning is not told.
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
        ended = commands.run(command, timeout_s=_TIMEOUT_S, environment=environment)
        ended.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        log.event("batch.silent", error=error)
        end = environment.get("SLURM_JOB_END_TIME", "")
        return float(end) - time.time() if end.isdecimal() else None
    # One line, but of a whole array of jobs when this is its last one: all have the same limit, and began before.
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
