"""The numbers of waiting jobs that no batch queue fits, for the accounting (ADR 64)."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime

import numpy as np

from resources.domain.enums import PilotType
from resources.models import Queue
from resources.queries.places import queues_at_hand
from taskqueues.domain.columns import Mask
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue, read_for
from wms.accounts.models import VO
from wms.jobs.domain.accounting import UnmatchedCount


def unmatched_counts(now: datetime) -> Collection[UnmatchedCount]:
    """Return how many jobs wait that fit no batch queue there is, for each owner, group and type.

    Bans, throttles and limits are left out: they pass. So are platforms of nodes that no queue states, and jobs of
    owners whose jobs are not matched at all. The numbers are those of the index, which are estimates.

    Args:
        now: the time.
    """
    snapshot = index.renewed()
    columns = snapshot.columns
    wanting = snapshot.has_jobs & columns.trusted
    for vo in VO.objects.filter(pk__in=np.unique(columns.vo_id[wanting]).tolist()).order_by("pk"):
        wanting = _left_by_queues(snapshot, wanting, vo=vo, now=now)
    type_of = {code: name for name, code in columns.job_type.code_of.items()}
    counts: Counter[tuple[int, int, str]] = Counter()
    for row in np.flatnonzero(wanting).tolist():
        kind = (int(columns.owner_id[row]), int(columns.group_id[row]), type_of[int(columns.job_type.code[row])])
        counts[kind] += int(snapshot.jobs[row].sum())
    return [
        UnmatchedCount(owner_id=owner_id, group_id=group_id, job_type=job_type, jobs=count)
        for (owner_id, group_id, job_type), count in counts.items()
    ]


def _left_by_queues(snapshot: Snapshot, wanting: Mask, *, vo: VO, now: datetime) -> Mask:
    """Return which of these task queues no batch queue of *vo* fits."""
    columns = snapshot.columns
    lookups = read_for(list(columns.submit_pools.rows_of), vo=vo, memo=snapshot.memo)
    theirs = columns.vo_id == vo.pk
    for queue in lookups.get(queues_at_hand, vo):
        if not (wanting & theirs).any():
            break
        offer = replace(offer_of_queue(queue, vo=vo, now=now, lookups=lookups), accepting=True)
        wanting = wanting & ~(snapshot.masks.accepting(offer, but_for="pilot_type") & _takes(snapshot, queue))
    return wanting


def _takes(snapshot: Snapshot, queue: Queue) -> Mask:
    """Return the task queues whose jobs run in a kind of pilot that the CE of *queue* takes."""
    return snapshot.columns.pilot_types.accepts_one_of(queue.ce.pilot_types or list(PilotType))
