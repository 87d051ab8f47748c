"""Jobs of a task queue as ClassAds: TARGET of a site's own expression (SAM §2)."""

from collections.abc import Callable, Collection, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from resources.domain.classad import ClassAd, classad_of
from taskqueues.models import TaskQueue

_ATTRIBUTES: Final[Mapping[str, Callable[[TaskQueue], Any]]] = MappingProxyType(
    {
        "Owner": attrgetter("owner.username"),
        "OwnerGroup": attrgetter("group.name"),
        "VO": attrgetter("vo.name"),
        "Setup": attrgetter("setup"),
        "CPUTime": attrgetter("cpu_time_s"),
        "JobType": attrgetter("job_type"),
        "Site": attrgetter("sites"),
        "BannedSites": attrgetter("banned_sites"),
        "GridCE": attrgetter("grid_ces"),
        "Platform": attrgetter("platforms"),
        "SubmitPools": attrgetter("submit_pools"),
        "PilotTypes": attrgetter("pilot_types"),
        "Tags": attrgetter("tags"),
        "NumberOfProcessors": attrgetter("processors"),
        "Memory": attrgetter("memory_mb"),
        "WallTime": attrgetter("wall_time_s"),
        "GPUs": attrgetter("gpus"),
        "Disk": attrgetter("disk_mb"),
        "Container": attrgetter("container"),
        "Software": attrgetter("software"),
    }
)
#: The attributes that TARGET has.
NAMES: Final = tuple(_ATTRIBUTES)
#: By their names in lower case.
SPELLED: Final[Mapping[str, str]] = MappingProxyType({name.lower(): name for name in NAMES})


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
    return classad_of({name: read(task_queue) for name, read in _ATTRIBUTES.items()})
