"""Free slots and time limits of Slurm's nodes and partitions."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pilots.backends.interface import BatchQueue, BatchRequest
from pilots.backends.slurm_options import SlurmOptions

_FIELDS = (
    "NodeHost", "PartitionName", "Available", "StateCompact", "CPUsState", "Memory", "AllocMem", "Disk",
    "features_act", "Gres", "GresUsed", "OverSubscribe", "Time", "DefaultTime",
)  # fmt: skip
#: Format of ``sinfo --Node``, which prints a line for each node in each of its partitions.
FORMAT = ",".join(f"{name}:|" for name in _FIELDS)
#: States of a node with free cores that responds and is not reserved by anybody.
_OPEN = re.compile(r"(idle|mix|comp)[~#+-]?")
#: Cores: allocated, idle, other, all.
_CORES = re.compile(r"([0-9]{1,9})/([0-9]{1,9})/[0-9]+/[0-9]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_GPUS = re.compile(r"\bgpu(?::[^:,(]+)?:([0-9]{1,9})\b")
_TIME = re.compile(r"(?:([0-9]{1,9})-)?(?:([0-9]{1,9}):)?([0-9]{1,9}):([0-9]{1,9})")
_FEATURE = re.compile(r"[\w.-]+")
#: Nodes that one sentence names.
_NAMED = 5
#: Tolerance: a core may be a little faster than the reference, whose measurement is not exact.
_ENOUGH = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node in one of its partitions, with the resources that Slurm counts as free.

    Args:
        name, partition: a node is listed once per partition.
        is_open: whether jobs start there.
        is_whole: whether nothing of it is allocated.
        exclusive: whether each job gets the whole node.
        cpus, gpus, memory_mb: free; Slurm gives no number of cores for some nodes.
        disk_mb: total, which Slurm grants to each job.
        features: its active features.
        limit_s: the time limit of its partition; None: no limit.
        usual_s: the default time of its partition; None: no limit.
    """

    name: str
    partition: str
    is_open: bool
    is_whole: bool
    exclusive: bool
    cpus: int | None
    gpus: int
    memory_mb: int
    disk_mb: int
    features: frozenset[str]
    limit_s: int | None
    usual_s: int | None


def nodes_in(answer: str) -> Iterator[Node]:
    """Yield the nodes in an output of ``sinfo`` with ``FORMAT``."""
    for line in answer.split("\n"):
        values = line.split("|")
        if len(values) != len(_FIELDS) + 1:
            continue
        fields = dict(zip(_FIELDS, values, strict=False))
        cores = _CORES.fullmatch(fields["CPUsState"])
        limit_s, usual_s = _seconds(fields["Time"]), _seconds(fields["DefaultTime"])
        yield Node(
            name=fields["NodeHost"],
            partition=fields["PartitionName"],
            is_open=fields["Available"] == "up" and _OPEN.fullmatch(fields["StateCompact"]) is not None,
            is_whole=cores is not None and int(cores[1]) == 0,
            exclusive=fields["OverSubscribe"].startswith("EXCLUSIVE"),
            cpus=None if cores is None else int(cores[2]),
            gpus=_gpus(fields["Gres"]) - _gpus(fields["GresUsed"]),
            memory_mb=_number(fields["Memory"]) - _number(fields["AllocMem"]),
            disk_mb=_number(fields["Disk"]),
            features=frozenset(fields["features_act"].split(",")),
            limit_s=limit_s,
            usual_s=limit_s if fields["DefaultTime"] == "n/a" else usual_s,
        )


def free_slots(nodes: Iterable[Node], queues: Collection[BatchQueue], *, options: SlurmOptions) -> int:
    """Return how many pilots could start now: on each node, as many as it can take for the queue that fits it best."""
    wanted = [(queue.slot, options.partitions_for(queue.slot)) for queue in queues]
    best: dict[str, int] = {}
    for node in nodes:
        for slot, partitions in wanted:
            if not partitions or node.partition in partitions:
                best[node.name] = max(best.get(node.name, 0), _fitting(node, slot, options=options))
    return sum(best.values())


def shortfalls(nodes: Sequence[Node], queues: Iterable[BatchQueue], *, options: SlurmOptions) -> Iterator[str]:
    """Yield a sentence for nodes that are not counted, and for each queue that promises more time than pilots get."""
    if unknown := sorted({node.name for node in nodes if node.is_open and node.cpus is None}):
        more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
        named = f"{'nodes' if len(unknown) > 1 else 'node'} {', '.join(unknown[:_NAMED])}{more}"
        yield f"Slurm gives no number of free cores for the {named}: no slots are counted there."
    limits = {node.partition: (node.limit_s, node.usual_s) for node in nodes}
    for queue in queues:
        slot, partitions = queue.slot, options.partitions_for(queue.slot)
        limits_there = [limits[name] for name in partitions if name in limits]
        if not limits_there:
            yield f"Slurm shows no node of {_named(partitions)}, where pilots of the queue {slot.queue} are to go."
            continue
        limit_s = _longest(limit for limit, _ in limits_there)
        if slot.wall_time_s is not None and limit_s is not None and slot.wall_time_s > limit_s:
            yield (
                f"Pilots of the queue {slot.queue} never start: its wall_time_s is {slot.wall_time_s}, and "
                f"{_named(partitions)} gives at most {limit_s} s."
            )
            continue
        granted_s = slot.wall_time_s or _longest(usual for _, usual in limits_there)
        if granted_s is not None and granted_s < _ENOUGH * queue.cpu_time_s:
            yield (
                f"The queue {slot.queue} promises {queue.cpu_time_s} s of CPU time (cpu_time_s), and its pilots may "
                f"run {granted_s} s in {_named(partitions)}: unless its cores are that much faster than the reference, "
                "longer jobs wait for it in vain."
            )


def _fitting(node: Node, slot: BatchRequest, *, options: SlurmOptions) -> int:
    """Return how many pilots with such a slot could start on the node now."""
    if not node.is_open or node.disk_mb < slot.disk_mb or not _has(node.features, options.features_for(slot)):
        return 0
    needs = ((node.cpus or 0, slot.processors), (node.memory_mb, slot.memory_mb), (node.gpus, slot.gpus))
    fitting = max(0, min(free // needed for free, needed in needs if needed))
    if node.exclusive or options.is_exclusive:
        return min(fitting, 1) if node.is_whole else 0
    return fitting


def _has(features: Collection[str], expression: str) -> bool:
    """Return whether a node may fulfil a constraint; only Slurm itself can evaluate counts and the like."""
    alternatives = [part.removeprefix("(").removesuffix(")").split("|") for part in expression.split("&")]
    if not expression or not all(_FEATURE.fullmatch(word) for words in alternatives for word in words):
        return True
    return all(any(word in features for word in words) for words in alternatives)


def _gpus(gres: str) -> int:
    return sum(map(int, _GPUS.findall(gres)))


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _seconds(time: str) -> int | None:
    """Return the seconds of days-hours:minutes:seconds; None if the text is something else, which means no limit."""
    match = _TIME.fullmatch(time)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _longest(times_s: Iterable[int | None]) -> int | None:
    times = list(times_s)
    return None if None in times else max(time_s for time_s in times if time_s is not None)


def _named(partitions: Collection[str]) -> str:
    return f"the partition{'s' if len(partitions) > 1 else ''} {', '.join(partitions)}"
