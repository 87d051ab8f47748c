"""Rows of job, lease, pilot, history, commands and last lines after each kind of report in each state of a job."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest
from django.db import models, transaction
from pytest_django import Settings

from matching.models import Match
from matching.services import leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from taskqueues.models import QueuedJob
from tests.clock import stop_clock
from tests.factories import NOW, make_job, make_pilot
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory, OutputTail, Sandbox, SandboxUpload, UsageSamples
from wms.jobs.services.transitions import IllegalTransitionError
from wms.kernel.db import database_now
from wms.wire.protocol import Tails, Usage, output_sandbox_name

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

Columns = dict[str, object]
Report = Callable[[Match], object]

#: Reports of usage, which have less wall-clock time and memory than an earlier one.
USED: Final = Usage(cpu_s=150.0, wall_s=190.0, memory_mb=290.0, disk_mb=40.0)
TAILS: Final = Tails("out", "err")


class Changes(NamedTuple):
    """Columns that a report changes, with their new values, and rows that it adds; all others stay as they were."""

    job: Columns
    lease: Columns
    #: (status, minor status, application status) of new lines.
    history: Sequence[tuple[str, str, str]] = ()
    #: (attempt, standard output, standard error).
    tails: Sequence[tuple[int, str, str]] = ()
    acknowledged: Sequence[str] = ()
    is_queued: bool = False


def beat(lease: Match, *, acknowledged: Sequence[str] = ()) -> None:
    ids = JobCommand.objects.filter(name__in=acknowledged).values_list("pk", flat=True)
    leases.heartbeat(lease.pk, usage=USED, tails=TAILS, acknowledged=list(ids))


def status(lease: Match, name: str, *, minor: str | None = None, application: str | None = None) -> None:
    leases.report_status(lease.pk, status=JobStatus(name), minor=minor, application=application)


def end(lease: Match, exit_code: int | None, *, minor: str | None = None, has_output: bool = True, **more: Any) -> None:
    output = f"sha256:{'1' * 64}" if has_output else None
    leases.finish(lease.pk, exit_code=exit_code, minor=minor, usage=USED, output_sandbox=output, tails=TAILS, **more)


REPORTS: Final[Mapping[str, Report]] = {
    "Running": partial(status, name="Running"),
    "Running, with words": partial(status, name="Running", minor="Event 7", application="50 %"),
    "Completing": partial(status, name="Completing"),
    "heartbeat": beat,
    "heartbeat, commands executed": partial(beat, acknowledged=("drain", "peek", "kill")),
    "exit code 0": partial(end, exit_code=0),
    "exit code 1": partial(end, exit_code=1),
    "not run": partial(end, exit_code=None, minor="No such release", has_output=False, job_at_fault=True),
    "exit code 222": partial(end, exit_code=222),
    "process died": partial(end, exit_code=222, minor="The process died", has_output=False, supervisor_died=True),
}

# ---- What each report changes ----------------------------------------------------------------------------------------

MAXIMA: Final[Columns] = {"heartbeat_at": "now", "cpu_s": 150.0, "max_disk_mb": 40.0}
RENEWED: Final[Columns] = {"reported_at": "now", "expires_at": "in 1800 s"}
FINISHED: Final[Columns] = {"ended_at": "now", "end_reason": "finished"}
LINES: Final = [(0, "out", "err")]


def to(status: str, minor: str, **more: object) -> Columns:
    return {"status": status, "minor_status": minor, "status_changed_at": "now", **more}


def ended(status: str, minor: str, *, exit_code: int | None) -> Columns:
    columns = MAXIMA | to(status, minor, ended_at="now")
    return columns if exit_code is None else columns | {"exit_code": exit_code, "output_sandbox_id": "the output"}


def waiting(minor: str, **more: object) -> Columns:
    attempt = ("pilot_id", "matched_at", "started_at", "heartbeat_at", "cpu_s", "wall_s", "max_memory_mb")
    return {**dict.fromkeys(attempt), **to("Waiting", minor, **more)}


def renewed(job: Columns, *history: tuple[str, str, str], reported: str | None = None) -> Changes:
    lease = RENEWED if reported is None else RENEWED | {"reported_status": reported}
    return Changes(job, lease, history)


def over(
    job: Columns,
    *history: tuple[str, str, str],
    commands: str = "drain peek",
    at_fault: bool = False,
    died: bool = False,
) -> Changes:
    lease = FINISHED | {"job_at_fault": at_fault, "died": died}
    return Changes(job, lease, history, LINES, commands.split(), job.get("status") == "Waiting")


def beaten(job: Columns, *history: tuple[str, str, str]) -> dict[str, Changes | None]:
    """Return the changes by both heartbeats of a job that need not stop."""
    changes = Changes(MAXIMA | job, RENEWED, history, LINES)
    return {"heartbeat": changes, "heartbeat, commands executed": changes._replace(acknowledged=["drain", "peek"])}


def given_back(minor: str, *, died: bool = False) -> Changes:
    job = waiting(minor, application_status="", reschedules=1)
    return over(job, ("Rescheduled", minor, ""), ("Waiting", minor, ""), died=died)


WORDS: Final = renewed(
    to("Running", "Event 7", application_status="50 %"), ("Running", "Event 7", "50 %"), reported="Running"
)
OF_LEASED: Final[dict[str, Changes | None]] = {
    "Running, with words": WORDS,
    "Completing": renewed(to("Completing", ""), ("Completing", "", "Event 1"), reported="Completing"),
    **beaten({}),
    "exit code 0": over(
        ended("Done", "Execution complete", exit_code=0),
        ("Completing", "", "Event 1"),
        ("Done", "Execution complete", "Event 1"),
    ),
    "exit code 1": over(
        ended("Failed", "Exited with code 1", exit_code=1), ("Failed", "Exited with code 1", "Event 1")
    ),
    "not run": over(
        ended("Failed", "No such release", exit_code=None), ("Failed", "No such release", "Event 1"), at_fault=True
    ),
    "exit code 222": given_back("The payload requested rescheduling"),
    "process died": given_back("The process died"),
}
DONE_AT_ONCE: Final = over(ended("Done", "Execution complete", exit_code=0), ("Done", "Execution complete", "Event 1"))
#: A job that was killed or rescheduled keeps its status until the payload has stopped.
OF_STOPPED: Final[dict[str, Changes | None]] = {
    "Running": renewed({}),
    "Running, with words": renewed({}),
    "Completing": renewed({}, reported="Completing"),
    "heartbeat": Changes(MAXIMA, RENEWED, (), LINES),
}
ALL: Final = "drain peek kill"
LATE: Final = {
    exit_code: MAXIMA | {"exit_code": exit_code, "output_sandbox_id": "the output"} for exit_code in (0, 1, 222)
}
REQUEUED: Final = over(waiting(""), ("Waiting", "", "Event 1"), commands=ALL)

#: {status of the job: {report: changes}}; None: refused, and nothing changes.
EXPECTED: Final[Mapping[str, Mapping[str, Changes | None]]] = {
    "Matched": OF_LEASED
    | {
        "Running": renewed(to("Running", "", started_at="now"), ("Running", "", "Event 1"), reported="Running"),
        "Running, with words": renewed(
            to("Running", "Event 7", application_status="50 %", started_at="now"),
            ("Running", "Event 7", "50 %"),
            reported="Running",
        ),
    },
    "Running": OF_LEASED
    | {
        "Running": renewed({}),
        # Changes of words alone are counted, as their number is bounded.
        "Running, with words": WORDS._replace(lease=WORDS.lease | {"changes": 1}),
        "exit code 0": DONE_AT_ONCE,
        "process died": given_back("The process died", died=True),
    },
    "Completing": OF_LEASED
    | {"Running": None, "Running, with words": None, "Completing": renewed({}), "exit code 0": DONE_AT_ONCE},
    "Stalled": OF_LEASED
    | beaten(to("Running", "Heartbeats resumed"), ("Running", "Heartbeats resumed", "Event 1"))
    | {
        "Running": renewed(to("Running", ""), ("Running", "", "Event 1")),
        "process died": given_back("The process died", died=True),
    },
    "Killed": OF_STOPPED
    | {
        "heartbeat, commands executed": Changes(MAXIMA, FINISHED | {"end_reason": "killed"}, (), LINES, ALL.split()),
        "exit code 0": over(LATE[0], commands=ALL),
        "exit code 1": over(LATE[1], commands=ALL),
        "not run": over(MAXIMA, commands=ALL, at_fault=True),
        "exit code 222": over(LATE[222], commands=ALL),
        "process died": over(MAXIMA | {"exit_code": 222}, commands=ALL, died=True),
    },
    "Rescheduled": OF_STOPPED
    | {
        "heartbeat, commands executed": REQUEUED._replace(lease=FINISHED | {"end_reason": "killed"}),
        "exit code 0": REQUEUED,
        "exit code 1": REQUEUED,
        "not run": REQUEUED._replace(lease=FINISHED | {"job_at_fault": True}),
        "exit code 222": REQUEUED,
        "process died": REQUEUED._replace(lease=FINISHED | {"died": True}),
    },
}

# ---- The test --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lease(settings: Settings) -> Match:
    """Lease of a job for which an output was uploaded; the clock stands still."""
    settings.WMS_RESCHEDULE_DELAY_S = 0
    stop_clock()
    job = make_job()
    offer = OfferRequest(cpu_time_s=300_000)
    match(offer, request_id=uuid4(), pilot_id=make_pilot(vo=job.vo).pk, max_jobs=1, chance=Random(1))
    sandbox = Sandbox.objects.create(digest="1" * 64, size_bytes=1, is_archive=True, created_at=NOW)
    SandboxUpload.objects.create(
        sandbox=sandbox, owner=job.owner, file_name=output_sandbox_name(job.pk), uploaded_at=NOW
    )
    return Match.objects.get()


def arrange(before: str) -> None:
    """Bring the rows into the state before the report; the pilot reported 10 s ago, and began 1000 s ago."""
    began_at, reported_at = (database_now() - timedelta(seconds=seconds) for seconds in (1000, 10))
    is_unreported = before == "Matched"
    Job.objects.update(
        status=before,
        minor_status="as before",
        application_status="Event 1",
        status_changed_at=began_at,
        matched_at=began_at,
        started_at=None if is_unreported else began_at,
        ended_at=began_at if before == "Killed" else None,
        heartbeat_at=reported_at,
        reschedules=int(before == "Rescheduled"),
        cpu_s=100.0,
        wall_s=200.0,
        max_memory_mb=300.0,
    )
    Match.objects.update(
        leased_at=began_at,
        expires_at=reported_at + timedelta(seconds=1800),
        reported_at=None if is_unreported else reported_at,
        reported_status={"Stalled": "Running", "Killed": "Running", "Rescheduled": "Running"}.get(before, before),
    )
    Pilot.objects.update(last_seen_at=began_at)
    for name in ALL.split() if before in {"Killed", "Rescheduled"} else ("drain", "peek"):
        JobCommand.objects.create(job=Job.objects.get(), name=name, created_at=began_at)


@contextmanager
def undone() -> Iterator[None]:
    before = transaction.savepoint()
    try:
        yield
    finally:
        transaction.savepoint_rollback(before)


def row(model: type[models.Model]) -> dict[str, object]:
    """Return the only row of a table; moments and the output in words."""
    now = database_now()
    words = {now: "now", now + timedelta(seconds=1800): "in 1800 s"}
    values = model._default_manager.values().get()
    shown = {name: words.get(value, value) if isinstance(value, datetime) else value for name, value in values.items()}
    if shown.get("output_sandbox_id") is not None:
        shown["output_sandbox_id"] = "the output"
    return shown


def test_each_report_changes_these_rows(lease: Match, subtests: pytest.Subtests) -> None:
    for before, expected in EXPECTED.items():
        assert expected.keys() == REPORTS.keys(), before
        for name, changes in expected.items():
            with subtests.test(f"{name} of a job that is {before}"), undone():
                arrange(before)
                check(lease, REPORTS[name], changes)


def check(lease: Match, send: Report, expected: Changes | None) -> None:
    job, its_lease, pilot = row(Job), row(Match), row(Pilot)
    last_line = JobHistory.objects.latest("pk").pk
    if expected is None:
        with pytest.raises(IllegalTransitionError):
            send(lease)
        expected = Changes({}, {})
    else:
        send(lease)
        pilot["last_seen_at"] = "now"
    assert row(Job) == job | expected.job
    assert row(Match) == its_lease | expected.lease
    assert row(Pilot) == pilot
    lines = JobHistory.objects.filter(pk__gt=last_line).order_by("pk")
    assert list(lines.values_list("status", "minor_status", "application_status")) == list(expected.history)
    assert {(line.source, line.changed_at) for line in lines} <= {(f"pilot {lease.pilot_id}", database_now())}
    acknowledged = JobCommand.objects.filter(acknowledged_at=database_now()).order_by("pk")
    assert list(acknowledged.values_list("name", flat=True)) == list(expected.acknowledged)
    assert list(OutputTail.objects.values_list("attempt", "std_output", "std_error")) == list(expected.tails)
    assert not UsageSamples.objects.exists()  # the step of the last report is not over
    assert QueuedJob.objects.filter(is_held_back=False).exists() == expected.is_queued
