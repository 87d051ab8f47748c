"""Signs of life of the parts that serve no requests, and the last runs of the periodic tasks that they execute."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from django.db import connection

from wms.kernel.db import DatabaseNow
from wms.kernel.models import Liveness
from wms.kernel.runs import Run, runs

#: Celery's beat, together with a worker of the control queue.
BEAT = "beat"
#: The worker of the queue sites, to which beat sends, too.
SITES = "sites"
#: beat reports every 10 s (wms.schedule); a worker busy with longer tasks is not down.
SILENT_AFTER = timedelta(seconds=60)
_NEVER: Final = datetime.min.replace(tzinfo=UTC)

#: Runs that are stored already stay, but for the tasks that have run since; the ORM has no such operator of JSON.
_REPORT: Final = """
INSERT INTO kernel_liveness AS known (name, reported_at, runs)
VALUES (%(name)s, wms_now(), %(expected)s::jsonb || %(latest)s::jsonb)
ON CONFLICT (name) DO UPDATE SET
    reported_at = excluded.reported_at, runs = %(expected)s::jsonb || known.runs || %(latest)s::jsonb
"""


class LivenessReport(NamedTuple):
    """The last report of a part: its time, and the last run of each periodic task, by task."""

    reported_at: datetime
    runs: Mapping[str, Run]


def report(name: str) -> None:
    """Record that this part works, and what this process has run."""
    expected, latest = runs.unstored()
    encode = msgspec.json.Encoder().encode
    values = {"name": name, "expected": encode(expected).decode(), "latest": encode(latest).decode()}
    with connection.cursor() as cursor:
        cursor.execute(_REPORT, values)
    runs.note_stored(expected, latest)


def reports() -> Mapping[str, LivenessReport]:
    """Return the last report of each part that has reported, by name."""
    rows = Liveness.objects.values_list("name", "reported_at", "runs")
    return {name: LivenessReport(at, msgspec.convert(stored, dict[str, Run])) for name, at, stored in rows}


def latest_runs(reported: Iterable[LivenessReport]) -> Mapping[str, Run]:
    """Return the last run of each periodic task in the reports of all workers, by task.

    Each worker expects all tasks, and has the runs of those that it executes.
    """
    found = [pair for each in reported for pair in each.runs.items()]
    return dict(sorted(found, key=lambda pair: (pair[1].started_at or _NEVER, pair[1].expected_at or _NEVER)))


def has_stopped(name: str) -> bool:
    """Return whether this part has reported, but not within SILENT_AFTER."""
    return Liveness.objects.filter(name=name, reported_at__lte=DatabaseNow() - SILENT_AFTER).exists()


def is_alive(name: str) -> bool:
    """Return whether this part has reported within SILENT_AFTER."""
    return Liveness.objects.filter(name=name, reported_at__gt=DatabaseNow() - SILENT_AFTER).exists()
