"""Jobs of a task queue as ClassAds: TARGET of a site's own expression (SAM §2)."""

from collections.abc import Collection

from resources.domain.classad import ClassAd, classad_of
from taskqueues.models import TaskQueue


def targets_of(task_queue_ids: Collection[int]) -> dict[int, ClassAd]:
    """Return what the jobs of each task queue ask; of one that has been removed, nothing."""
    task_queues = TaskQueue.objects.select_related("owner", "group", "vo").filter(pk__in=task_queue_ids)
    return {task_queue.pk: as_classad(task_queue) for task_queue in task_queues}


def as_classad(task_queue: TaskQueue) -> ClassAd:
    """Return what the jobs of a task queue ask, under JDL's names.

    All jobs of a queue are alike to a pilot, so they are to a site: CPUTime is the segment, Memory is rounded up, and
    what no queue is told apart by, such as the name of a job, is undefined.

    Args:
        task_queue: with its owner, group and VO at hand.
    """
    return classad_of(
        {
            "Owner": task_queue.owner.username,
            "OwnerGroup": task_queue.group.name,
            "VO": task_queue.vo.name,
            "Setup": task_queue.setup,
            "CPUTime": task_queue.cpu_time_s,
            "JobType": task_queue.job_type,
            "Site": task_queue.sites,
            "BannedSites": task_queue.banned_sites,
            "GridCE": task_queue.grid_ces,
            "Platform": task_queue.platforms,
            "SubmitPools": task_queue.submit_pools,
            "PilotTypes": task_queue.pilot_types,
            "Tags": task_queue.tags,
            "NumberOfProcessors": task_queue.processors,
            "Memory": task_queue.memory_mb,
            "WallTime": task_queue.wall_time_s,
            "GPUs": task_queue.gpus,
            "Disk": task_queue.disk_mb,
            "Container": task_queue.container,
        }
    )
