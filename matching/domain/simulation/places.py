"""The queues of a simulation, and the task queues from which their free slots draw."""

from collections.abc import Mapping

import numpy as np

from matching.domain.draw import Lottery
from matching.domain.simulation.scenario import Chance, Scenario, Slots
from matching.domain.simulation.waiting import Waiting
from taskqueues.domain.columns import Columns, Mask
from taskqueues.domain.conditions import fitting


class FittingQueues:
    """The task queues that fit the offer of one VO's pilot in one place."""

    def __init__(self, fits: Mask, columns: Columns, *, any_segment_fraction: float) -> None:
        by_segment = [rows.start + np.flatnonzero(fits[rows]) for rows in columns.segments().values()]
        self._segments = [rows for rows in by_segment if len(rows)]
        self._together = [np.flatnonzero(fits)]
        self._any_segment_fraction = any_segment_fraction

    def lottery(self, waiting: Waiting, *, chance: Chance) -> Lottery:
        """Return the lottery of one match: of the highest CPU segment first, or of all together."""
        any_segment = self._any_segment_fraction > 0 and chance.random() < self._any_segment_fraction
        return Lottery(
            self._together if any_segment else self._segments, priority=waiting.drawn_priority, jobs=waiting.jobs
        )


class SimulatedQueue:
    """The slots of one queue of a CE; each is free or runs a job."""

    def __init__(self, slots: Slots, columns: Columns, *, any_segment_fraction: Mapping[int, float]) -> None:
        self.site = slots.site
        self.free = slots.number
        fits = {vo_id: fitting(columns, offer) for vo_id, offer in slots.offers.items()}
        #: Rows that fit the offer to any of the VOs.
        self.fits: Mask = np.logical_or.reduce([np.zeros(len(columns), dtype=np.bool_), *fits.values()])
        self._choices = [
            FittingQueues(mask, columns, any_segment_fraction=any_segment_fraction[vo_id])
            for vo_id, mask in fits.items()
            if mask.any()
        ]

    def choices(self, chance: Chance) -> list[FittingQueues]:
        """Return the choices of all VOs, in a random order of their pilots."""
        choices = self._choices
        if len(choices) > 1:
            choices = sorted(choices, key=lambda _: chance.random())
        return choices


def unserved(scenario: Scenario) -> tuple[int, ...]:
    """Return the positions in the scenario of the work that fits no slot at all."""
    waiting = Waiting(scenario)
    fits = np.zeros(len(waiting.columns), dtype=np.bool_)
    for slots in scenario.slots:
        for offer in slots.offers.values():
            fits |= fitting(waiting.columns, offer)
    return tuple(number for number, work in enumerate(scenario.work) if not fits[waiting.row_of[work.definition]])
