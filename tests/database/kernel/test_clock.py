"""Times that are compared are those of the database's clock, whatever the clock of a machine says."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from celery.exceptions import Ignore
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.test import Client

from tests import factories
from tests.clock import pass_time
from wms.accounts.backends import SessionStore
from wms.celery import SteadyScheduler, app, expire_by_database
from wms.jobs.models import Job
from wms.kernel import clock, database_version
from wms.kernel.db import database_now
from wms.kernel.tokens import InvalidTokenError, TokenKind, read, sign
from wms.portal.notices import notices_of
from wms.schedule import BEAT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

ProcessClock = Callable[[], None]


def is_near(time: datetime, other: datetime) -> bool:
    """Return whether the difference of two times is not that of the clocks of these tests, which is an hour."""
    return abs(time - other) < timedelta(minutes=10)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> ProcessClock:
    """Return what lets this process be one that has just started."""

    def start() -> None:
        new = clock._Clock()
        for name in ("_read", "_read_again_at", "complaint"):
            monkeypatch.setattr(clock._clock, name, getattr(new, name))
        clock.start_clock()

    monkeypatch.setattr(database_version._watch, "_look_at", float("inf"))
    return start


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_process_an_hour_off_uses_the_time_of_the_database_and_says_so(
    start: ProcessClock, client: Client, hours: int, caplog: pytest.LogCaptureFixture
) -> None:
    pass_time(hours=hours)
    start()
    group = factories.make_group()
    alice = factories.make_user(groups=[group], default_group=group)
    token = factories.make_token(alice, expires_at=database_now() + timedelta(minutes=30))

    answer = client.post(
        "/api/v1/jobs/",
        {"executable": "/bin/true"},
        content_type="application/json",
        headers={"authorization": f"Bearer {token}"},
    )

    assert answer.status_code == 201, answer.content
    assert is_near(Job.objects.get().submitted_at, database_now())
    assert not is_near(clock.current_time(), datetime.now(UTC))
    assert f"is 3600.0 s {'behind' if hours > 0 else 'ahead of'} the database's" in clock.complaint_of_clock()
    assert [record.levelname for record in caplog.records if "clock.differs" in record.message] == ["WARNING"]
    assert client.get("/readyz").json()["clock"] == clock.complaint_of_clock()
    olga = factories.make_user(operator=True)
    seen_by = {
        user: [notice.text for notice in notices_of(user, groups=[group], is_invited=False, is_manager=False)]
        for user in (alice, olga)
    }
    assert clock.complaint_of_clock() in seen_by[olga]
    assert clock.complaint_of_clock() not in seen_by[alice]


def test_a_token_of_one_process_is_accepted_by_another_whose_machine_is_an_hour_off(start: ProcessClock) -> None:
    pass_time(hours=1)
    start()
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=clock.current_time() + timedelta(minutes=30))
    start()  # the other
    assert read(TokenKind.PILOT, token).claims == {"pilot": 7}
    pass_time(minutes=31)
    start()
    with pytest.raises(InvalidTokenError, match="expired"):
        read(TokenKind.PILOT, token)


def test_a_session_ends_by_the_clock_of_the_database(start: ProcessClock) -> None:
    pass_time(hours=1)
    start()
    session = SessionStore()
    session.create()
    ends_at = Session.objects.get().expire_date
    assert is_near(ends_at, database_now() + timedelta(seconds=session.get_session_cookie_age()))


def test_time_goes_on_while_the_database_is_away(start: ProcessClock, monkeypatch: pytest.MonkeyPatch) -> None:
    pass_time(hours=1)
    start()
    before = clock.current_time()
    monkeypatch.setattr(clock, "query_prepared", away)
    clock.start_clock()
    after = clock.current_time()
    assert before < after < before + timedelta(minutes=10)


def away(_statement: str) -> list[tuple[datetime]]:
    raise OperationalError


def test_a_small_difference_is_not_reported(start: ProcessClock) -> None:
    start()
    clock.current_time()
    assert clock.complaint_of_clock() == ""


def test_a_task_expires_by_the_clock_of_the_database(start: ProcessClock) -> None:
    done: list[str] = []

    @app.task(name="kernel.toy_of_clocks", lazy=False)
    def task() -> None:
        done.append("run")

    app.tasks.pop("kernel.toy_of_clocks")
    pass_time(hours=1)
    start()
    # By the clock of the machine that sends it, which is an hour behind that of the database.
    from_sender: dict[str, object] = {"expires": (datetime.now(UTC) + timedelta(seconds=60)).isoformat()}
    expire_by_database(headers=from_sender)
    assert from_sender.pop("expires") is None
    task.push_request(called_directly=False, **from_sender)
    task()
    pass_time(seconds=61)
    start()
    with pytest.raises(Ignore):
        task()
    assert done == ["run"]


def test_the_time_of_the_machine_is_used_for_a_second_at_most_after_the_database_is_back(
    start: ProcessClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_time(hours=1)
    start()
    elapsed_s = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: 1000.0 + elapsed_s[0])
    with monkeypatch.context() as outage:
        outage.setattr(clock, "query_prepared", away)
        assert is_near(clock.current_time(), datetime.now(UTC))
    elapsed_s[0] = 1.0
    assert is_near(clock.current_time(), database_now())


def test_beat_goes_on_though_its_clock_was_ahead_before(tmp_path: Path) -> None:
    file = str(tmp_path / "schedule")
    before = SteadyScheduler(app=app, schedule_filename=file)
    for entry in before.schedule.values():
        entry.last_run_at = app.now() + timedelta(hours=1)
    before.close()
    after = SteadyScheduler(app=app, schedule_filename=file)
    left_s = {name: after.schedule[name].is_due()[1] for name in BEAT}
    after.close()
    assert all(left_s[name] <= entry["schedule"] for name, entry in BEAT.items())


def test_a_step_of_the_clock_of_a_machine_is_none_of_beats(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stepped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return cls.fromtimestamp(datetime.now(tz).timestamp() - 3600, tz)

    monkeypatch.setattr("celery.app.base.datetime", Stepped)
    assert is_near(app.now(), datetime.now(UTC))
