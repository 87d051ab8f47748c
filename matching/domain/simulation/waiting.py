"""The waiting jobs of a simulation, and the priorities of their task queues."""

from collections import deque
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from matching.domain.draw import Drawn
from matching.domain.simulation.ledger import Ledger
from matching.domain.simulation.scenario import Chance, Scenario
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.history import correct_shares, decayed
from taskqueues.domain.shares import USER_PRIORITIES, WEIGHT_OF_PRIORITY, QueueLoad, split_share

#: Jobs of a level from which the claim selects one at random, oldest first.
OLDEST = 10

_WEIGHTS = np.array([WEIGHT_OF_PRIORITY[priority] for priority in range(USER_PRIORITIES)])


class SimulatedJob(NamedTuple):
    """A waiting job."""

    submitted_at_s: float
    run_s: float


class Waiting:
    """Every task queue that the scenario's jobs can make, with or without waiting jobs.

    All are rows from beginning to end: one without jobs has no part in the draw, and no column is built again.

    Attributes:
        columns: the values that conditions compare; ``queues`` are their definitions, by row.
        drawn_priority: by row; 0 if no job waits.
        jobs: waiting jobs, by row and user priority.
    """

    def __init__(self, scenario: Scenario) -> None:
        definitions = list(dict.fromkeys(work.definition for work in scenario.work))
        self.columns = Columns.of(
            QueueRow(task_queue_id=number, definition=queue, trusted=queue.owner_id not in scenario.suspended)
            for number, queue in enumerate(definitions)
        )
        self.queues = tuple(definitions[number] for number in self.columns.task_queue_id.tolist())
        self.row_of: Mapping[QueueDefinition, int] = {queue: row for row, queue in enumerate(self.queues)}
        self.drawn_priority = np.zeros(len(self.queues))
        self.jobs = np.zeros((len(self.queues), USER_PRIORITIES), dtype=np.int64)
        self._oldest_first: dict[tuple[int, int], deque[SimulatedJob]] = {}
        self._rows_of_group: dict[int, list[int]] = {group.group_id: [] for group in scenario.groups}
        for row, queue in enumerate(self.queues):
            self._rows_of_group[queue.group_id].append(row)

    def add(self, row: int, user_priority: int, job: SimulatedJob) -> bool:
        """Put a job into a task queue; return whether it is the first there."""
        came = not self.jobs[row].any()
        self._oldest_first.setdefault((row, user_priority), deque()).append(job)
        self.jobs[row, user_priority] += 1
        return came

    def take(self, drawn: Drawn, *, chance: Chance) -> tuple[SimulatedJob, bool]:
        """Take one of the oldest jobs of a level; return it, and whether its task queue is now empty."""
        jobs = self._oldest_first[drawn.row, drawn.user_priority]
        position = int(chance.random() * min(OLDEST, len(jobs)))
        job = jobs[position]
        del jobs[position]
        self.jobs[drawn.row, drawn.user_priority] -= 1
        went = not self.jobs[drawn.row].any()
        if went:
            self.drawn_priority[drawn.row] = 0.0
        return job, went

    def divide(self, share: float, *, group_id: int, shared: bool) -> None:
        """Divide the share of a group over its task queues (PIL §2.2)."""
        rows = self._rows_of_group[group_id]
        weights = (self.jobs[rows] @ _WEIGHTS).tolist()
        loads = [
            QueueLoad(task_queue_id=row, owner_id=self.queues[row].owner_id, weight=weight)
            for row, weight in zip(rows, weights, strict=True)
            if weight > 0 and self.columns.trusted[row]
        ]
        for row, priority in split_share(share, loads, shared=shared).items():
            self.drawn_priority[row] = priority

    def oldest(self) -> Iterable[tuple[QueueDefinition, float]]:
        """Yield, for each level with a job, the task queue and the time of submission of its oldest job."""
        for (row, _), jobs in self._oldest_first.items():
            if jobs:
                yield self.queues[row], jobs[0].submitted_at_s


class Priorities:
    """Evaluation of priorities as in the server: all every two minutes, a group's when its task queues change."""

    def __init__(self, scenario: Scenario, waiting: Waiting, ledger: Ledger) -> None:
        self._waiting = waiting
        self._ledger = ledger
        self._groups = {group.group_id: group for group in scenario.groups}
        self._corrected = [
            {group.group_id: group.share for group in scenario.groups if group.vo_id == vo.vo_id}
            for vo in scenario.vos
            if vo.history_fair_share
        ]
        self._share = {group.group_id: group.share for group in scenario.groups}
        #: Decayed processor-seconds used by each group, and the count at the last evaluation.
        self._used_s = dict.fromkeys(self._groups, 0.0)
        self._counted_s = dict.fromkeys(self._groups, 0.0)

    def evaluate(self, *, now_s: float, after: timedelta) -> None:
        """Correct the shares by the usage, for VOs that do so, and divide them.

        Args:
            now_s: simulated time.
            after: time since the last evaluation.
        """
        for group_id, tally in self._ledger.groups.items():
            tally.count_until(now_s)
            newly_s = tally.processor_s - self._counted_s[group_id]
            self._used_s[group_id] = decayed(self._used_s[group_id], after=after) + newly_s
            self._counted_s[group_id] = tally.processor_s
        for shares in self._corrected:
            for group_id, share in correct_shares(shares, used_s=self._used_s).items():
                self._share[group_id] = share.corrected
        for group_id in self._groups:
            self.evaluate_group(group_id)

    def evaluate_group(self, group_id: int) -> None:
        """Divide the share of one group, as last corrected."""
        shared = self._groups[group_id].shares_jobs
        self._waiting.divide(self._share[group_id], group_id=group_id, shared=shared)
