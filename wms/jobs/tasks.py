"""Background tasks on jobs; safe to run twice, late or never (the next run catches up)."""

from collections.abc import Collection

from celery import shared_task
from django.db import transaction

from wms.jobs.queries import are_awaited
from wms.jobs.services import (
    canaries,
    counting,
    notices,
    reevaluation,
    sandbox_upkeep,
    suspensions,
    unused_submit_pools,
)
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time


@shared_task(name="jobs.remove_unused_submit_pools", ignore_result=True, acks_late=True)
def remove_unused_submit_pools() -> None:
    """Remove submit pools that no job has needed for a while (RFC7); runs every 15 minutes."""
    unused_submit_pools.remove_unused(now=current_time())


@shared_task(name="jobs.reevaluate_input_data", ignore_result=True, acks_late=True)
def reevaluate_input_data() -> None:
    """Re-evaluate jobs whose input files got or lost replicas (PIL §2.2); runs every 5 seconds, and on such changes."""
    reevaluation.reevaluate(now=current_time())


@shared_task(name="jobs.remove_unused_sandboxes", ignore_result=True, acks_late=True)
def remove_unused_sandboxes() -> None:
    """Remove sandboxes that no job needs and that were not uploaded recently; runs every 10 minutes."""
    sandbox_upkeep.remove_unused(now=current_time())


@shared_task(name="jobs.add_counts", ignore_result=True, acks_late=True)
def add_counts() -> None:
    """Add changes of the numbers of jobs to the counters (ADR 53); runs every 5 seconds."""
    counting.add_changes()


@shared_task(name="jobs.end_payloads_of_suspended", ignore_result=True, acks_late=True)
def end_payloads_of_suspended() -> None:
    """Kill jobs that pilots hold although their owners are suspended (ADR 111); runs every 5 seconds."""
    with transaction.atomic(durable=True):
        suspensions.end_payloads_of_suspended(now=current_time())


@shared_task(name="jobs.send_notices", ignore_result=True, acks_late=True)
def send_notices() -> None:
    """Send mail about submissions that have ended, to owners who want it; runs every minute."""
    notices.send_due(now=current_time())


@shared_task(name="jobs.decide_canaries", ignore_result=True, acks_late=True)
def decide_canaries() -> None:
    """Release the held jobs of submissions whose canaries are Done (ADR 118); runs every 10 seconds."""
    canaries.decide_due(now=current_time())


def reevaluate_soon(lfns: Collection[str]) -> None:
    """Request a re-evaluation if any job reads the files; most files are registered before any job does."""
    if are_awaited(lfns):
        send_after_commit(reevaluate_input_data)
