"""The pictures of docs/matching.md that show numbers; the priorities are those of the code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from docs.generators.drawing import PALE, box, line, svg, text
from taskqueues.domain.shares import QueueLoad, split_share, total_weight

WIDTH: Final = 780
COLORS: Final = ("#cfe3f7", "#b3d1ef", "#fbe3b5", "#cdebc9", "#a9d9a4")
#: Of the tree: height of a row, left edges of its columns, upper edge.
ROW: Final = 62
LEFT: Final = (20.0, 190.0, 390.0, 560.0)
TOP: Final = 56


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleQueue:
    """A task queue of the example: its name, its owner, and its waiting jobs by user priority."""

    name: str
    owner: str
    jobs: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleGroup:
    """A group of the example with its share."""

    name: str
    share: float
    shares_jobs: bool
    queues: Sequence[ExampleQueue]

    def priorities(self) -> Sequence[float]:
        """Return the priority of each task queue, as the server computes it."""
        owners = {queue.owner: number for number, queue in enumerate(self.queues)}
        loads = [
            QueueLoad(task_queue_id=number, owner_id=owners[queue.owner], weight=total_weight(queue.jobs))
            for number, queue in enumerate(self.queues)
        ]
        split = split_share(self.share, loads, shared=self.shares_jobs)
        return [split[number] for number in range(len(self.queues))]


EXAMPLE: Final = (
    ExampleGroup(
        name="lhcb_user",
        share=1000,
        shares_jobs=False,
        queues=(
            ExampleQueue(name="scan", owner="alice", jobs=MappingProxyType({1: 30})),
            ExampleQueue(name="fit", owner="alice", jobs=MappingProxyType({9: 10})),
            ExampleQueue(name="toys", owner="bob", jobs=MappingProxyType({1: 200})),
        ),
    ),
    ExampleGroup(
        name="lhcb_prod",
        share=3000,
        shares_jobs=True,
        queues=(
            ExampleQueue(name="mc", owner="carol", jobs=MappingProxyType({1: 100})),
            ExampleQueue(name="merge", owner="carol", jobs=MappingProxyType({1: 50})),
        ),
    ),
)


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    return {"priorities.svg": _division(), "draw.svg": _draw()}


def _named_box(x: float, center: float, width: float, name: str, number: float) -> list[str]:
    return [
        box(x, center - 24, width, 48, color=PALE),
        text(x + 12, center - 3, name, bold=True),
        text(x + 12, center + 16, f"{number:g}"),
    ]


def _division() -> str:
    """Return the tree: the VO, its groups, the owners, the task queues."""
    heads = ("VO", "group: its share", "owner: equal parts", "task queue: by weight")
    parts = [text(x, 30, head, size=13) for x, head in zip(LEFT, heads, strict=True)]
    number = sum(len(group.queues) for group in EXAMPLE)
    middle = TOP + (number * ROW - 14) / 2
    parts += _named_box(LEFT[0], middle, 120, "lhcb", sum(group.share for group in EXAMPLE))
    at = 0
    for group in EXAMPLE:
        center = TOP + at * ROW + (len(group.queues) * ROW - 14) / 2
        parts += [line(LEFT[0] + 120, middle, LEFT[1], center)]
        parts += _named_box(LEFT[1], center, 150, group.name, group.share)
        parts += _below_group(group, center=center, at=at)
        at += len(group.queues)
    return svg(WIDTH, TOP + number * ROW + 6, "A VO's shares divided over groups, owners and task queues", parts)


def _below_group(group: ExampleGroup, *, center: float, at: int) -> list[str]:
    """Return the owners and task queues of a group; *at* is the row of its first task queue."""
    parts, start, priorities = [], LEFT[1] + 150, group.priorities()
    for owner in dict.fromkeys(queue.owner for queue in group.queues):
        rows = [number for number, queue in enumerate(group.queues) if queue.owner == owner]
        of_owner = TOP + (at + (rows[0] + rows[-1]) / 2) * ROW + 24
        if group.shares_jobs:
            parts += [text(LEFT[2] - 30, of_owner + 44, "JOB_SHARING: not by owners", size=13)]
            origin = (start, center)
        else:
            parts += [line(start, center, LEFT[2], of_owner)]
            parts += _named_box(LEFT[2], of_owner, 120, owner, sum(priorities[row] for row in rows))
            origin = (LEFT[2] + 120, of_owner)
        for row in rows:
            parts += [line(*origin, LEFT[3], TOP + (at + row) * ROW + 24)]
            parts += _task_queue(group.queues[row], priorities[row], row=at + row)
    return parts


def _task_queue(queue: ExampleQueue, priority: float, *, row: int) -> list[str]:
    y = TOP + row * ROW
    jobs = ", ".join(f"{count} jobs × {user_priority}" for user_priority, count in queue.jobs.items())
    return [
        box(LEFT[3], y, 200, 48, color=COLORS[row]),
        text(LEFT[3] + 12, y + 20, f"{queue.name}: {priority:g}", bold=True),
        text(LEFT[3] + 12, y + 38, f"weight {total_weight(queue.jobs):g} ({jobs})", size=13),
    ]


def _draw() -> str:
    """Return the line on which a random number selects a task queue."""
    queues = [
        (queue, priority) for group in EXAMPLE for queue, priority in zip(group.queues, group.priorities(), strict=True)
    ]
    total = sum(priority for _, priority in queues)
    scale, left, y, reached, parts = (WIDTH - 40) / total, 20.0, 64, 0.0, []
    for number, (queue, priority) in enumerate(queues):
        x, width = left + reached * scale, priority * scale
        label = f"{priority / total:.1%}"
        parts += [box(x, y, width, 54, color=COLORS[number])]
        if width > 60:
            parts += [text(x + width / 2, y + 23, queue.name, anchor="middle", bold=True)]
            parts += [text(x + width / 2, y + 42, label, anchor="middle")]
        else:
            parts += [line(x + width / 2, y + 54, x + width / 2, y + 96)]
            parts += [text(x + width / 2 - 8, y + 112, f"{queue.name} {label}", bold=True)]
        parts += [text(x, y - 8, f"{reached:g}", size=13, anchor="middle" if number else "start")]
        reached += priority
    parts += [text(left + reached * scale, y - 8, f"{reached:g}", size=13, anchor="end")]
    chance = 0.42
    x = left + chance * total * scale
    parts += [f'<path d="M{x:.1f} {y + 54} l-7 16 l14 0 z" fill="#b3261e"/>']
    drawn, bound = queues[0][0], 0.0
    for queue, priority in queues:
        if bound <= chance * total:
            drawn = queue
        bound += priority
    parts += [
        text(x, y + 90, f"random number {chance:g} × {total:g} = {chance * total:g}: {drawn.name}", anchor="middle")
    ]
    return svg(WIDTH, 190, "The draw: each task queue has a part of the line in proportion to its priority", parts)
