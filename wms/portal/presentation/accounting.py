"""The table of the accounting, and the same as CSV."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.accounting import ReportKey, Span
from wms.jobs.queries.accounting import AccountingReport, ReportSums
from wms.kernel.spreadsheets import cell

_HEADINGS: Final[Mapping[ReportKey, str]] = MappingProxyType(
    {
        ReportKey.GROUP: "Group",
        ReportKey.USER: "User",
        ReportKey.SITE: "Site",
        ReportKey.JOB_TYPE: "Job type",
        ReportKey.MONTH: "Month",
        ReportKey.COUNTRY: "Country",
    }
)
_CSV_HEAD: Final = ("started", "done", "failed", "killed", "success", "cpu_hours", "core_hours", "efficiency")
_NONE: Final = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTableRow:
    """A row of the table: one label for each property, and numbers as text."""

    labels: Sequence[str]
    numbers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingTable:
    """The table of the page."""

    headings: Sequence[str]
    rows: Sequence[ReportTableRow]
    #: Of all rows.
    total: Sequence[str]
    #: Those for which there are numbers; None: there is none.
    days: Span | None
    #: Set if the accounting began within the period.
    began_at: datetime | None
    has_begun: bool


def report_view(
    report: AccountingReport, days: Span | None, *, keys: Sequence[ReportKey], began_at: datetime | None
) -> AccountingTable:
    """Return the page.

    Args:
        report: what to show.
        days: its days; None: there is none.
        keys: the properties by which it was asked for.
        began_at: when the accounting began; None: not yet.
    """
    rows = [ReportTableRow(labels=_labels(row.values), numbers=_numbers(row.sums)) for row in report.rows]
    if report.rest_count:
        rows.append(ReportTableRow(labels=_rest_labels(report, keys), numbers=_numbers(report.rest)))
    return AccountingTable(
        headings=[_HEADINGS[key] for key in keys],
        rows=rows,
        total=_numbers(report.total),
        days=days,
        began_at=began_at if days is not None and began_at is not None and began_at > days.first else None,
        has_begun=began_at is not None,
    )


def report_as_csv(report: AccountingReport, *, keys: Sequence[ReportKey]) -> str:
    """Return the rows of the table, without the total; a last one for those that are left out.

    A text that a spreadsheet would take for a formula begins with ``'``.
    """
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([*(_HEADINGS[key].lower().replace(" ", "_") for key in keys), *_CSV_HEAD])
    writer.writerows([*map(cell, _labels(row.values)), *_cells(row.sums)] for row in report.rows)
    if report.rest_count:
        writer.writerow([*_rest_labels(report, keys), *_cells(report.rest)])
    return text.getvalue()


def _labels(values: Sequence[str | None]) -> list[str]:
    return [_NONE if value is None else value for value in values]


def _rest_labels(report: AccountingReport, keys: Sequence[ReportKey]) -> list[str]:
    return [f"{report.rest_count} others", *[_NONE] * (len(keys) - 1)]


def _numbers(sums: ReportSums) -> list[str]:
    return [
        *(f"{jobs:,}" for jobs in (sums.started, sums.done, sums.failed, sums.killed)),
        _percent(sums.success),
        f"{sums.cpu_hours:,.1f}",
        f"{sums.core_hours:,.1f}",
        _percent(sums.efficiency),
    ]


def _percent(part: float | None) -> str:
    return _NONE if part is None else f"{100 * part:.1f} %"


def _cells(sums: ReportSums) -> Iterator[float | str]:
    yield from (sums.started, sums.done, sums.failed, sums.killed)
    for number in (sums.success, sums.cpu_hours, sums.core_hours, sums.efficiency):
        yield "" if number is None else round(number, 3)
