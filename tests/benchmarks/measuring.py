"""Figures: durations of many operations, summarised as medians and percentiles."""

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The durations of operations of one kind, summarised."""

    what: str
    count: int
    median_ms: float
    p95_ms: float
    p99_ms: float
    longest_ms: float
    per_s: float


@dataclass(slots=True, kw_only=True)
class Report:
    """The results of one benchmark."""

    benchmark: str
    #: Of the workload.
    sizes: Mapping[str, str | int]
    figures: list[Figure] = field(default_factory=list)
    #: What is not a time: counts, CPU, ratios, conditions.
    facts: dict[str, float | int | str] = field(default_factory=dict)

    def add(self, what: str, times_s: Sequence[float], *, per_s: float | None = None) -> Figure:
        """Add a figure of these durations and return it.

        Args:
            what: the operation.
            times_s: of each one.
            per_s: rate; None: that of operations one after another.
        """
        figure = figure_of(what, times_s, per_s=per_s)
        self.figures.append(figure)
        return figure


class NotMeasurableError(Exception):
    """A benchmark cannot be run, or has no result; the text gives the reason in a sentence."""


def figure_of(what: str, times_s: Sequence[float], *, per_s: float | None = None) -> Figure:
    """Return the figure of these durations; percentiles are by nearest rank, so that each is a measured time."""
    if not times_s:
        raise NotMeasurableError(f"{what}: nothing was measured.")
    ordered = sorted(times_s)
    return Figure(
        what=what,
        count=len(ordered),
        median_ms=1000 * percentile(ordered, 0.50),
        p95_ms=1000 * percentile(ordered, 0.95),
        p99_ms=1000 * percentile(ordered, 0.99),
        longest_ms=1000 * ordered[-1],
        per_s=len(ordered) / math.fsum(ordered) if per_s is None else per_s,
    )


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return the value that *fraction* of the ascending values do not exceed."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def timed(operation: Callable[[], Answer]) -> tuple[Answer, float]:
    """Return the operation's result, and the seconds that it took."""
    begun = perf_counter()
    answer = operation()
    return answer, perf_counter() - begun


def say(line: str = "") -> None:
    """Print one line and flush it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def print_report(report: Report) -> None:
    """Print a report as a table."""
    say(f"\n{report.benchmark}: {', '.join(f'{name} {value}' for name, value in report.sizes.items())}")
    header = ("what", "n", "median ms", "p95 ms", "p99 ms", "longest ms", "per s")
    rows = [
        (
            each.what,
            str(each.count),
            *map(_number, (each.median_ms, each.p95_ms, each.p99_ms, each.longest_ms, each.per_s)),
        )
        for each in report.figures
    ]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        numbers = (word.rjust(width) for word, width in zip(row[1:], widths[1:], strict=True))
        say("  " + "  ".join([row[0].ljust(widths[0]), *numbers]))
    for name, value in report.facts.items():
        say(f"  {name}: {_number(value) if isinstance(value, float) else value}")


def write_json(file: Path, *, machine: Mapping[str, str | int], reports: Iterable[Report]) -> None:
    """Write the reports for another program to read."""
    content = {"machine": machine, "benchmarks": [asdict(report) for report in reports]}
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
