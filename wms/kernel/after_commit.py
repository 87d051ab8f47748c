"""Celery tasks sent after a commit; losing one does no harm."""

import logging
from functools import partial

from celery import Task
from django.db import transaction

logger = logging.getLogger(__name__)


def send_after_commit(task: "Task[..., object]", **arguments: object) -> None:
    """Send *task* as soon as the current transaction has committed.

    The work is already marked in the database and beat runs the task periodically; sending it only saves time. So a
    broker that is down is logged, not raised: a committed request does not fail for it.
    """
    transaction.on_commit(partial(_send, task, arguments), robust=True)


def _send(task: "Task[..., object]", arguments: dict[str, object]) -> None:
    try:
        task.apply_async(kwargs=arguments, retry=False)
    except task.OperationalError:  # kombu's: the broker cannot be reached
        logger.warning("task.not_sent", extra={"task": task.name})
