"""Counters of a running simulation."""

from array import array
from typing import NamedTuple


class DeliveryCount:
    """Jobs submitted and run of one group, user, CPU segment, VO or site; times in simulated seconds."""

    __slots__ = (
        "_counted_until_s",
        "_processors",
        "finished",
        "job_s",
        "processor_s",
        "started",
        "submitted",
        "waits_s",
    )

    def __init__(self) -> None:
        self.submitted = self.started = self.finished = 0
        #: Time in which jobs ran, and the same multiplied by their processors (ADR 13).
        self.job_s = self.processor_s = 0.0
        #: Waiting time of each job that started.
        self.waits_s = array("d")
        self._processors = 0
        self._counted_until_s = 0.0

    @property
    def waiting(self) -> int:
        """Return the number of jobs that wait now."""
        return self.submitted - self.started

    @property
    def running(self) -> int:
        """Return the number of jobs that run now."""
        return self.started - self.finished

    def start(self, now_s: float, *, processors: int, waited_s: float) -> None:
        """Count a job that starts."""
        self.count_until(now_s)
        self.started += 1
        self._processors += processors
        self.waits_s.append(waited_s)

    def finish(self, now_s: float, *, processors: int) -> None:
        """Count a job that ends."""
        self.count_until(now_s)
        self.finished += 1
        self._processors -= processors

    def count_until(self, now_s: float) -> None:
        """Count the running time of jobs until now."""
        passed_s = now_s - self._counted_until_s
        self.job_s += passed_s * self.running
        self.processor_s += passed_s * self._processors
        self._counted_until_s = now_s


class RunAmount(NamedTuple):
    """Time in which jobs ran; the difference of two is that between two moments."""

    started: int
    processor_s: float


class ContentionCount:
    """Running time of a group, and of its whole VO, while jobs of the group waited: only then does its share matter."""

    def __init__(self, group: DeliveryCount, *, vo: DeliveryCount) -> None:
        self._tallies = (group, vo)
        self._began: tuple[float, tuple[RunAmount, ...]] | None = None
        #: Seconds in which jobs of the group waited.
        self.waited_s = 0.0
        self.group, self.vo = RunAmount(0, 0.0), RunAmount(0, 0.0)

    def begin(self, now_s: float) -> None:
        """Record that jobs of the group wait from now on, unless they did already."""
        if self._began is None:
            self._began = (now_s, self._got(now_s))

    def end(self, now_s: float) -> None:
        """Record that no job of the group waits any more."""
        if self._began is None:
            return
        (began_s, before), self._began = self._began, None
        self.waited_s += now_s - began_s
        after = self._got(now_s)
        self.group, self.vo = (
            RunAmount(sum_.started + now.started - then.started, sum_.processor_s + now.processor_s - then.processor_s)
            for sum_, now, then in zip((self.group, self.vo), after, before, strict=True)
        )

    def _got(self, now_s: float) -> tuple[RunAmount, ...]:
        for tally in self._tallies:
            tally.count_until(now_s)
        return tuple(RunAmount(tally.started, tally.processor_s) for tally in self._tallies)
