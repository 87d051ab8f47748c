"""Counters of jobs: changes that triggers wrote are added to them; they can be counted anew (ADR 53)."""

from django.db import transaction

from wms.jobs.sql.counts import add_count_changes, recount_jobs
from wms.kernel.db import LockKey, lock, try_lock


@transaction.atomic(durable=True)
def add_changes() -> int:
    """Add all committed changes to the counters; return their number, 0 also while another run does so.

    Readers see each change once, before, during and after the run.
    """
    return add_count_changes() if try_lock(LockKey.ADD_JOB_COUNTS) else 0


@transaction.atomic
def recount() -> None:
    """Count all jobs anew. Until the end of the transaction no status of a job can change."""
    lock(LockKey.ADD_JOB_COUNTS)
    recount_jobs()
