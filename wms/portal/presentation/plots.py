"""The six plots of the accounting, their table, and the same numbers as CSV."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from io import StringIO
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.accounting import Grouping, Span, Width
from wms.jobs.queries.accounting import Accounted, Sums, ValueSums
from wms.kernel.spreadsheets import cell
from wms.portal.presentation.charts import Axis, Chart, Look, Series

#: Values with a series of their own; more are hard to tell apart.
MOST_COURSES: Final = 12
_HOUR_S: Final = 3600
#: Names of what has none.
_NONE: Final[Mapping[Grouping, str]] = MappingProxyType(
    {
        Grouping.SITE: "at no site",
        Grouping.USER: "no user",
        Grouping.GROUP: "no group",
        Grouping.JOB_TYPE: "no type",
    }
)
HEADINGS: Final[Mapping[Grouping, str]] = MappingProxyType(
    {Grouping.SITE: "Site", Grouping.USER: "User", Grouping.GROUP: "Group", Grouping.JOB_TYPE: "Job type"}
)
_UNITS: Final[Mapping[Width, str]] = MappingProxyType({Width.HOUR: "hour", Width.DAY: "day", Width.WEEK: "week"})
_CSV_HEAD: Final = (
    "begin", "started", "done", "failed", "killed", "cpu_s", "wall_s", "running", "waiting", "waiting_unmatched",
    "waiting_for_data", "waiting_for_room", "held",
)  # fmt: skip

_NAMES: Final = tuple(field.name for field in fields(Sums))
_values_of: Final = attrgetter(*_NAMES)
_NOTHING: Final = Sums(**dict.fromkeys(_NAMES, 0))

#: A number of one bucket, of its sums, its samples, and its hours; None: not known.
Measure = Callable[[Sums, int, float], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotRow:
    """Sums over the whole span of one series."""

    label: str
    started: int
    done: int
    failed: int
    killed: int
    success: str
    efficiency: str
    wall_hours: int

    @property
    def has_moved(self) -> bool:
        """Whether any of the jobs started or ended: others only waited."""
        return any((self.started, self.done, self.failed, self.killed))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotsView:
    """The page of plots."""

    #: Empty: nothing happened in the span.
    charts: Sequence[Chart]
    heading: str
    rows: Sequence[PlotRow]
    #: Length of a bucket, in a word.
    unit: str
    #: Set if the accounting began within the span, or has not begun.
    began_at: datetime | None
    has_begun: bool


def plots_view(
    accounted: Accounted, span: Span, *, grouping: Grouping, began_at: datetime | None, now: datetime
) -> PlotsView:
    """Return the page.

    Args:
        accounted: what to show.
        span: its buckets.
        grouping: the property by which it was asked for.
        began_at: when the accounting began; None: not yet.
        now: the present.
    """
    by_value = [replace(value_sums, name=_label(value_sums, grouping)) for value_sums in accounted.by_value]
    return PlotsView(
        charts=_charts(replace(accounted, by_value=by_value), span, now=now) if by_value else (),
        heading=HEADINGS[grouping],
        rows=[
            row for value_sums in by_value if (row := _row(value_sums.name, _total(value_sums.sums.values()))).has_moved
        ],
        unit=_UNITS[span.width],
        began_at=began_at if began_at is not None and began_at > span.first else None,
        has_begun=began_at is not None,
    )


def as_csv(accounted: Accounted, span: Span, *, grouping: Grouping) -> str:
    """Return the numbers of the plots: a line for each bucket and series, levels as means of its samples.

    A text that a spreadsheet would take for a formula begins with ``'``.
    """
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([_CSV_HEAD[0], HEADINGS[grouping].lower().replace(" ", "_"), *_CSV_HEAD[1:]])
    for begin in span.begins:
        samples = accounted.samples.get(begin, 0)
        for value_sums in accounted.by_value:
            sums = value_sums.sums.get(begin)
            if sums is not None:
                writer.writerow([begin.isoformat(), cell(_label(value_sums, grouping)), *_cells(sums, samples)])
    return text.getvalue()


def _cells(sums: Sums, samples: int) -> Iterator[float | str]:
    yield from (sums.started, sums.done, sums.failed, sums.killed, round(sums.cpu_s, 3), round(sums.wall_s, 3))
    levels = (
        sums.running, sums.waiting, sums.waiting_unmatched, sums.waiting_for_data, sums.waiting_for_room, sums.held
    )  # fmt: skip
    for level in levels:
        yield round(level / samples, 3) if samples else ""


def _label(value_sums: ValueSums, grouping: Grouping) -> str:
    return "others" if value_sums.is_rest else value_sums.name or _NONE[grouping]


def _total(of_buckets: Iterable[Sums]) -> Sums:
    columns = zip(*map(_values_of, of_buckets), strict=True)
    return Sums(**dict(zip(_NAMES, map(sum, columns), strict=True)))


def _totals(by_value: Sequence[ValueSums]) -> dict[datetime, Sums]:
    """Return the sums of all values, by begin."""
    by_begin: dict[datetime, list[Sums]] = {}
    for value_sums in by_value:
        for begin, sums in value_sums.sums.items():
            by_begin.setdefault(begin, []).append(sums)
    return {begin: _total(sums) for begin, sums in by_begin.items()}


def _row(label: str, total: Sums) -> PlotRow:
    by_themselves = total.done + total.failed
    return PlotRow(
        label=label,
        started=total.started,
        done=total.done,
        failed=total.failed,
        killed=total.killed,
        success=f"{100 * total.done / by_themselves:.1f} %" if by_themselves else "–",
        efficiency=f"{100 * total.cpu_s / total.wall_s:.1f} %" if total.wall_s else "–",
        wall_hours=round(total.wall_s / _HOUR_S),
    )


# ---- The six plots ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Drawer:
    """Makes the charts of one page."""

    accounted: Accounted
    begins: Sequence[datetime]
    #: Hours of each bucket that are over.
    hours: Mapping[datetime, float]
    #: Sums of all values.
    totals: Mapping[datetime, Sums]

    def chart(self, title: str, name: str, series: Sequence[Series], *, is_stacked: bool = False) -> Chart:
        """Return a chart of those of the series that have a number other than 0."""
        at = [begin.timestamp() for begin in self.begins]
        shown = [each for each in series if any(each.values)]
        return Chart(
            id=f"plot-{name}", title=title, axis=Axis.TIME, at=at, series=shown or series[:1], is_stacked=is_stacked
        )

    def series_by_value(self, measure: Measure, *, unit: str = "", look: Look = Look.LINE) -> list[Series]:
        """Return a series for each value; a value has the same color in each chart."""
        return [
            Series(
                label=value_sums.name,
                unit=unit,
                values=self._values(value_sums.sums, measure),
                color="--plot-others" if value_sums.is_rest else f"--plot-{place}",
                look=look,
            )
            for place, value_sums in enumerate(self.accounted.by_value, start=1)
        ]

    def of_all(self, label: str, measure: Measure, *, color: str, look: Look = Look.LINE) -> Series:
        """Return a series of all values together."""
        return Series(label=label, unit="", values=self._values(self.totals, measure), color=color, look=look)

    def _values(self, by_begin: Mapping[datetime, Sums], measure: Measure) -> list[float | None]:
        samples = self.accounted.samples
        return [
            measure(by_begin.get(begin, _NOTHING), samples.get(begin, 0), self.hours[begin])
            # While nothing is accounted for, because the server is down, nothing is known, and not 0.
            if begin in samples or begin in self.totals
            else None
            for begin in self.begins
        ]


def _charts(accounted: Accounted, span: Span, *, now: datetime) -> list[Chart]:
    begins = span.begins
    # The present bucket is not over; less than an hour of it would be a rate of few jobs.
    hours = {begin: min(max((now - begin).total_seconds() / _HOUR_S, 1.0), span.width / _HOUR_S) for begin in begins}
    drawer = _Drawer(accounted, begins, hours, _totals(accounted.by_value))
    return [
        drawer.chart("Running jobs", "running", drawer.series_by_value(_level("running")), is_stacked=True),
        drawer.chart("Waiting jobs by reason", "waiting", _waiting(drawer), is_stacked=True),
        drawer.chart(
            "Starts and ends per hour",
            "rates",
            [
                drawer.of_all("Starts", _rate("started"), color="--running-mark"),
                drawer.of_all("Ends", _rate("done", "failed", "killed"), color="--plot-others"),
            ],
        ),
        drawer.chart("Success and failure: jobs that ended", "success", _ends(drawer), is_stacked=True),
        drawer.chart(
            "CPU efficiency of jobs that ended: CPU time by wall-clock time and processors",
            "efficiency",
            drawer.series_by_value(_efficiency, unit="%"),
        ),
        drawer.chart(
            "Wall-clock time used by jobs that ended, times processors",
            "wall",
            drawer.series_by_value(_wall_hours, unit="h", look=Look.BARS),
            is_stacked=True,
        ),
    ]


def _waiting(drawer: _Drawer) -> list[Series]:
    return [
        drawer.of_all("In a task queue", _level("waiting"), color="--waiting-mark"),
        drawer.of_all("Fits no queue", _level("waiting_unmatched"), color="--failed-mark"),
        drawer.of_all("Input data at no site", _level("waiting_for_data"), color="--running-mark"),
        drawer.of_all("Quota of waiting jobs full", _level("waiting_for_room"), color="--killed-mark"),
        drawer.of_all("Held", _level("held"), color="--held-mark"),
    ]


def _ends(drawer: _Drawer) -> list[Series]:
    return [
        drawer.of_all("Done", _count("done"), color="--done-mark", look=Look.BARS),
        drawer.of_all("Failed", _count("failed"), color="--failed-mark", look=Look.BARS),
        drawer.of_all("Killed", _count("killed"), color="--killed-mark", look=Look.BARS),
    ]


def _level(name: str) -> Measure:
    return lambda sums, samples, _hours: getattr(sums, name) / samples if samples else None


def _rate(*names: str) -> Measure:
    return lambda sums, _samples, hours: sum(getattr(sums, name) for name in names) / hours


def _count(name: str) -> Measure:
    return lambda sums, _samples, _hours: float(getattr(sums, name))


def _efficiency(sums: Sums, _samples: int, _hours: float) -> float | None:
    return 100 * sums.cpu_s / sums.wall_s if sums.wall_s else None


def _wall_hours(sums: Sums, _samples: int, _hours: float) -> float:
    return sums.wall_s / _HOUR_S
