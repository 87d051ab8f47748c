"""Files with the rows of a list, written while they are read: CSV and JSON with the columns of REST's row."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from itertools import islice
from typing import Any, Final, TypeVar

from django.http import HttpResponse
from rest_framework.serializers import Serializer

from wms.jobs.api.outputs import JobRowOut
from wms.jobs.models import Job
from wms.kernel.middleware import visible
from wms.kernel.spreadsheets import cell

RowT = TypeVar("RowT")

#: Rows that are written at once.
_AT_ONCE: Final = 200


def as_csv(
    rows: Iterable[object], *, output: type[Serializer[Any]] = JobRowOut, most: int | None = None
) -> Iterator[bytes]:
    """Yield the rows as CSV in UTF-8, with a head; texts that a spreadsheet would take for a formula begin with ``'``.

    Characters that steer terminals or the direction of a text are escaped, as on pages.

    Args:
        rows: of the list.
        output: REST's row.
        most: rows that are written; a last line says so if there are more. None: all.
    """
    columns, each = output(), iter(rows)
    yield _lines([_columns(columns)])
    for portion in _portions(islice(each, most)):
        yield visible(_lines([map(_cell, _flat(columns.to_representation(row)).values()) for row in portion]))
    if next(each, None) is not None:
        yield _lines([[f"only the first {most:,} rows: there are more"]])


def as_json(jobs: Iterable[Job]) -> Iterator[bytes]:
    """Yield the jobs as a JSON array; a file that was cut off has no end, and so is not valid."""
    row, separator = JobRowOut(), "[\n"
    for portion in _portions(jobs):
        texts = (json.dumps(row.to_representation(job), default=str) for job in portion)
        yield (separator + ",\n".join(texts)).encode()
        separator = ",\n"
    yield b"[]\n" if separator == "[\n" else b"\n]\n"


def csv_file(text: str, *, name: str) -> HttpResponse:
    """Return the answer that is a CSV file; what steers terminals is escaped, as on pages."""
    return HttpResponse(
        visible(text.encode()),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _portions(rows: Iterable[RowT]) -> Iterator[list[RowT]]:
    each = iter(rows)
    while portion := list(islice(each, _AT_ONCE)):
        yield portion


def _columns(row: Serializer[Any]) -> Iterator[str]:
    for name, field in row.fields.items():
        yield from (f"{name}.{inner}" for inner in field.fields) if isinstance(field, Serializer) else (name,)


def _flat(row: Mapping[str, object]) -> dict[str, object]:
    """Return the values with those of nested objects beside the others, such as ``usage.cpu_s``."""
    flat: dict[str, object] = {}
    for name, value in row.items():
        inner = value if isinstance(value, Mapping) else None
        flat |= {name: value} if inner is None else {f"{name}.{key}": each for key, each in inner.items()}
    return flat


def _cell(value: object) -> object:
    return cell(value) if isinstance(value, str) else value


def _lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()
