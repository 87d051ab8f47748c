"""Background work on jobs; safe to run twice, late or never (the next run makes up for it)."""

from collections.abc import Collection

from celery import shared_task
from django.utils import timezone

from wms.jobs.queries import are_awaited
from wms.jobs.services import reevaluation, sandbox_upkeep, unused_submit_pools
from wms.kernel.after_commit import send_after_commit


@shared_task(name="jobs.remove_unused_submit_pools", ignore_result=True, acks_late=True)
def remove_unused_submit_pools() -> None:
    """Every 15 minutes: the submit pools that no job has needed for a while (RFC7)."""
    unused_submit_pools.remove_unused(now=timezone.now())


@shared_task(name="jobs.reevaluate_input_data", ignore_result=True, acks_late=True)
def reevaluate_input_data() -> None:
    """Every 5 seconds, and when a file comes or goes that jobs read: they move to where it is now (PIL §2.2)."""
    reevaluation.reevaluate(now=timezone.now())


@shared_task(name="jobs.remove_unused_sandboxes", ignore_result=True, acks_late=True)
def remove_unused_sandboxes() -> None:
    """Every 10 minutes: the sandboxes that no job needs, and that nobody uploaded lately."""
    sandbox_upkeep.remove_unused(now=timezone.now())


def reevaluate_soon(lfns: Collection[str]) -> None:
    """Have the jobs looked at that read the files, if there are any: most files are registered before anybody asks."""
    if are_awaited(lfns):
        send_after_commit(reevaluate_input_data)
