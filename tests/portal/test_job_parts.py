"""The sentence and the timeline of a job, and charts, from rows that are in no database."""

import json
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from matching.models import Match
from resources.models import ComputingElement, Queue, Site
from tests.factories import NOW
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory
from wms.portal.presentation.charts import Axis, Chart, Look, Series
from wms.portal.presentation.job_sentence import Sentence, sentence_of
from wms.portal.presentation.job_tabs import Tab
from wms.portal.presentation.job_timeline import AttemptView, timeline_of

CERN = Site(name="LCG.CERN.ch")


def at(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def job_in(status: JobStatus, **columns: object) -> Job:
    return Job(pk=71, status=status, submitted_at=NOW, status_changed_at=NOW, **columns)


# ---- the sentence ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (
            job_in(JobStatus.RUNNING, site=CERN, started_at=NOW + at(60), heartbeat_at=NOW + at(760)),
            Sentence(text="Running at LCG.CERN.ch for 12 min", event="last heartbeat", at=NOW + at(760)),
        ),
        (
            job_in(
                JobStatus.FAILED,
                started_at=NOW,
                ended_at=NOW + at(180),
                exit_code=2,
                minor_status="Exited with code 2",
            ),
            Sentence(text="Failed after 3 min: exited with code 2", event="ended", at=NOW + at(180), see=Tab.ERRORS),
        ),
        (
            job_in(JobStatus.FAILED, ended_at=NOW + at(30), minor_status="LCG.CERN.ch lost it"),
            Sentence(
                text="Failed after it had waited for 30 s: LCG.CERN.ch lost it",
                event="ended",
                at=NOW + at(30),
                see=Tab.HISTORY,
            ),
        ),
        (job_in(JobStatus.WAITING), Sentence(text="Waiting for 13 min. It waits because it does.")),
        (
            job_in(JobStatus.KILLED, started_at=NOW, ended_at=NOW + at(5), minor_status="Killed by alice"),
            Sentence(text="Killed by alice after 5 s", event="ended", at=NOW + at(5)),
        ),
    ],
)
def test_the_sentence_describes_the_status_of_the_job(job: Job, expected: Sentence) -> None:
    assert (
        sentence_of(job, why="It waits because it does." if job.status == "Waiting" else "", now=NOW + at(780))
        == expected
    )


@pytest.mark.parametrize("status", JobStatus)
def test_every_status_has_a_sentence(status: JobStatus) -> None:
    assert sentence_of(job_in(status), why="", now=NOW).text.strip()


# ---- the timeline ----------------------------------------------------------------------------------------------------


def history_of(*changes: tuple[float, JobStatus]) -> list[JobHistory]:
    return [
        JobHistory(changed_at=NOW + at(seconds), status=status, minor_status=f"at {seconds:g}")
        for seconds, status in changes
    ]


def lease_at(seconds: float, *, queue: str) -> Match:
    ce = ComputingElement(name="ce01", site=CERN)
    return Match(pk=uuid4(), leased_at=NOW + at(seconds), queue=Queue(name=queue, ce=ce))


def steps_of(attempt: AttemptView) -> Sequence[tuple[str, float | None]]:
    return [(step.label, step.after_s) for step in attempt.steps]


def test_an_attempt_ends_when_the_job_is_rescheduled_and_the_next_begins_when_it_waits_again() -> None:
    history = history_of(
        (0, JobStatus.RECEIVED),
        (1, JobStatus.WAITING),
        (50, JobStatus.MATCHED),
        (54, JobStatus.RUNNING),
        (70, JobStatus.STALLED),
        (80, JobStatus.RUNNING),
        (100, JobStatus.RESCHEDULED),
        (101, JobStatus.WAITING),
        (110, JobStatus.MATCHED),
        (112, JobStatus.RUNNING),
        (200, JobStatus.COMPLETING),
        (203, JobStatus.DONE),
        (900, JobStatus.DELETED),
    )
    leases = [lease_at(50, queue="short"), lease_at(110, queue="long")]
    newest, first = timeline_of(
        job_in(JobStatus.DELETED, reschedules=1), history=history, leases=leases, now=NOW + at(1000)
    )
    assert (first.number, first.place, first.reason) == (1, "LCG.CERN.ch / ce01 / short", "at 100")
    assert steps_of(first) == [("Submitted", None), ("Matched", 50), ("Started", 4), ("Rescheduled", 46)]
    assert (newest.number, newest.place, newest.reason) == (2, "LCG.CERN.ch / ce01 / long", "at 203")
    assert steps_of(newest) == [
        ("Waiting again", None),
        ("Matched", 9),
        ("Started", 2),
        ("Payload ended", 88),
        ("Done", 3),
    ]
    assert [(part.kind, part.count) for part in newest.segments] == [
        ("waiting", 9),
        ("held", 2),
        ("done", 88),
        ("running", 3),
    ]


def test_an_unended_attempt_lasts_until_now() -> None:
    history = history_of((0, JobStatus.WAITING), (50, JobStatus.MATCHED), (54, JobStatus.RUNNING))
    (attempt,) = timeline_of(job_in(JobStatus.RUNNING), history=history, leases=[], now=NOW + at(114))
    assert [(part.kind, part.count) for part in attempt.segments] == [("waiting", 50), ("held", 4), ("running", 60)]
    assert attempt.reason == ""


def test_a_job_without_history_has_the_times_of_its_row() -> None:
    job = job_in(JobStatus.FAILED, matched_at=NOW + at(5), ended_at=NOW + at(9), minor_status="lost")
    (attempt,) = timeline_of(job, history=[], leases=[], now=NOW + at(100))
    assert steps_of(attempt) == [("Submitted", None), ("Matched", 5), ("Failed", 4)]


def test_attempts_are_numbered_from_the_last_if_the_history_is_cut() -> None:
    history = history_of(
        (0, JobStatus.RUNNING), (1, JobStatus.RESCHEDULED), (2, JobStatus.WAITING), (3, JobStatus.MATCHED)
    )
    views = timeline_of(job_in(JobStatus.MATCHED, reschedules=7), history=history, leases=[], now=NOW + at(4))
    assert [view.number for view in views] == [8, 7]


# ---- charts ----------------------------------------------------------------------------------------------------------


def test_a_chart_has_data_for_the_script_and_a_table() -> None:
    chart = Chart(
        id="jobs",
        title="Jobs",
        axis=Axis.TIME,
        at=[0, 3600],
        series=[
            Series(label="Running", unit="", values=[1234.5, None]),
            Series(label="Memory", unit="MB", values=[float("nan"), 2], look=Look.BARS),
        ],
        is_stacked=True,
    )
    data = json.loads(chart.data)
    assert (data["x"], data["at"], data["stacked"]) == ("time", [0, 3600], True)
    assert [series["values"] for series in data["series"]] == [[1234.5, None], [None, 2]]
    assert data["series"][1]["look"] == "bars"
    assert chart.headings == ["Time (UTC)", "Running", "Memory (MB)"]
    assert chart.rows[0][:2] == ["1970-01-01 00:00", "1,234.5"]
    assert chart.rows[1] == ["1970-01-01 01:00", "–", "2"]
