"""What Slurm says of its nodes: how many pilots could start on them, and how long its partitions let them run."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pilots.backends.interface import BatchQueue, BatchRequest
from pilots.backends.slurm_options import SlurmOptions

_FIELDS = (
    "NodeHost", "PartitionName", "Available", "StateCompact", "CPUsState", "Memory", "AllocMem", "Disk",
    "features_act", "Gres", "GresUsed", "OverSubscribe", "Time", "DefaultTime",
)  # fmt: skip
#: Of ``sinfo --Node``: a line for each node in each of its partitions.
FORMAT = ",".join(f"{name}:|" for name in _FIELDS)
#: With some cores free, and with a node that answers and nobody has set apart.
_OPEN = re.compile(r"(idle|mix|comp)[~#+-]?")
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:([0-9]+)")
_TIME = re.compile(r"(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]+):([0-9]+)")
_FEATURE = re.compile(r"[\w.-]+")
#: A core may be faster than the reference by a little, and what is measured there is no exact number.
_ENOUGH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node in one of its partitions; what is free, as Slurm counts it.

    Args:
        name, partition: of which it is listed in each.
        is_open: whether jobs start there.
        is_whole: whether nobody has anything of it.
        exclusive: whether each job gets the whole of it.
        cpus, gpus, memory_mb: free.
        disk_mb: all of it, which Slurm gives to each job.
        features: words for it.
        limit_s: the longest that its partition lets jobs run; None: for ever.
        usual_s: what it gives to jobs that do not say how long; None: for ever.
    """

    name: str
    partition: str
    is_open: bool
    is_whole: bool
    exclusive: bool
    cpus: int
    gpus: int
    memory_mb: int
    disk_mb: int
    features: frozenset[str]
    limit_s: int | None
    usual_s: int | None


def nodes_in(answer: str) -> Iterator[Node]:
    """Yield the nodes of an answer of ``sinfo`` in ``FORMAT``."""
    for line in answer.split("\n"):
        values = line.split("|")
        if len(values) != len(_FIELDS) + 1:
            continue
        said = dict(zip(_FIELDS, values, strict=False))
        allocated, idle, *_ = (int(number) for number in said["CPUsState"].split("/"))
        limit_s, usual_s = _seconds(said["Time"]), _seconds(said["DefaultTime"])
        yield Node(
            name=said["NodeHost"],
            partition=said["PartitionName"],
            is_open=said["Available"] == "up" and _OPEN.fullmatch(said["StateCompact"]) is not None,
            is_whole=allocated == 0,
            exclusive=said["OverSubscribe"].startswith("EXCLUSIVE"),
            cpus=idle,
            gpus=_gpus(said["Gres"]) - _gpus(said["GresUsed"]),
            memory_mb=_number(said["Memory"]) - _number(said["AllocMem"]),
            disk_mb=_number(said["Disk"]),
            features=frozenset(said["features_act"].split(",")),
            limit_s=limit_s,
            usual_s=limit_s if said["DefaultTime"] == "n/a" else usual_s,
        )


def free_slots(nodes: Iterable[Node], queues: Collection[BatchQueue], *, options: SlurmOptions) -> int:
    """Return how many pilots could start now: on each node as many as it can take of the queue that fits it best."""
    wanted = [(queue.slot, options.partitions_for(queue.slot)) for queue in queues]
    best: dict[str, int] = {}
    for node in nodes:
        for slot, partitions in wanted:
            if not partitions or node.partition in partitions:
                best[node.name] = max(best.get(node.name, 0), _fitting(node, slot, options=options))
    return sum(best.values())


def doubts(nodes: Sequence[Node], queues: Iterable[BatchQueue], *, options: SlurmOptions) -> Iterator[str]:
    """Yield a sentence for each queue whose pilots Slurm gives less time than their queue promises to jobs."""
    limits = {node.partition: (node.limit_s, node.usual_s) for node in nodes}
    for queue in queues:
        slot, partitions = queue.slot, options.partitions_for(queue.slot)
        there = [limits[name] for name in partitions if name in limits]
        if not there:
            yield f"Slurm shows no node of {_named(partitions)}, where pilots of the queue {slot.queue} are to go."
            continue
        limit_s = _longest(limit for limit, _ in there)
        if slot.wall_time_s is not None and limit_s is not None and slot.wall_time_s > limit_s:
            yield (
                f"Pilots of the queue {slot.queue} never start: its wall_time_s is {slot.wall_time_s}, and "
                f"{_named(partitions)} gives at most {limit_s} s."
            )
            continue
        given_s = slot.wall_time_s or _longest(usual for _, usual in there)
        if given_s is not None and given_s < _ENOUGH * queue.cpu_time_s:
            yield (
                f"The queue {slot.queue} promises {queue.cpu_time_s} s of CPU time (cpu_time_s), and its pilots may "
                f"run {given_s} s in {_named(partitions)}: unless its cores are that much faster than the reference, "
                "longer jobs wait for it in vain."
            )


def _fitting(node: Node, slot: BatchRequest, *, options: SlurmOptions) -> int:
    """Return how many pilots with such a slot could start on the node now."""
    if not node.is_open or node.disk_mb < slot.disk_mb or not _has(node.features, options.features_for(slot)):
        return 0
    asked = ((node.cpus, slot.processors), (node.memory_mb, slot.memory_mb), (node.gpus, slot.gpus))
    fitting = max(0, min(free // wanted for free, wanted in asked if wanted))
    if node.exclusive or options.is_exclusive:
        return min(fitting, 1) if node.is_whole else 0
    return fitting


def _has(features: Collection[str], expression: str) -> bool:
    """Tell whether a node may be one that is asked for; of counts and the like only Slurm itself can tell."""
    alternatives = [part.removeprefix("(").removesuffix(")").split("|") for part in expression.split("&")]
    if not expression or not all(_FEATURE.fullmatch(word) for words in alternatives for word in words):
        return True
    return all(any(word in features for word in words) for words in alternatives)


def _gpus(gres: str) -> int:
    return sum(map(int, _GPUS.findall(gres)))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _seconds(time: str) -> int | None:
    """Return the seconds of days-hours:minutes:seconds; None when it is none, for there is no limit."""
    found = _TIME.fullmatch(time)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _longest(times_s: Iterable[int | None]) -> int | None:
    known = list(times_s)
    return None if None in known else max(time_s for time_s in known if time_s is not None)


def _named(partitions: Collection[str]) -> str:
    return f"the partition{'s' if len(partitions) > 1 else ''} {', '.join(partitions)}"
