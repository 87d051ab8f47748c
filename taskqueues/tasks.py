"""Background work on task queues; each is safe to run twice, late or never (the next run catches up)."""

from celery import shared_task

from taskqueues.services import index_changes, priorities, queueing, submit_pools
from wms.accounts.models import VO
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.counters import ROWS_REMOVED
from wms.kernel.pace import Pace

#: While a thousand jobs a second are matched, task queues of every group become empty each second; counting a million
#: jobs for that, and ten thousand new priorities read by each web process, would cost half as much as the matches.
_EVALUATION = Pace(part=0.1)


@shared_task(name="taskqueues.recalculate_priorities", ignore_result=True, acks_late=True)
def recalculate_priorities() -> None:
    """Every 2 minutes: recalculate all priorities, because jobs entered and left task queues (PIL §2.2)."""
    priorities.recalculate()


@shared_task(name="taskqueues.recalculate_changed_groups", ignore_result=True, acks_late=True)
def recalculate_changed_groups() -> None:
    """Every second: recalculate groups whose task queues or configuration changed (PIL §2.2)."""
    _EVALUATION.run(lambda: priorities.recalculate(only_changed=True))


@shared_task(name="taskqueues.remove_empty_task_queues", ignore_result=True, acks_late=True)
def remove_empty_task_queues() -> None:
    """Every 2 seconds: remove empty task queues that a withdrawal or an interrupted claim left (PIL §2.2)."""
    queueing.remove_empty(now=current_time())


@shared_task(name="taskqueues.remove_old_changes", ignore_result=True, acks_late=True)
def remove_old_changes() -> None:
    """Every minute: remove changes that every index has read."""
    ROWS_REMOVED.labels("taskqueues_taskqueuechange").inc(index_changes.remove_old())


@shared_task(name="taskqueues.refresh_submit_pools", ignore_result=True, acks_late=True)
def refresh_submit_pools() -> None:
    """Every 15 minutes: find the queues that satisfy each pool again (RFC7)."""
    submit_pools.refresh_all(now=current_time())


@shared_task(name="taskqueues.refresh_stale_submit_pools", ignore_result=True, acks_late=True)
def refresh_stale_submit_pools() -> None:
    """Every 5 seconds, and after an edit: refresh pools whose resources or definitions have changed (RFC7)."""
    submit_pools.refresh_stale(now=current_time())


def refresh_soon(*concerned: list[VO] | None) -> None:
    """Mark the pools of these VOs (None: of all) as stale, and start their refresh after the commit."""
    everybody = any(vos is None for vos in concerned)
    vos = None if everybody else {vo.pk: vo for some in concerned for vo in some or ()}.values()
    submit_pools.mark_stale(vos, now=current_time())
    send_after_commit(refresh_stale_submit_pools)
