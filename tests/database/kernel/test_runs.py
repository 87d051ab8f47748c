"""The last run of each periodic task is remembered by its worker, and stored by the worker's report."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from celery import Task
from celery.exceptions import Ignore
from django.db import DataError, connection, transaction
from django.test.utils import CaptureQueriesContext

from wms.celery import app
from wms.jobs.tasks import send_notices
from wms.kernel import liveness
from wms.kernel.clock import current_time
from wms.kernel.models import Liveness
from wms.kernel.runs import Run, Runs

pytestmark = pytest.mark.django_db

TASK = send_notices.name
PERIOD_S = 60


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Return the memory of a worker that has just started."""
    runs = Runs()
    monkeypatch.setattr("wms.celery.runs", runs)
    monkeypatch.setattr("wms.kernel.liveness.runs", runs)
    return runs


@pytest.fixture
def execute(worker: Runs, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what runs a function as a periodic task, as if beat had sent it some seconds ago."""
    task: Task = app.tasks[TASK]

    def execute(function: Callable[[], object], *, sent_s: float = 0) -> None:
        monkeypatch.setattr(task, "run", function)
        expires_at = current_time() + timedelta(seconds=PERIOD_S - sent_s)
        task.push_request(called_directly=False, expires_by_database=expires_at.isoformat())
        try:
            task()
        finally:
            task.pop_request()

    return execute


def stored(name: str = liveness.BEAT) -> Run:
    """Return the last run that is stored after a report."""
    liveness.report(name)
    return liveness.reports()[name].runs[TASK]


def fail(text: str) -> None:
    raise ValueError(text)


def test_a_run_is_stored_with_its_times_and_its_lateness(execute: Callable[..., None]) -> None:
    before = current_time()
    execute(lambda: None, sent_s=30)
    run = stored()

    assert isinstance(run.started_at, datetime)
    assert before <= run.started_at <= (run.ended_at or before) <= current_time()
    assert 0 <= run.duration_s <= (current_time() - before).total_seconds()
    assert 30 <= run.lateness_s < 60
    assert (run.failing_since, run.error) == (None, "")


def test_failures_are_counted_from_the_first_of_them_until_a_run_succeeds(execute: Callable[..., None]) -> None:
    with pytest.raises(ValueError, match="first"):
        execute(lambda: fail("first"))
    first = stored()
    with pytest.raises(ValueError, match="second"):
        execute(lambda: fail("second of postgres://wms:hunter2@db/wms"))
    second = stored()

    assert first.failing_since == first.started_at == second.failing_since
    assert second.started_at != first.started_at
    assert second.error == "ValueError: second of postgres://[masked]@db/wms"
    execute(lambda: None)
    assert (stored().failing_since, stored().error) == (None, "")


def test_a_run_that_has_not_ended_is_stored(execute: Callable[..., None]) -> None:
    during: list[Run] = []
    execute(lambda: during.append(stored()))
    assert during[0].started_at is not None
    assert during[0].ended_at is None


def test_a_run_that_is_ignored_is_none(execute: Callable[..., None], worker: Runs) -> None:
    with pytest.raises(Ignore):
        execute(lambda: None, sent_s=PERIOD_S)  # it has expired
    assert worker.unstored() == ({}, {})


def test_a_report_is_one_statement_and_leaves_what_is_stored(execute: Callable[..., None], worker: Runs) -> None:
    execute(lambda: None)
    run = stored()
    with CaptureQueriesContext(connection) as captured:
        liveness.report(liveness.BEAT)
    assert len(captured) == 1
    assert liveness.reports()[liveness.BEAT].runs == {TASK: run}
    assert worker.unstored() == ({}, {})


def test_a_task_that_never_ran_is_known_since_it_was_expected(execute: Callable[..., None], worker: Runs) -> None:
    worker.expect([TASK, "other"])
    expected = stored()
    assert expected.started_at is None
    worker.expect([TASK, "other"])  # the worker was restarted
    assert stored() == expected
    execute(lambda: None)
    assert stored().started_at is not None
    worker.expect([TASK])
    assert stored().started_at is not None


def test_a_report_that_fails_is_made_up_for(
    execute: Callable[..., None], worker: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(lambda: None)
    with monkeypatch.context() as outage:
        outage.setattr("wms.kernel.liveness._REPORT", "SELECT 1/0")
        with pytest.raises(DataError), transaction.atomic():
            liveness.report(liveness.BEAT)
    assert stored().started_at is not None


def test_rows_of_an_earlier_version_have_no_runs() -> None:
    Liveness.objects.create(name="beat", reported_at=current_time())
    assert liveness.reports()["beat"].runs == {}
