"""The pictures of docs/architecture.md: the states of jobs and pilots; the arrows are the transitions of the code."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

from docs.generators.drawing import INK, PALE, svg, text
from pilots.domain import pilot
from wms.jobs.domain import lifecycle

#: Of a box, and from the middle of one to that of the next.
WIDTH, HEIGHT, RIGHT, DOWN = 110.0, 48.0, 134.0, 110.0
#: Of the middle of the first box, from the edge.
MARGIN_X, MARGIN_Y = 60.0, 30.0
TITLE_HEIGHT: Final = 60.0
MARKS: Final = MappingProxyType(
    {"Failed": "#f3c6c0", "Killed": "#fbe3b5", "Deleted": "#d9dee3", "Aborted": "#f3c6c0", "Lost": "#fbe3b5"}
)

Place = tuple[float, float]
StatusT = TypeVar("StatusT", bound=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """A state diagram.

    Args:
        title: what it shows.
        transitions: {status: those that may follow}; the first one is the start.
        places: {status: column and row of its box}.
        marked: statuses that many others lead to; a mark at each of these stands for the arrow.
    """

    title: str
    transitions: Mapping[str, frozenset[str]]
    places: Mapping[str, Place]
    marked: Collection[str]

    def drawn(self) -> str:
        """Return the picture.

        Raises:
            ValueError: the places are not those of all statuses.
        """
        if set(self.places) != set(self.transitions):
            raise ValueError(f"{self.title}: the places are not those of the statuses")
        arrows = [
            self._arrow(source, target)
            for source, targets in self.transitions.items()
            for target in sorted(targets - set(self.marked))
            if not (source in self.transitions[target] and target < source)
        ]
        columns, rows = (max(place[axis] for place in self.places.values()) for axis in (0, 1))
        width, height = 2 * MARGIN_X + columns * RIGHT, 2 * MARGIN_Y + rows * DOWN + TITLE_HEIGHT
        parts = [_HEADS, *arrows, self._start(), *self._legend(height)]
        parts += [part for status in self.transitions for part in self._box(status)]
        return svg(round(width), round(height), self.title, parts)

    def _middle(self, status: str) -> Place:
        column, row = self.places[status]
        return MARGIN_X + column * RIGHT, MARGIN_Y + row * DOWN

    def _start(self) -> str:
        x, y = self._middle(next(iter(self.transitions)))
        return _path((x, y - HEIGHT / 2 - 26), (x, y - HEIGHT / 2))

    def _arrow(self, source: str, target: str) -> str:
        """Return the arrow from a status to another, above a box that is between them in their row."""
        both = source in self.transitions[target]
        (column, row), (last, of_last) = self.places[source], self.places[target]
        between = [x for x, y in self.places.values() if y == row and min(column, last) < x < max(column, last)]
        if row != of_last or not between:
            return _path(*self._edges(source, target), both=both)
        (x1, y), (x2, _) = self._middle(source), self._middle(target)
        inwards = 30 if x1 < x2 else -30
        top = y - HEIGHT / 2
        return _path((x1 + inwards, top), (x2 - inwards, top), over=((x1 + x2) / 2, top - 50), both=both)

    def _edges(self, source: str, target: str) -> tuple[Place, Place]:
        """Return where a line between the middles of two boxes leaves the one and enters the other."""
        (x1, y1), (x2, y2) = self._middle(source), self._middle(target)
        dx, dy = x2 - x1, y2 - y1
        part = min(WIDTH / 2 / abs(dx) if dx else 1, HEIGHT / 2 / abs(dy) if dy else 1)
        return (x1 + part * dx, y1 + part * dy), (x2 - part * dx, y2 - part * dy)

    def _box(self, status: str) -> list[str]:
        x, y = self._middle(status)
        ends = not self.transitions[status]
        color = MARKS[status] if status in self.marked else PALE
        frame = (
            f'<rect x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" width="{WIDTH:g}" height="{HEIGHT:g}" rx="8" '
            f'fill="{color}" stroke="{INK}" stroke-width="{2.4 if ends else 1:g}"/>'
        )
        marks = [mark for mark in self.marked if mark in self.transitions[status]]
        parts = [frame, text(x, y - 4 if marks else y + 5, status, anchor="middle", bold=True)]
        for number, mark in enumerate(marks):
            center = x + (number - (len(marks) - 1) / 2) * 20
            parts += [
                f'<circle cx="{center:g}" cy="{y + 12:g}" r="8" fill="{MARKS[mark]}" stroke="{INK}"/>',
                text(center, y + 16, mark[0], size=12, anchor="middle"),
            ]
        return parts

    def _legend(self, height: float) -> list[str]:
        letters = ", ".join(f"{mark[0]} {mark}" for mark in self.marked)
        return [
            text(6, height - 30, f"A letter at a box: this may follow, too ({letters}).", size=13),
            text(6, height - 10, "A line with two heads leads both ways. A thick frame: the end.", size=13),
        ]


_HEADS: Final = (
    '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
    f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>'
)


def _path(start: Place, end: Place, *, over: Place | None = None, both: bool = False) -> str:
    """Return a line with a head, or two; straight, or bent towards a point."""
    bend = f"Q{over[0]:.1f} {over[1]:.1f} " if over else ""
    backwards = ' marker-start="url(#head)"' if both else ""
    return (
        f'<path d="M{start[0]:.1f} {start[1]:.1f} {bend or "L"}{end[0]:.1f} {end[1]:.1f}" fill="none" '
        f'stroke="{INK}" stroke-width="1.2" marker-end="url(#head)"{backwards}/>'
    )


def _by_name(transitions: Mapping[StatusT, frozenset[StatusT]]) -> Mapping[str, frozenset[str]]:
    return {str(status): frozenset(map(str, followers)) for status, followers in transitions.items()}


JOBS: Final = Diagram(
    title="Statuses of a job and the transitions between them",
    transitions=_by_name(lifecycle.TRANSITIONS),
    places=MappingProxyType(
        {
            "Received": (0, 1),
            "Checking": (1, 0),
            "Waiting": (1, 1),
            "Held": (1, 2),
            "Matched": (2, 1),
            "Stalled": (3, 0),
            "Running": (3, 1),
            "Rescheduled": (2, 2),
            "Completing": (4, 1),
            "Done": (5, 0),
            "Failed": (3, 2),
            "Killed": (4, 2),
            "Deleted": (5, 2),
        }
    ),
    marked=("Failed", "Killed", "Deleted"),
)
PILOTS: Final = Diagram(
    title="Statuses of a pilot and the transitions between them",
    transitions=_by_name(pilot.TRANSITIONS),
    places=MappingProxyType(
        {
            "Submitted": (0, 1),
            "Waiting": (1, 2),
            "Stalled": (1, 0),
            "Running": (2, 1),
            "Done": (3, 1),
            "Failed": (3, 2),
            "Aborted": (4, 1),
            "Lost": (4, 2),
        }
    ),
    marked=("Aborted", "Lost"),
)


def pictures() -> dict[str, str]:
    """Return the pictures by the names of their files."""
    return {"jobs.svg": JOBS.drawn(), "pilots.svg": PILOTS.drawn()}
