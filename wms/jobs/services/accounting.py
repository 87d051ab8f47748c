"""The accounting of jobs: starts and ends from the stream of changes, and levels from the counters (ADR 64)."""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from wms.jobs.domain.accounting import UnmatchedCount, Width
from wms.jobs.models import Accounting, Job, JobBucket, JobBucketPeriod, JobBucketSum
from wms.jobs.queries import changes
from wms.jobs.queries.changes import Position
from wms.jobs.sql.accounting import add_to_buckets, forget_other_server, sample_levels
from wms.kernel.db import LockKey, try_lock

logger = logging.getLogger(__name__)

#: Time between two samples of levels: six in an hour show its course, and each writes a row for each kind of jobs.
SAMPLE_EVERY: Final = timedelta(minutes=10)


#: Returns the numbers of waiting jobs that no batch queue fits at a time; one entry for each owner, group and type.
CountUnmatched = Callable[[datetime], Collection[UnmatchedCount]]


def account(*, now: datetime, count_unmatched: CountUnmatched = lambda _now: ()) -> bool:
    """Add to the buckets what jobs did since the last run; the first run only begins the accounting.

    Args:
        now: the time at which levels are sampled, if it is time for it.
        count_unmatched: called only then; handed in, because jobs are compared with batch queues above this app.

    Returns:
        Whether it ran; False: another run is at work.
    """
    # Before the transaction: some thousand batch queues are compared.
    unmatched = count_unmatched(now) if _is_sample_due(Accounting.objects.first(), now=now) else None
    return _account(now=now, unmatched=unmatched)


def begin(*, now: datetime) -> None:
    """Begin the accounting of a new server, so that the jobs of its first minute are in it, too.

    A server with jobs is left to the first run of ``account``, before which nothing is accounted for.
    """
    if not Job.objects.exists():
        account(now=now)


@transaction.atomic(durable=True)
def _account(*, now: datetime, unmatched: Collection[UnmatchedCount] | None) -> bool:
    """Add what jobs did; the position in the stream moves in the same transaction, so that each change counts once.

    Args:
        now: the time.
        unmatched: as counted for a sample of levels; None: none was due.
    """
    if not try_lock(LockKey.ACCOUNT_JOBS):
        return False
    here = changes.now()
    state, is_new = Accounting.objects.get_or_create(id=1, defaults={"seen": here.seen, "began_at": now})
    since = Position(seen=state.seen)
    if since.end > here.end:
        # The database was restored on a server whose transactions are counted from a lower number.
        lines = forget_other_server(end=here.end)
        logger.warning("accounting.restarted", extra={"seen": state.seen, "lines": lines})
    elif not is_new:
        add_to_buckets(since=since.seen, until=here.seen, first=since.first, end=here.end)
    state.seen, state.runs = here.seen, state.runs + 1
    if unmatched is not None and _is_sample_due(state, now=now):
        sample_levels(now, unmatched=unmatched)
        state.sampled_at = now
        _remove_old(now=now)
    state.save()
    return True


def _is_sample_due(state: Accounting | None, *, now: datetime) -> bool:
    return state is None or state.sampled_at is None or _interval_of(now) != _interval_of(state.sampled_at)


def _interval_of(moment: datetime) -> int:
    """Return the number of the interval of SAMPLE_EVERY, so that an hour has the same number of samples as another."""
    return int(moment.timestamp() // SAMPLE_EVERY.total_seconds())


def _remove_old(*, now: datetime) -> None:
    for width in Width:
        kept_s = settings.WMS_ACCOUNTING_HOURS_S if width is Width.HOUR else settings.WMS_ACCOUNTING_DAYS_S
        # The week of the oldest day is kept whole.
        before = width.begin_of(now - timedelta(seconds=kept_s))
        for rows in (JobBucket.objects, JobBucketSum.objects, JobBucketPeriod.objects):
            # Uses index: job_bucket_is_one_row
            rows.filter(width_s=width, begun_at__lt=before).delete()
