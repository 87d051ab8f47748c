"""Jobs of a task queue as ClassAds: TARGET of a site's own expression (SAM §2)."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from resources.domain.classad import ClassAd, classad_of
from taskqueues.models import TaskQueue
from wms.wire.amounts import AMOUNTS

_ATTRIBUTES: Final[Mapping[str, Callable[[TaskQueue], str | int | Sequence[str]]]] = MappingProxyType(
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
        **{amount.jdl[0]: attrgetter(amount.name) for amount in AMOUNTS},
        "Container": attrgetter("container"),
        "Software": attrgetter("software"),
    }
)
#: The attributes of TARGET.
NAMES: Final = tuple(_ATTRIBUTES)
#: {name in lower case: name}.
SPELLED: Final[Mapping[str, str]] = MappingProxyType({name.lower(): name for name in NAMES})


def examples_of(task_queues: Iterable[TaskQueue], names: Collection[str]) -> Iterator[tuple[ClassAd, Sequence[int]]]:
    """Yield the task queues by kind: the attributes of one of them, and the primary keys of all.

    Args:
        task_queues: with owner, group and VO loaded.
        names: of NAMES; task queues of one kind have equal values of these.
    """
    read = [_ATTRIBUTES[name] for name in names]
    kinds: defaultdict[str, list[TaskQueue]] = defaultdict(list)
    for task_queue in task_queues:
        kinds[repr([value(task_queue) for value in read])].append(task_queue)
    for alike in kinds.values():
        yield as_classad(alike[0]), [task_queue.pk for task_queue in alike]


def targets_of(task_queue_ids: Collection[int]) -> dict[int, ClassAd]:
    """Return the requirements of the jobs of each task queue; removed ones are left out."""
    task_queues = TaskQueue.objects.select_related("owner", "group", "vo").filter(pk__in=task_queue_ids)
    return {task_queue.pk: as_classad(task_queue) for task_queue in task_queues}


def as_classad(task_queue: TaskQueue) -> ClassAd:
    """Return the requirements of a task queue's jobs, under JDL's names.

    All jobs of a task queue are the same to a pilot, and so to a site: CPUTime is the segment, Memory is rounded up,
    and attributes that do not distinguish task queues, such as the name of a job, are undefined.

    Args:
        task_queue: with its owner, group and VO loaded.
    """
    return classad_of({name: read(task_queue) for name, read in _ATTRIBUTES.items()})
