"""The counters of a simulation: every submission, start and end, in all groupings."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from matching.domain.simulation.counting import ContentionCount, DeliveryCount
from matching.domain.simulation.scenario import Scenario
from taskqueues.domain.definition import QueueDefinition


@dataclass(slots=True)
class Ledger:
    """The counters of one simulation, by VO, group, (group, owner), (VO, CPU segment in seconds) and site."""

    vos: dict[int, DeliveryCount]
    groups: dict[int, DeliveryCount]
    demands: dict[int, ContentionCount]
    owners: defaultdict[tuple[int, int], DeliveryCount] = field(default_factory=lambda: defaultdict(DeliveryCount))
    segments: defaultdict[tuple[int, int], DeliveryCount] = field(default_factory=lambda: defaultdict(DeliveryCount))
    sites: defaultdict[str, DeliveryCount] = field(default_factory=lambda: defaultdict(DeliveryCount))

    @classmethod
    def of(cls, scenario: Scenario) -> "Ledger":
        """Return the empty ledger of *scenario*."""
        vos = {vo.vo_id: DeliveryCount() for vo in scenario.vos}
        groups = {group.group_id: DeliveryCount() for group in scenario.groups}
        demands = {
            group.group_id: ContentionCount(groups[group.group_id], vo=vos[group.vo_id]) for group in scenario.groups
        }
        return cls(vos, groups, demands)

    def submit(self, queue: QueueDefinition, *, now_s: float) -> None:
        """Count a job that begins to wait."""
        for tally in self._counts_of(queue):
            tally.submitted += 1
        self.demands[queue.group_id].begin(now_s)

    def start(self, queue: QueueDefinition, *, site: str, now_s: float, waited_s: float) -> None:
        """Count a job that starts."""
        for tally in (*self._counts_of(queue), self.sites[site]):
            tally.start(now_s, processors=queue.processors, waited_s=waited_s)
        if not self.groups[queue.group_id].waiting:
            self.demands[queue.group_id].end(now_s)

    def finish(self, queue: QueueDefinition, *, site: str, now_s: float) -> None:
        """Count a job that ends."""
        for tally in (*self._counts_of(queue), self.sites[site]):
            tally.finish(now_s, processors=queue.processors)

    def close(self, now_s: float) -> None:
        """Count jobs that still run or wait until now."""
        for demand in self.demands.values():
            demand.end(now_s)
        for tallies in (self.vos, self.groups, self.owners, self.segments, self.sites):
            for tally in tallies.values():
                tally.count_until(now_s)

    def _counts_of(self, queue: QueueDefinition) -> Iterable[DeliveryCount]:
        return (
            self.vos[queue.vo_id],
            self.groups[queue.group_id],
            self.owners[queue.group_id, queue.owner_id],
            self.segments[queue.vo_id, queue.cpu_time_s],
        )
