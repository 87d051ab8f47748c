"""Charts of numbers over time: their data for static/portal/chart.js, and the same numbers as a table."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite

from wms.kernel.time_texts import duration


class Axis(StrEnum):
    """Kinds of horizontal axis of a chart, in seconds."""

    #: Since 1970, shown as UTC.
    TIME = "time"
    #: Since a start that the title names.
    ELAPSED = "elapsed"


class Look(StrEnum):
    """Ways to draw a series."""

    LINE = "line"
    DASHED = "dashed"
    AREA = "area"
    BARS = "bars"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Numbers that belong together, one for each time of the chart; None: not known then."""

    label: str
    #: Series of one unit share an axis; empty: things that are counted.
    unit: str
    values: Sequence[float | None]
    #: Custom property of the style sheet, such as "--done-mark"; empty: the next of a fixed row of colors.
    color: str = ""
    look: Look = Look.LINE


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart, of at most two units."""

    #: Id of its element, unique on the page.
    id: str
    title: str
    axis: Axis
    #: In seconds, increasing.
    at: Sequence[float]
    series: Sequence[Series]
    #: Whether each series is drawn on top of the one before it.
    is_stacked: bool = False

    @property
    def data(self) -> str:
        """Return what chart.js draws, as JSON."""
        return json.dumps(
            {
                "x": self.axis,
                "at": [round(at, 1) for at in self.at],
                "stacked": self.is_stacked,
                "series": [
                    {
                        "label": series.label,
                        "unit": series.unit,
                        "color": series.color,
                        "look": series.look,
                        "values": [_number(value) for value in series.values],
                    }
                    for series in self.series
                ],
            },
            separators=(",", ":"),
            allow_nan=False,
        )

    @property
    def headings(self) -> Sequence[str]:
        """Return the headings of the table of its numbers."""
        first = "Time (UTC)" if self.axis is Axis.TIME else "After"
        return [first, *(f"{series.label} ({series.unit})" if series.unit else series.label for series in self.series)]

    @property
    def legend(self) -> Sequence[str]:
        """Return the labels below the plot, in the order of chart.js."""
        first, *labels = self.headings
        return ["UTC" if self.axis is Axis.TIME else first, *(reversed(labels) if self.is_stacked else labels)]

    @property
    def rows(self) -> Sequence[Sequence[str]]:
        """Return the rows of the table of its numbers."""
        columns = [series.values for series in self.series]
        return [
            [self._moment(at), *(_figure(value) for value in values)]
            for at, *values in zip(self.at, *columns, strict=True)
        ]

    def _moment(self, at: float) -> str:
        if self.axis is Axis.ELAPSED:
            return duration(at)
        return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _number(value: float | None) -> float | None:
    return round(value, 3) if value is not None and isfinite(value) else None


def _figure(value: float | None) -> str:
    if value is None or not isfinite(value):
        return "–"
    return f"{value:,.2f}".rstrip("0").rstrip(".")
