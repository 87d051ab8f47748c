"""Task queues, the jobs in them, their priorities, limits, and RFC 7's submit pools.

``CurrentXid``, ``XidField`` and ``no_jobs`` are here for the first migrations, which name them.
"""

from taskqueues.models.changes import ChangedGroup, CurrentXid, TaskQueueChange, XidField
from taskqueues.models.limits import Limit, LimitCount, LimitEvent, LimitHour, LimitSlot, WaitingJobCount
from taskqueues.models.submit_pools import PoolQueue, StaleSubmitPools, SubmitPool
from taskqueues.models.task_queues import QueuedJob, TaskQueue, TaskQueueQuerySet, no_jobs
from taskqueues.models.usage import GroupUsage, UsageCounter, UsageInterval

__all__ = [
    "ChangedGroup",
    "CurrentXid",
    "GroupUsage",
    "Limit",
    "LimitCount",
    "LimitEvent",
    "LimitHour",
    "LimitSlot",
    "PoolQueue",
    "QueuedJob",
    "StaleSubmitPools",
    "SubmitPool",
    "TaskQueue",
    "TaskQueueChange",
    "TaskQueueQuerySet",
    "UsageCounter",
    "UsageInterval",
    "WaitingJobCount",
    "XidField",
    "no_jobs",
]
