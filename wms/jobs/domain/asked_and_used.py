"""Findings about what jobs ask for, by what the last jobs of their name used."""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from math import ceil
from string import digits
from typing import Final, NamedTuple

from wms.jobs.domain.findings import Finding
from wms.kernel.time_texts import duration

#: Jobs that tell enough.
LEAST_JOBS: Final = 10
#: Less CPU time and memory than these are asked for in good faith, and leave no queue out.
LEAST_CPU_TIME_S: Final = 3600
LEAST_MEMORY_MB: Final = 2000
#: How many times of what was used is too much.
_MUCH_CPU_TIME: Final = 10
_MUCH_MEMORY: Final = 4
#: What is proposed: times of the largest use, rounded up to whole steps.
_PROPOSED: Final = 2
_STEP_S: Final = 600
_STEP_MB: Final = 500


class AskedAmounts(NamedTuple):
    """The amounts that jobs ask for."""

    cpu_time_s: int
    #: 0: not limited.
    memory_mb: int
    processors: int

    @property
    def is_much(self) -> bool:
        """Return whether what was used may be told."""
        return self.cpu_time_s >= LEAST_CPU_TIME_S or self.memory_mb > 0


class UsedAmounts(NamedTuple):
    """The largest amounts that earlier jobs used which are Done."""

    jobs: int
    #: Of all their processors.
    cpu_s: float
    memory_mb: float


def stem_of(names: Iterable[str]) -> str:
    """Return what the names of the jobs of a submission have in common, as ``SubmissionContent.name_prefix`` has it."""
    different = set(names)
    if len(different) == 1:
        return different.pop()
    without_digits = {name.rstrip(digits) for name in different}
    if len(without_digits) == 1:
        return without_digits.pop()
    pairs = zip(min(different), max(different), strict=False)
    return "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def compared(asked: AskedAmounts, used: UsedAmounts) -> Iterator[Finding]:
    """Yield the findings; none of few jobs."""
    if used.jobs < LEAST_JOBS:
        return
    cpu_time_s = used.cpu_s / asked.processors
    last = f"the last {used.jobs} jobs of this name"
    if asked.cpu_time_s >= max(LEAST_CPU_TIME_S, _MUCH_CPU_TIME * cpu_time_s):
        enough_s = ceil(max(1, cpu_time_s * _PROPOSED) / _STEP_S) * _STEP_S
        yield Finding(
            "cpu_time_s",
            f"It asks for {duration(asked.cpu_time_s)} of CPU time; {last} used at most {duration(cpu_time_s)}.",
            f"Ask for {duration(enough_s)}: shorter queues fit, too, and more pilots take it.",
        )
    if asked.memory_mb and used.memory_mb > asked.memory_mb:
        enough_mb = ceil(used.memory_mb / _STEP_MB) * _STEP_MB
        yield Finding(
            "memory_mb",
            f"It asks for {asked.memory_mb} MB of memory; {last} used up to {round(used.memory_mb)} MB.",
            f"Ask for {enough_mb} MB: a job that uses more than it asks for may be ended.",
        )
    elif asked.memory_mb >= max(LEAST_MEMORY_MB, _MUCH_MEMORY * used.memory_mb) and used.memory_mb:
        enough_mb = ceil(used.memory_mb * _PROPOSED / _STEP_MB) * _STEP_MB
        yield Finding(
            "memory_mb",
            f"It asks for {asked.memory_mb} MB of memory; {last} used at most {round(used.memory_mb)} MB.",
            f"Ask for {enough_mb} MB: more pilots have as much.",
        )
