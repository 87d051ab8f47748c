"""The scope of each director: the batch queues and the task queues for which it sends pilots (PIL §2.3 (i))."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np

from pilots.domain.director_query import query_of
from pilots.domain.pilot_demand import QueueDemand
from pilots.models import Director
from pilots.services.demand_snapshot import DemandSnapshot
from taskqueues.domain.columns import Mask
from taskqueues.models import TaskQueue
from taskqueues.services.classads import examples_of
from wms.accounts.models import VO


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorScope:
    """The batch queues and task queues that one director serves.

    Args:
        places: by batch queue, whether it is at one of its sites.
        sends: shape (batch queues, task queues): where its pilots for the task queue may be sent.
        demands: the task queues that it serves.
    """

    places: Mask
    sends: Mask
    demands: Sequence[QueueDemand]


def directors() -> Sequence[Director]:
    """Return the directors by name, with their sites."""
    # Without configured directors, one site director serves all sites (docs/configuration.example.yaml).
    return list(Director.objects.prefetch_related("sites").order_by("name")) or [Director(name="all")]


class DirectorScopes:
    """The scopes of the directors in one cycle.

    Args:
        demand_snapshot: the input of the cycle.
        now: the time of the cycle, ``time()`` of directors' requirements.
    """

    def __init__(self, demand_snapshot: DemandSnapshot, *, now: datetime) -> None:
        self.demand_snapshot = demand_snapshot
        self._now = int(now.timestamp())

    def of(self, director: Director) -> DirectorScope:
        """Return the scope of the director, whose sites are loaded."""
        demand_snapshot = self.demand_snapshot
        sites = {site.pk for site in director.sites.all()} if director.pk else set()
        places = np.array([not sites or queue.ce.site_id in sites for queue in demand_snapshot.queues], dtype=np.bool_)
        sends = self._with_setup(director.setup) if director.setup else demand_snapshot.sends
        served: Mask = np.logical_or.reduce(sends, axis=0, where=places[:, None])
        if director.job_types:
            served &= demand_snapshot.columns.job_type.is_one_of(director.job_types)
        if director.requirements:
            served &= self._meeting(director.requirements)
        demands = [demand_snapshot.demands[number] for number in np.flatnonzero(served).tolist()]
        return DirectorScope(places=places, sends=sends, demands=demands)

    def _with_setup(self, setup: str) -> Mask:
        """Return where pilots are sent by a director with this setup.

        It counts for VOs that have it, at batch queues where neither queue nor CE chooses one (ADR 83).
        """
        columns, queues = self.demand_snapshot.columns, self.demand_snapshot.queues
        sends = self.demand_snapshot.sends.copy()
        for vo in VO.objects.filter(setups__contains=[setup]).order_by("pk"):
            chooses_none = np.array([queue.setup_for(vo) is None for queue in queues], dtype=np.bool_)
            sends[np.ix_(chooses_none, (columns.vo_id == vo.pk) & ~columns.setup.is_(setup))] = False
        return sends

    def _meeting(self, requirements: str) -> Mask:
        """Return the task queues that meet the requirements; of each kind, one is evaluated."""
        query = query_of(requirements)
        accepted = [
            pk
            for example, pks in examples_of(self._task_queues, query.names)
            if query.accepts(example, now=self._now)
            for pk in pks
        ]
        return np.isin(self.demand_snapshot.columns.task_queue_id, accepted)

    @cached_property
    def _task_queues(self) -> Sequence[TaskQueue]:
        # Prefetched, not joined: few owners have many task queues.
        return list(TaskQueue.objects.filter(priority__gt=0).prefetch_related("owner", "group", "vo"))
