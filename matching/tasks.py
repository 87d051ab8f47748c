"""Background work on leases; safe to run twice, late or never (the next run catches up)."""

from random import SystemRandom

from celery import shared_task

from matching.queries.restrictions import closings_now
from matching.queries.unmatched_counts import unmatched_counts
from matching.services import accounting, avoided_places, black_holes, draining, expiry, limits, retention
from pilots.services import director_cycle
from pilots.tasks import serve_soon
from wms.jobs.services import accounting as job_accounting
from wms.kernel.clock import current_time
from wms.kernel.counters import ROWS_REMOVED
from wms.kernel.db import database_now


@shared_task(name="matching.expire_leases", ignore_result=True, acks_late=True)
def expire_leases() -> None:
    """Every 5 seconds: mark silent jobs Stalled, and end leases that have expired."""
    expiry.expire_leases()


@shared_task(name="matching.count_deliveries", ignore_result=True, acks_late=True)
def count_deliveries() -> None:
    """Every minute: count the usage of groups, from which shares are corrected if the VO does so."""
    accounting.count_deliveries()


@shared_task(name="matching.account_jobs", ignore_result=True, acks_late=True)
def account_jobs() -> None:
    """Every minute: add what jobs did since the last run to the accounting's buckets (ADR 64).

    In this app, because waiting jobs are compared with batch queues here.
    """
    job_accounting.account(now=current_time(), count_unmatched=unmatched_counts)


@shared_task(name="matching.sum_up_limits", ignore_result=True, acks_late=True)
def sum_up_limits() -> None:
    """Every minute: sum up ended jobs and CPU time towards limits."""
    limits.sum_up()


@shared_task(name="matching.find_black_holes", ignore_result=True, acks_late=True)
def find_black_holes() -> None:
    """Every minute: exclude hosts where jobs fail fast, for some time (ADR 26)."""
    black_holes.find_black_holes()


@shared_task(name="matching.review_avoided_places", ignore_result=True, acks_late=True)
def review_avoided_places() -> None:
    """Every 30 seconds: end the avoidance of places whose jobs no other place can take (ADR 33)."""
    avoided_places.review(now=database_now())


@shared_task(name="matching.tell_drained_pilots", ignore_result=True, acks_late=True)
def tell_drained_pilots() -> None:
    """Every 5 seconds: write drain commands for drained pilots that have jobs."""
    draining.tell_drained_pilots(now=current_time())


@shared_task(name="matching.remove_ended", ignore_result=True, acks_late=True)
def remove_ended() -> None:
    """Every minute: remove ended jobs at the age of their VO and status, where an operator has allowed it (ADR 100)."""
    ROWS_REMOVED.labels("jobs_job").inc(retention.remove_ended(now=current_time()))


@shared_task(name="matching.direct_pilots", ignore_result=True, acks_late=True)
def direct_pilots() -> None:
    """Each cycle of the directors: submit pilots for waiting jobs (PIL §2.3).

    In this app, because directors respect throttles and limits, and the jobs at a site are counted here.
    """
    serve_soon(director_cycle.run_cycle(closings=closings_now, chance=SystemRandom(), now=current_time()))
