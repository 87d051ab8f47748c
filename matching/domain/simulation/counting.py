"""Counts that are kept while a simulation plays."""

from array import array
from typing import NamedTuple


class DeliveryCount:
    """What was asked and what was given to one group, user, CPU segment, VO or site; times in simulated seconds."""

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
        #: Time in which jobs ran, and the same times their processors (ADR 13).
        self.job_s = self.processor_s = 0.0
        #: Of each job that started, how long it had waited.
        self.waits_s = array("d")
        self._processors = 0
        self._counted_until_s = 0.0

    @property
    def waiting(self) -> int:
        """Jobs that wait now."""
        return self.submitted - self.started

    @property
    def running(self) -> int:
        """Jobs that run now."""
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
        """Count what has been running until now."""
        passed_s = now_s - self._counted_until_s
        self.job_s += passed_s * self.running
        self.processor_s += passed_s * self._processors
        self._counted_until_s = now_s


class Got(NamedTuple):
    """What was given; the amounts of two moments are subtracted."""

    started: int
    processor_s: float


class ContentionCount:
    """What a group, and all of its VO, got while jobs of the group waited: only then is its share at stake."""

    def __init__(self, group: DeliveryCount, *, vo: DeliveryCount) -> None:
        self._tallies = (group, vo)
        self._began: tuple[float, tuple[Got, ...]] | None = None
        #: How long jobs of the group waited, in seconds.
        self.waited_s = 0.0
        self.group, self.vo = Got(0, 0.0), Got(0, 0.0)

    def begin(self, now_s: float) -> None:
        """Note that jobs of the group wait from now on, if it is not noted."""
        if self._began is None:
            self._began = (now_s, self._got(now_s))

    def end(self, now_s: float) -> None:
        """Note that no job of the group waits any more."""
        if self._began is None:
            return
        (began_s, before), self._began = self._began, None
        self.waited_s += now_s - began_s
        after = self._got(now_s)
        self.group, self.vo = (
            Got(sum_.started + now.started - then.started, sum_.processor_s + now.processor_s - then.processor_s)
            for sum_, now, then in zip((self.group, self.vo), after, before, strict=True)
        )

    def _got(self, now_s: float) -> tuple[Got, ...]:
        for tally in self._tallies:
            tally.count_until(now_s)
        return tuple(Got(tally.started, tally.processor_s) for tally in self._tallies)
