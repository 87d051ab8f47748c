"""Review of avoided places: jobs stop avoiding them when no other place can take the jobs any more (ADR 33)."""

import logging
from bisect import bisect
from datetime import datetime

from pilots.queries import others_alive
from resources.queries.places import ends_of_states
from taskqueues.services import avoided_places, queueing
from taskqueues.services.index.reading import definitions_of
from taskqueues.services.index.shared import index
from taskqueues.services.queueing import Avoiding
from wms.accounts.models import VO
from wms.kernel.memo import CachedLookups

logger = logging.getLogger(__name__)


def review(*, now: datetime) -> int:
    """Stop the avoidance of places whose jobs no other place can take any more; return the number of jobs.

    Jobs that avoid queues are examined once for each state of the configuration, until a downtime begins or ends: else
    places only open.

    Args:
        now: by the database's clock.
    """
    avoiding = queueing.avoiding(now=now)
    if not avoiding:
        return 0
    # Before the transactions: inside a transaction the index keeps no memo.
    memo = index.current().memo
    changes = bisect(CachedLookups(memo).get(ends_of_states), now)
    judged: set[Avoiding] = memo.setdefault((review, changes), set())
    definitions = definitions_of({jobs.task_queue_id for jobs in avoiding})
    vos = VO.objects.in_bulk({definition.vo_id for definition in definitions.values()})
    changed = 0
    for jobs in avoiding:
        definition = definitions.get(jobs.task_queue_id)
        if definition is None or jobs in judged:
            continue
        left: tuple[int, ...] = ()
        if jobs.host is None:
            vo = vos[definition.vo_id]
            left = avoided_places.avoided_queues(definition, jobs.queue_ids, vo=vo, now=now, memo=memo)
            if left == jobs.queue_ids:
                judged.add(jobs)
                continue
        elif others_alive(queue_id=jobs.queue_ids[-1], but=jobs.host):
            continue
        changed += queueing.avoid_only(jobs, left, now=now)
    if changed:
        logger.info("places.avoided_no_more", extra={"jobs": changed})
    return changed
