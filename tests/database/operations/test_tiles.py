"""Tiles of the Operations page: each is red for its cause, and green without it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event

import psycopg
import pytest
from django.db import connection
from pytest_django import Settings

from pilots.models import CEHealth, DirectorRun
from resources.domain.enums import ResourceState, ThrottlePolicy, WhenExpired
from resources.models import ComputingElement, ThrottleState
from taskqueues.models import Limit
from taskqueues.services.index.shared import index
from tests.factories import make_black_hole, make_ce, make_group, make_job, make_throttled_site, make_vo
from tests.pace import within
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel import liveness
from wms.kernel.clock import current_time
from wms.kernel.liveness import LivenessReport
from wms.kernel.runs import Run
from wms.operations import database, grid_tiles, part_tiles, server_tiles, tiles
from wms.operations.database import Transaction
from wms.operations.disks import Disk
from wms.operations.models import LastBackup
from wms.operations.parts import PartState, ProcessState
from wms.operations.tile import Tile

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def assert_red(tile: Tile, *words: str) -> None:
    assert not tile.is_well
    assert tile.to_do.endswith((".", ")", ";"))
    said = " ".join([tile.text, *tile.lines])
    assert [word for word in words if word not in said] == []


def assert_green(tile: Tile) -> None:
    assert tile.is_well, tile
    assert tile.to_do == ""


# ---- database, broker, volumes, clock, versions ----------------------------------------------------------------------


def test_connections_are_red_when_nearly_all_are_taken() -> None:
    assert_green(server_tiles.connections_tile({"wms-web": 16, "": 1}, most=97))
    assert_red(server_tiles.connections_tile({"wms-web": 80, "": 8}, most=97), "88 of 97", "wms-web: 80", "a name: 8")


def test_a_transaction_that_is_open_for_too_long_is_red(other: psycopg.Connection) -> None:
    assert_green(server_tiles.transaction_tile(database.longest_transaction(), now=NOW))
    other.execute("SELECT 1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
    stuck = database.longest_transaction()
    assert_green(server_tiles.transaction_tile(stuck, now=NOW))
    assert_red(
        server_tiles.transaction_tile(stuck, now=NOW, most_s=0), "wms-other", f"process {other.info.backend_pid}"
    )
    red = server_tiles.transaction_tile(Transaction(601, "", 7), now=NOW)
    assert red.since == ago(601)


def test_dead_rows_are_red_when_nothing_removes_them() -> None:
    assert_green(server_tiles.dead_rows_tile({"jobs_job": 900, "matching_match": 5}))
    assert_red(server_tiles.dead_rows_tile({"jobs_job": 900, "matching_match": 5}, most=800), "905", "jobs_job: 900")


def test_a_backup_is_red_when_there_were_some_and_the_last_one_is_old() -> None:
    assert_green(server_tiles.backup_tile(now=NOW))
    last = LastBackup.objects.create(finished_at=ago(30 * 3600))
    assert_green(server_tiles.backup_tile(now=NOW))
    last.finished_at = ago(3 * 24 * 3600)
    last.save()
    red = server_tiles.backup_tile(now=NOW)
    assert_red(red, "3 d")
    assert red.since == last.finished_at


def test_a_broker_that_is_away_is_red(settings: Settings, tmp_path: Path) -> None:
    assert_green(server_tiles.broker_tile())
    away = {**settings.CACHES["rates"], "LOCATION": f"unix://{tmp_path}/away"}
    settings.CACHES = {**settings.CACHES, "rates": away}
    assert_red(server_tiles.broker_tile(), "does not answer")


def test_a_disk_is_red_when_little_of_it_is_free_or_it_does_not_answer() -> None:
    terabyte = Disk(path="/data", free_bytes=60 * 10**9, total_bytes=10**12)
    (roomy,) = server_tiles.disk_tiles([terabyte])
    assert_green(roomy)
    (full,) = server_tiles.disk_tiles([terabyte], least_free=0.1)
    assert_red(full, "60 GB of 1 TB free (6%)")
    (small,) = server_tiles.disk_tiles([Disk(path="/data", free_bytes=2 * 10**9, total_bytes=4 * 10**9)])
    assert_red(small, "2 GB of 4 GB")
    (silent,) = server_tiles.disk_tiles(None)
    assert_red(silent, "does not answer")


def test_a_question_that_hangs_is_asked_once_and_not_waited_for() -> None:
    asked: list[Event] = []
    answers = Event()

    def ask() -> int:
        asked.append(answers)
        answers.wait(within(60))
        return 7

    question = tiles.Question(ask)
    assert question.answer(0.01) is None
    assert question.answer(0.01) is None
    assert len(asked) == 1
    answers.set()
    assert question.answer(within(60)) == 7


def test_clock_and_versions_are_red_with_their_complaints(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_green(server_tiles.clock_tile())
    assert_green(server_tiles.version_tile())
    complaint = "The clock of this machine is 3.0 s ahead of the database's: synchronise it."
    monkeypatch.setattr("wms.operations.server_tiles.complaint_of_clock", lambda: complaint)
    assert_red(server_tiles.clock_tile(), "3.0 s ahead")
    refusal = "This program, version 0.1.0, is older than the database: start that one."
    monkeypatch.setattr("wms.operations.server_tiles.refusal_of_running", lambda: refusal)
    assert_red(server_tiles.version_tile(), "database migrated by")


# ---- parts, reports, index, tasks ------------------------------------------------------------------------------------


def part(**state: object) -> PartState:
    usual: dict[str, object] = {
        "name": "sites", "running_s": 100.0, "hangs_s": 0.0, "restarts": 0, "restarts_lately": 0, "last_reason": "",
        "processes": [ProcessState(pid=7, silent_s=10.0)], "left": [],
    }  # fmt: skip
    return PartState(**{**usual, **state})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("state", "since_s", "words"),
    [
        ({"running_s": None, "last_reason": "ended with exit code 1"}, None, "ended with exit code 1"),
        ({"hangs_s": 25.0}, 25, "does not work"),
        ({"processes": [ProcessState(pid=7, silent_s=0.0), ProcessState(pid=8, silent_s=40.0)]}, 40, "process 8"),
        ({"left": [8, 9], "restarts": 3}, 100, "(8, 9)"),
        ({"restarts": 5, "restarts_lately": 3, "last_reason": "ended with signal SIGKILL"}, 100, "5 times"),
    ],
)
def test_a_part_is_red_that_has_ended_or_hangs(state: dict[str, object], since_s: float | None, words: str) -> None:
    tile = part_tiles.part_tile(part(**state), now=NOW)
    assert_red(tile, words)
    assert tile.name == "Worker sites"
    assert tile.since == (None if since_s is None else ago(since_s))


def test_a_part_that_works_is_green_also_after_a_restart() -> None:
    restarted = part(restarts=1, restarts_lately=1, last_reason="ended with exit code 1")
    tile = part_tiles.part_tile(restarted, now=NOW)
    assert_green(tile)
    assert tile.text == "works; started again once; last reason: ended with exit code 1"
    assert tile.since == ago(100)


def test_reports_that_have_stopped_are_red() -> None:
    works, stopped = LivenessReport(ago(20), {}), LivenessReport(ago(61), {})
    beat, sites = part_tiles.report_tiles({liveness.BEAT: stopped, liveness.SITES: works}, now=NOW)
    assert_red(beat, "have stopped")
    assert beat.since == ago(61)
    assert_green(sites)
    assert_red(part_tiles.report_tiles({}, now=NOW)[0], "none has arrived yet")


def test_an_index_that_cannot_be_read_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_green(part_tiles.index_tile())
    monkeypatch.setattr(index, "_failure", psycopg.OperationalError("away"))
    assert_red(part_tiles.index_tile(), "OperationalError")


@pytest.mark.parametrize(
    ("run", "since_s", "words"),
    [
        (Run(started_at=ago(241), ended_at=ago(240)), 241, "is late"),
        (Run(started_at=ago(241)), 241, "has not ended"),
        (Run(expected_at=ago(241)), 241, "has never run"),
        (Run(started_at=ago(5), failing_since=ago(500), error="ValueError: no"), 500, "ValueError: no"),
    ],
)
def test_a_task_is_red_that_is_late_or_fails(run: Run, since_s: float, words: str) -> None:
    tile = part_tiles.task_tile("jobs.send_notices", run, period_s=60, now=NOW)
    assert_red(tile, words)
    assert tile.since == ago(since_s)


@pytest.mark.parametrize("run", [Run(started_at=ago(239)), Run(expected_at=ago(239)), Run()])
def test_a_task_is_green_within_three_periods_and_a_minute(run: Run) -> None:
    assert_green(part_tiles.task_tile("jobs.send_notices", run, period_s=60, now=NOW))


def test_tasks_in_trouble_come_first_and_the_latest_report_of_a_task_counts() -> None:
    task, other = "jobs.send_notices", "jobs.add_counts"
    reports = {
        "beat": LivenessReport(NOW, {task: Run(started_at=ago(10)), other: Run(started_at=ago(900))}),
        # It was started after the last runs of both.
        "sites": LivenessReport(NOW, {task: Run(expected_at=ago(5)), other: Run(expected_at=ago(5))}),
    }
    listed = part_tiles.task_tiles(reports, now=NOW)
    assert [(tile.name, tile.is_well) for tile in listed][:2] == [
        (other, False),
        ("accounts.remove_expired_invitations", True),
    ]
    assert next(tile for tile in listed if tile.name == task).is_well


# ---- the way of jobs to resources ------------------------------------------------------------------------------------


def test_directors_without_a_cycle_are_red() -> None:
    now = current_time()
    assert_green(grid_tiles.directors_tile(now=now))
    DirectorRun.objects.create(pk=1, ran_at=now, running_since=now)
    assert_green(grid_tiles.directors_tile(now=now))
    tile = grid_tiles.directors_tile(now=now + timedelta(hours=1))
    assert_red(tile, "no cycle")
    assert tile.since == now


def test_a_computing_element_that_fails_is_red_unless_it_is_closed() -> None:
    ce = make_ce(name="ce.cern.ch")
    health = CEHealth.objects.create(ce=ce, asked_at=ago(600))
    assert_green(grid_tiles.ces_tile(now=NOW))
    CEHealth.objects.update(failures=2, trouble="ssh: no route to host")
    tile = grid_tiles.ces_tile(now=NOW)
    assert_red(tile, "1 fails", "ce.cern.ch", "no route")
    assert (tile.since, tile.may_ask_again) == (health.asked_at, True)
    ComputingElement.objects.update(state=ResourceState.BANNED)
    assert_green(grid_tiles.ces_tile(now=NOW))


def test_a_black_hole_is_red_until_it_is_over() -> None:
    assert_green(grid_tiles.black_holes_tile(now=NOW))
    hole = make_black_hole(host_name="node7", found_at=ago(60))
    tile = grid_tiles.black_holes_tile(now=NOW)
    assert_red(tile, "1 host gets", "node7", "11 of the 12 jobs")
    assert tile.since == hole.found_at
    assert_green(grid_tiles.black_holes_tile(now=hole.until))


def test_a_throttle_is_red_that_expired_or_is_closed_though_no_job_is_there() -> None:
    now = current_time()
    site = make_throttled_site(name="LCG.CERN.ch", policy=ThrottlePolicy.MATCHES, max_matches=0)
    state = ThrottleState.objects.create(
        site=site,
        version=0,
        advertised={"CurMatches": 0},
        matched=0,
        measured_at=now,
        expires_at=now + timedelta(hours=1),
    )
    tile = grid_tiles.throttles_tile(now=now)
    assert_red(tile, "1 of 1", "LCG.CERN.ch", "no room")
    assert tile.since == state.measured_at
    make_job(status=JobStatus.RUNNING, site=site)
    assert_green(grid_tiles.throttles_tile(now=now))  # full of our own jobs
    site.throttle_when_expired = WhenExpired.CLOSED
    site.save()
    tile = grid_tiles.throttles_tile(now=state.expires_at)
    assert_red(tile, "expired")
    assert tile.since == state.expires_at


def test_a_throttle_of_a_site_that_never_advertised_is_red_if_its_maximum_is_zero() -> None:
    make_throttled_site(name="LCG.CERN.ch", policy=ThrottlePolicy.LEVEL2, max_jobs=0)
    make_throttled_site(policy=ThrottlePolicy.MATCHES, max_matches=1, max_jobs=0)  # of another policy
    make_throttled_site(policy=ThrottlePolicy.CUSTOM, requirements="CurMatches < 5", max_matches=0)
    assert_red(grid_tiles.throttles_tile(now=current_time()), "1 of 3", "LCG.CERN.ch: MaxJobs is 0")


def test_a_limit_of_zero_is_red_if_it_closes_a_vo() -> None:
    vo = make_vo(name="lhcb")
    Limit.objects.create(vo=vo, group=make_group(vo=vo), running=0)
    Limit.objects.create(vo=vo, running=5)
    assert_green(grid_tiles.limits_tile())
    Limit.objects.create(vo=vo, running=0, waiting=10)
    assert_red(grid_tiles.limits_tile(), "1 on a whole VO; 1 on a part", "jobs of the VO lhcb: running 0")


def test_a_pause_is_red_until_its_end() -> None:
    make_vo(name="atlas")
    VO.objects.filter(pk=make_vo(name="lhcb").pk).update(
        paused_until=NOW + timedelta(hours=1), pause_reason="storage is full"
    )
    assert_red(grid_tiles.pauses_tile(now=NOW), "1 VO paused", "lhcb is paused until 2026-12-01 13:00 UTC: storage")
    assert_green(grid_tiles.pauses_tile(now=NOW + timedelta(hours=1)))


# ---- all of them -----------------------------------------------------------------------------------------------------


def test_tiles_in_trouble_come_first() -> None:
    make_black_hole(found_at=current_time())
    listed = tiles.all_tiles(now=current_time()).tiles
    assert [tile.is_well for tile in listed] == sorted(tile.is_well for tile in listed)
    assert "Black holes" in {tile.name for tile in listed if not tile.is_well}


def test_a_database_that_does_not_answer_is_red_and_not_waited_for(
    other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "STATEMENT_WITHIN_S", 0.1)
    other.execute("LOCK TABLE pilots_cehealth")
    listed, tasks = tiles.all_tiles(now=current_time())
    assert_red(next(tile for tile in listed if tile.name == "Database"), "statement timeout")
    assert "Broker" in {tile.name for tile in listed}
    assert tasks == []
