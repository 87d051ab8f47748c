"""The accounting: starts, ends and usage from the stream of changes, levels from the counters (ADR 64)."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Sum
from pytest_django import Settings

from resources.models import Site
from tests import factories
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Grouping, Span, UnmatchedCount, Width
from wms.jobs.domain.data import WAITS_FOR_REPLICAS, WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import Accounting, Job, JobBucket, JobBucketPeriod, JobBucketSum, JobHistory
from wms.jobs.queries import accounting as queries
from wms.jobs.queries import changes
from wms.jobs.queries.accounting import Sums
from wms.jobs.services import bulk, transitions
from wms.jobs.services.accounting import account
from wms.jobs.sql.accounting import forget_other_server

# A position is a snapshot, in which a test's own transaction would not be visible.
pytestmark = pytest.mark.django_db(transaction=True)

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)  # a Wednesday
HOUR = Span(width=Width.HOUR, first=NOON, last=NOON)
COUNTED = ("started", "done", "failed", "killed")
NAME_BY = {
    Grouping.SITE: "site__name",
    Grouping.USER: "owner__username",
    Grouping.GROUP: "group__name",
    Grouping.JOB_TYPE: "job_type",
}


def move(job: Job, *statuses: JobStatus, at: datetime = NOON) -> None:
    for status in statuses:
        with transaction.atomic():
            transitions.move(job.pk, status=status, source="test", now=at)


def matched(**properties: Any) -> Job:
    """Return a job that a pilot has just got."""
    return factories.make_job(status=JobStatus.MATCHED, **properties)


def totals(width: Width = Width.HOUR, names: Collection[str] = COUNTED) -> dict[datetime, tuple[Any, ...]]:
    """Return the sums of all buckets of a width that are not all 0, by begin."""
    rows = JobBucket.objects.filter(width_s=width).values_list("begun_at").annotate(*[Sum(name) for name in names])
    return {begin: tuple(sums) for begin, *sums in rows.order_by("begun_at") if any(sums)}


def test_the_first_run_starts_the_accounting_without_past_jobs() -> None:
    move(matched(), JobStatus.RUNNING, JobStatus.DONE)
    assert queries.state() is None
    assert account(now=NOON) is True
    assert totals() == {}
    state = queries.state()
    assert state is not None
    assert (state.began_at, state.runs, queries.runs()) == (NOON, 1, 1)


@pytest.mark.parametrize("has_jobs", [False, True])
def test_a_new_server_accounts_for_its_first_jobs_and_none_for_those_of_before(
    has_jobs: bool,
    settings: Settings,
    tmp_path: Path,
) -> None:
    settings.WMS_ID_MARK_DIR = tmp_path
    if has_jobs:
        move(matched(), JobStatus.RUNNING, JobStatus.DONE)
    call_command("migrate", "--keep-id-mark", verbosity=0)
    move(matched(), JobStatus.RUNNING, JobStatus.DONE)
    account(now=NOON)
    assert totals() == ({} if has_jobs else {NOON: (1, 1, 0, 0)})


def test_starts_and_ends_are_in_their_hour_day_and_week_once() -> None:
    account(now=NOON)
    late, early = NOON + timedelta(minutes=59), NOON - timedelta(hours=13)
    move(matched(), JobStatus.RUNNING, JobStatus.DONE, at=late)
    move(matched(), JobStatus.RUNNING, JobStatus.FAILED, at=early)
    move(factories.make_job(status=JobStatus.HELD), JobStatus.KILLED, at=early)
    for _ in range(2):
        account(now=NOON)
    assert totals() == {early.replace(minute=0): (1, 0, 1, 1), NOON: (1, 1, 0, 0)}
    wednesday = NOON.replace(hour=0)
    assert totals(Width.DAY) == {wednesday - timedelta(days=1): (1, 0, 1, 1), wednesday: (1, 1, 0, 0)}
    assert totals(Width.WEEK) == {wednesday - timedelta(days=2): (2, 1, 1, 1)}
    # Later ones are added to the same rows.
    move(matched(), JobStatus.RUNNING, at=late)
    account(now=NOON)
    assert totals()[NOON] == (2, 1, 0, 0)


def test_history_of_a_restored_server_is_not_counted_again() -> None:
    account(now=NOON)
    move(matched(), JobStatus.RUNNING)
    restored, own = JobHistory.objects.get(), matched()
    # Far enough not to be reached meanwhile by transactions of other databases of the server, which are counted too.
    coming = changes.now().end + 1000
    JobHistory.objects.filter(pk=restored.pk).update(transaction_number=coming)
    Accounting.objects.update(seen="4000000:4000000:")
    with transaction.atomic():
        transitions.move(own.pk, status=JobStatus.RUNNING, source="test", now=NOON)
        # As a run that takes its snapshot while this transaction is at work.
        forget_other_server(end=changes.now().first)
        assert dict(JobHistory.objects.values_list("job_id", "transaction_number"))[own.pk] is not None
    account(now=NOON)
    restored.refresh_from_db()
    assert restored.transaction_number is None
    while changes.now().end <= coming:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")
    move(matched(), JobStatus.FAILED)
    account(now=NOON)
    assert totals()[NOON][0] == 0


def test_a_revived_stalled_job_is_not_counted_as_a_start() -> None:
    account(now=NOON)
    job = matched()
    move(job, JobStatus.RUNNING, JobStatus.STALLED, JobStatus.RUNNING, JobStatus.STALLED)
    account(now=NOON)
    move(job, JobStatus.RUNNING)
    with transaction.atomic():
        transitions.remark([job.pk], minor="Uploading", source="x", now=NOON, only_from={JobStatus.RUNNING})
    account(now=NOON)
    assert totals() == {NOON: (1, 0, 0, 0)}


def test_each_attempt_is_a_start_and_each_end_of_a_job_is_an_end() -> None:
    account(now=NOON)
    job = matched()
    move(job, JobStatus.RUNNING, JobStatus.FAILED, JobStatus.RESCHEDULED)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.MATCHED)
    # As the claim writes it.
    with transaction.atomic():
        transitions.note_edit(Job.objects.get(pk=job.pk), fields=[], source="matcher", now=NOON)
    move(job, JobStatus.RUNNING, JobStatus.FAILED)
    account(now=NOON)
    assert totals() == {NOON: (2, 0, 2, 0)}


def test_usage_is_that_of_jobs_that_ended_by_processors_and_in_the_bucket_of_their_kind() -> None:
    account(now=NOON)
    site = factories.make_site(name="CERN")
    job, other = matched(site=site, processors=4, job_type="MC"), matched(site=site)
    for each in (job, other):
        Job.objects.filter(pk=each.pk).update(cpu_s=300.0, wall_s=100.0)
    move(job, JobStatus.RUNNING, JobStatus.DONE)
    move(other, JobStatus.RUNNING)
    account(now=NOON)
    bucket = JobBucket.objects.get(width_s=Width.HOUR, owner=job.owner)
    assert (bucket.cpu_s, bucket.wall_s) == (300.0, 400.0)
    assert (bucket.vo, bucket.group, bucket.site, bucket.job_type) == (job.vo, job.group, site, "MC")
    assert totals(names=["cpu_s", "wall_s"]) == {NOON: (300.0, 400.0)}


def test_levels_are_sampled_every_ten_minutes_by_reason() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])

    def make(count: int, status: JobStatus, minor: str = "") -> None:
        for _ in range(count):
            job = factories.make_job(owner=alice, group=group, status=status)
            Job.objects.filter(pk=job.pk).update(minor_status=minor)

    make(1, JobStatus.WAITING)
    make(2, JobStatus.CHECKING, WAITS_FOR_ROOM)
    make(3, JobStatus.CHECKING, WAITS_FOR_REPLICAS)
    make(4, JobStatus.HELD)
    make(5, JobStatus.RUNNING)
    make(1, JobStatus.STALLED)
    make(1, JobStatus.DONE)
    levels = ("running", "waiting", "waiting_for_data", "waiting_for_room", "held")
    for minute in (0, 5, 9):
        account(now=NOON + timedelta(minutes=minute))
    assert totals(names=levels) == {NOON: (6.0, 1.0, 3.0, 2.0, 4.0)}
    account(now=NOON + timedelta(minutes=10))
    account(now=NOON + timedelta(hours=1))
    assert totals(names=levels)[NOON] == (12.0, 2.0, 6.0, 4.0, 8.0)
    assert totals(Width.DAY, names=levels) == {NOON.replace(hour=0): (18.0, 3.0, 9.0, 6.0, 12.0)}
    samples = JobBucketPeriod.objects.filter(width_s=Width.HOUR).order_by("begun_at")
    assert list(samples.values_list("samples", flat=True)) == [2, 1]


def test_jobs_that_no_queue_fits_are_counted_separately() -> None:
    group, other = factories.make_group(), factories.make_group()
    alice = factories.make_user(groups=[group, other])
    for of_group, job_type, count in ((group, "User", 3), (group, "MC", 2), (other, "User", 1)):
        for _ in range(count):
            factories.make_job(owner=alice, group=of_group, job_type=job_type)
    factories.make_job(owner=alice, group=other, status=JobStatus.RUNNING, job_type="MC")
    asked: list[datetime] = []

    def count_unmatched(now: datetime) -> list[UnmatchedCount]:
        asked.append(now)
        kinds = ((group, "User", 2), (group, "MC", 9), (other, "MC", 1))
        return [
            UnmatchedCount(owner_id=alice.pk, group_id=of_group.pk, job_type=job_type, jobs=jobs)
            for of_group, job_type, jobs in kinds
        ]

    for minute in (0, 5):
        account(now=NOON + timedelta(minutes=minute), count_unmatched=count_unmatched)
    # Only when levels are sampled.
    assert asked == [NOON]
    rows = JobBucket.objects.filter(width_s=Width.HOUR, running=0)
    assert set(rows.values_list("group", "job_type", "waiting", "waiting_unmatched")) == {
        (group.pk, "User", 1, 2),
        (group.pk, "MC", 0, 2),
        (other.pk, "User", 1, 0),
    }


def test_running_jobs_are_split_by_site_and_type_whose_sums_are_exact() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    cern, pic = factories.make_site(name="CERN"), factories.make_site(name="PIC")
    for site, job_type, count in ((cern, "MC", 3), (cern, "User", 1), (pic, "User", 2)):
        for _ in range(count):
            factories.make_job(owner=alice, group=group, status=JobStatus.RUNNING, site=site, job_type=job_type)
    account(now=NOON)
    rows = JobBucket.objects.filter(width_s=Width.HOUR)

    def by(column: str) -> dict[object, float]:
        return dict(rows.values_list(column).annotate(Sum("running")).order_by())

    assert by("site__name") == {"CERN": pytest.approx(4), "PIC": pytest.approx(2)}
    assert by("job_type") == {"MC": pytest.approx(3), "User": pytest.approx(3)}


def test_old_hours_are_removed_and_days_and_weeks_are_kept_longer(settings: Settings) -> None:
    settings.WMS_ACCOUNTING_HOURS_S, settings.WMS_ACCOUNTING_DAYS_S = 3600, 30 * 86400
    factories.make_job()
    account(now=NOON)
    account(now=NOON + timedelta(days=1))
    for rows, of_one in ((JobBucket.objects, 1), (JobBucketSum.objects, len(Grouping))):
        assert {width: rows.filter(width_s=width).count() // of_one for width in Width} == {
            Width.HOUR: 1,
            Width.DAY: 2,
            Width.WEEK: 1,
        }
    account(now=NOON + timedelta(days=40))
    assert JobBucket.objects.count() == JobBucketPeriod.objects.count() == len(Width)
    assert JobBucketSum.objects.count() == len(Width) * len(Grouping)


def test_accounting_restarts_after_a_reset_of_transaction_numbers() -> None:
    account(now=NOON)
    Accounting.objects.update(seen="9000000000:9000000000:")
    move(matched(), JobStatus.RUNNING)
    account(now=NOON)
    move(matched(), JobStatus.RUNNING)
    account(now=NOON)
    assert totals() == {NOON: (1, 0, 0, 0)}


def test_after_an_error_the_next_run_counts_the_missing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    account(now=NOON)
    move(matched(), JobStatus.RUNNING)

    def fail(_now: datetime, *, unmatched: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr("wms.jobs.services.accounting.sample_levels", fail)
        with pytest.raises(RuntimeError):
            account(now=NOON + timedelta(hours=1))
    assert totals() == {}
    account(now=NOON)
    assert totals() == {NOON: (1, 0, 0, 0)}


# ---- sums ------------------------------------------------------------------------------------------------------------


def live_at_random(chance: Random, *, people: Sequence[User], groups: Sequence[Group], sites: Sequence[Site]) -> None:
    """Let some jobs of these people wait, run and end, in several hours, and account for them now and then."""
    now = NOON
    account(now=now)
    for _ in range(24):
        job = matched(
            owner=chance.choice(people),
            group=chance.choice(groups),
            site=chance.choice([*sites, None]),
            job_type=chance.choice(["MC", "User"]),
            processors=chance.choice([1, 8]),
        )
        Job.objects.filter(pk=job.pk).update(cpu_s=chance.random() * 1000, wall_s=chance.random() * 1000)
        ends = [JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED]
        move(job, JobStatus.RUNNING, *chance.choices(ends, k=chance.choice([0, 1])), at=now)
        factories.make_job(owner=chance.choice(people), group=chance.choice(groups))
        now += timedelta(minutes=chance.choice([0, 3, 11, 90, 3000]))
        if chance.random() < 0.5:
            account(now=now)
    account(now=now)


def shown(by: User, span: Span, grouping: Grouping) -> dict[tuple[str, datetime, str], float]:
    """Return {(name of the course, begin, name of the number): number}, without zeros."""
    found = queries.accounted(span, by=by, grouping=grouping, group=None, site=None, most=1000)
    numbers = {
        (course.name, begin, name): number
        for course in found.by_value
        for begin, sums in course.sums.items()
        for name, number in asdict(sums).items()
    }
    return {place: number for place, number in numbers.items() if number}


def in_buckets(by: User, span: Span, grouping: Grouping) -> dict[tuple[str, datetime, str], float]:
    """Return the same from the buckets that the reader sees."""
    names = [field.name for field in fields(Sums)]
    numbers: Counter[tuple[str, datetime, str]] = Counter()
    buckets = JobBucket.objects.visible_to(by).filter(width_s=span.width)
    for key, begin, *values in buckets.values_list(NAME_BY[grouping], "begun_at", *names):
        numbers.update({(key or "", begin, name): value for name, value in zip(names, values, strict=True)})
    return {place: number for place, number in numbers.items() if number}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sums_are_those_of_the_buckets(seed: int) -> None:
    vos = [factories.make_vo() for _ in range(3)]
    groups = [factories.make_group(vo=vo, shares_jobs=shares) for vo in vos for shares in (False, True)]
    # Sees two VOs whole, and of the third its own jobs and those of a group.
    manager = factories.make_user(manages=vos[:2], groups=groups[4:])
    people = [manager, *(factories.make_user(groups=groups) for _ in range(3))]
    sites = [factories.make_site() for _ in range(3)]
    live_at_random(Random(seed), people=people, groups=groups, sites=sites)
    for width in Width:
        span = Span(width=width, first=width.begin_of(NOON), last=width.begin_of(NOON + timedelta(days=60)))
        for grouping in Grouping:
            for reader in (factories.make_user(operator=True), manager, people[1]):
                expected = in_buckets(reader, span, grouping)
                assert expected
                assert shown(reader, span, grouping) == pytest.approx(expected)


# ---- queries ---------------------------------------------------------------------------------------------------------


def started(by: User, *, grouping: Grouping = Grouping.USER, most: int = 12, **narrowed: Any) -> dict[str, int]:
    """Return the number of starts in the hour, by name of the course."""
    narrowed = {"group": None, "site": None, **narrowed}
    result = queries.accounted(HOUR, by=by, grouping=grouping, most=most, **narrowed)
    return {
        "rest" if course.is_rest else course.name: sum(sums.started for sums in course.sums.values())
        for course in result.by_value
    }


def test_accounting_is_visible_as_its_jobs_are() -> None:
    vo = factories.make_vo()
    sharing, closed = factories.make_group(vo=vo, shares_jobs=True), factories.make_group(vo=vo)
    alice, bob, carol = (
        factories.make_user(username=name, groups=[sharing, closed]) for name in ("alice", "bob", "carol")
    )
    manager, operator = factories.make_user(manages=[vo]), factories.make_user(operator=True)
    account(now=NOON)
    for owner, group in ((alice, sharing), (alice, closed), (bob, sharing), (carol, closed)):
        move(matched(owner=owner, group=group), JobStatus.RUNNING)
    account(now=NOON)
    everything = {"alice": 2, "bob": 1, "carol": 1}
    assert started(alice) == {"alice": 2, "bob": 1}
    assert started(bob) == {"alice": 1, "bob": 1}
    assert started(manager) == started(operator) == everything
    assert started(factories.make_user()) == {}
    assert started(operator, group=closed) == {"alice": 1, "carol": 1}


def test_the_largest_series_are_shown_and_others_summed_up() -> None:
    account(now=NOON)
    sites = {name: factories.make_site(name=name) for name in ("A", "B", "C", "D")}
    for name, count in (("A", 1), ("B", 4), ("C", 2), ("D", 3)):
        for _ in range(count):
            move(matched(site=sites[name]), JobStatus.RUNNING)
    move(matched(), JobStatus.RUNNING)
    account(now=NOON)
    operator = factories.make_user(operator=True)
    by_site = started(operator, grouping=Grouping.SITE, most=2)
    assert by_site == {"B": 4, "D": 3, "rest": 4}
    assert list(by_site) == ["B", "D", "rest"]
    assert started(operator, grouping=Grouping.SITE)[""] == 1
    assert started(operator, grouping=Grouping.SITE, site=sites["C"]) == {"C": 2}
    assert started(operator, grouping=Grouping.JOB_TYPE) == {"User": 11}
    assert len(started(operator, grouping=Grouping.GROUP)) == 11
    # Its buckets stay.
    sites["B"].delete()
    assert started(operator, grouping=Grouping.SITE, most=1) == {f"site {_key(4)}": 4, "rest": 7}


def _key(starts: int) -> int | None:
    rows = JobBucket.objects.filter(width_s=Width.HOUR).values("site_id").annotate(n=Sum("started")).filter(n=starts)
    return rows.values_list("site_id", flat=True).get()


def test_no_page_reads_jobs() -> None:
    alice = factories.make_user()
    read: list[str] = []

    def record(execute: Callable[..., object], text: str, *arguments: object) -> object:
        read.append(text)
        return execute(text, *arguments)

    with connection.execute_wrapper(record):
        started(alice)
    assert read
    assert not [text for text in read if "jobs_job " in text or '"jobs_job"' in text or "jobs_jobhistory" in text]


def test_an_action_on_many_jobs_is_accounted_for() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    ids = [factories.make_job(owner=alice, group=group).pk for _ in range(25)]
    account(now=NOON)
    assert bulk.act_on(Action.KILL, ids, by=alice, now=NOON).done == 25
    account(now=NOON)
    (course,) = queries.accounted(HOUR, by=alice, grouping=Grouping.SITE, group=None, site=None, most=12).by_value
    assert course.name == ""
    assert asdict(course.sums[NOON])["killed"] == 25
