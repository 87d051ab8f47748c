"""The discrete-event simulation: jobs arrive, slots take them as pilots would, jobs end."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count

from matching.domain.draw import Drawn
from matching.domain.simulation.ledger import Ledger
from matching.domain.simulation.outcome import SimulationResult, outcome_of
from matching.domain.simulation.places import SimulatedQueue
from matching.domain.simulation.scenario import DAY_S, HOUR_S, Chance, Scenario, Work
from matching.domain.simulation.waiting import Priorities, SimulatedJob, Waiting
from taskqueues.domain.definition import QueueDefinition

#: Time between two evaluations of all priorities (PRI: two minutes).
EVALUATION = timedelta(minutes=2)


def simulate(scenario: Scenario, *, days: float, chance_of: Callable[[str], Chance]) -> SimulationResult:
    """Return the result of *scenario* after so many days.

    A slot takes a job as soon as it is free and something fits, by the match's own conditions and draws: a pilot is
    always there, and offers the whole CPU time of its queue each time. If a slot serves several VOs, their pilots come
    equally often, and the next one if the first gets nothing: no batch system is simulated.

    Args:
        scenario: the input.
        days: simulated days, > 0.
        chance_of: returns the stream of random numbers of a name. Each kind of job has its own, so that two scenarios
            that differ in their shares get the same jobs at the same times.
    """
    play = _SimulationRun(scenario, chance_of)
    until_s = days * DAY_S
    play.until(until_s)
    play.ledger.close(until_s)
    return outcome_of(scenario, ledger=play.ledger, waiting=play.waiting, until_s=until_s)


def used_by_hour(
    scenario: Scenario, *, hours: int, chance_of: Callable[[str], Chance]
) -> Iterator[Mapping[int, float]]:
    """Yield, for each simulated hour, {group id: processor-seconds in which its jobs ran}; as ``simulate``."""
    play = _SimulationRun(scenario, chance_of)
    before = dict.fromkeys(play.ledger.groups, 0.0)
    for hour in range(1, hours + 1):
        play.until(hour * HOUR_S)
        for tally in play.ledger.groups.values():
            tally.count_until(hour * HOUR_S)
        counted = {group_id: tally.processor_s for group_id, tally in play.ledger.groups.items()}
        yield {group_id: used_s - before[group_id] for group_id, used_s in counted.items()}
        before = counted


class _SimulationRun:
    """The state of a simulation at one moment."""

    def __init__(self, scenario: Scenario, chance_of: Callable[[str], Chance]) -> None:
        self.ledger = Ledger.of(scenario)
        self.waiting = Waiting(scenario)
        self._priorities = Priorities(scenario, self.waiting, self.ledger)
        fractions = {vo.vo_id: vo.any_segment_fraction for vo in scenario.vos}
        self._places = [
            SimulatedQueue(slots, self.waiting.columns, any_segment_fraction=fractions) for slots in scenario.slots
        ]
        self._chance = chance_of("draws")
        self._now_s = 0.0
        #: (time in seconds, tie-breaker, action).
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        for number, work in enumerate(scenario.work):
            self._begin(work, chance_of(f"work {number}"))
        self._evaluate(after=timedelta())
        for place in self._places:
            self._fill(place)

    def until(self, end_s: float) -> None:
        """Process all events before *end_s*."""
        while self._agenda and self._agenda[0][0] < end_s:
            self._now_s, _, happen = heappop(self._agenda)
            happen()

    def _after(self, delay_s: float, happen: Callable[[], None]) -> None:
        heappush(self._agenda, (self._now_s + delay_s, next(self._numbers), happen))

    # ---- Jobs arrive ------------------------------------------------------------------------------------------------

    def _begin(self, work: Work, chance: Chance) -> None:
        for _ in range(work.waiting_at_start):
            self._submit(work, chance)
        self._expect(work, chance)

    def _expect(self, work: Work, chance: Chance) -> None:
        if work.jobs_per_day > 0:
            self._after(chance.expovariate(work.jobs_per_day / DAY_S), partial(self._arrive, work, chance))

    def _arrive(self, work: Work, chance: Chance) -> None:
        self._expect(work, chance)
        row = self._submit(work, chance)
        place = self._free_place(row)
        if place is not None:
            self._fill(place)

    def _submit(self, work: Work, chance: Chance) -> int:
        row = self.waiting.row_of[work.definition]
        self.ledger.submit(work.definition, now_s=self._now_s)
        job = SimulatedJob(self._now_s, work.run_time.draw(chance))
        if self.waiting.add(row, work.user_priority, job):
            self._priorities.evaluate_group(work.definition.group_id)
        return row

    def _free_place(self, row: int) -> SimulatedQueue | None:
        """Return the place of the free slot whose pilot requests first; None: no free slot fits the task queue."""
        open_to_it = [place for place in self._places if place.free and place.fits[row]]
        if not open_to_it:
            return None
        position = int(self._chance.random() * sum(place.free for place in open_to_it))
        for place in open_to_it:
            position -= place.free
            if position < 0:
                break
        return place

    # ---- Slots take them, jobs end ----------------------------------------------------------------------------------

    def _fill(self, place: SimulatedQueue) -> None:
        """Give jobs to the free slots of *place* until nothing fits."""
        while place.free and (drawn := self._draw(place)) is not None:
            self._start(drawn, place)

    def _draw(self, place: SimulatedQueue) -> Drawn | None:
        for choice in place.choices(self._chance):
            lottery = choice.lottery(self.waiting, chance=self._chance)
            drawn = lottery.draw(queue_chance=self._chance.random(), level_chance=self._chance.random())
            if drawn is not None:
                return drawn
        return None

    def _start(self, drawn: Drawn, place: SimulatedQueue) -> None:
        queue = self.waiting.queues[drawn.row]
        job, went = self.waiting.take(drawn, chance=self._chance)
        if went:
            self._priorities.evaluate_group(queue.group_id)
        place.free -= 1
        self.ledger.start(queue, site=place.site, now_s=self._now_s, waited_s=self._now_s - job.submitted_at_s)
        self._after(job.run_s, partial(self._finish, queue, place))

    def _finish(self, queue: QueueDefinition, place: SimulatedQueue) -> None:
        self.ledger.finish(queue, site=place.site, now_s=self._now_s)
        place.free += 1
        self._fill(place)

    def _evaluate(self, *, after: timedelta) -> None:
        self._priorities.evaluate(now_s=self._now_s, after=after)
        self._after(EVALUATION.total_seconds(), partial(self._evaluate, after=EVALUATION))
