"""Counters of jobs: every way to change jobs is counted once, whether its change was added already or not."""

from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from random import Random

import pytest
from django.core.management import call_command
from django.db import DataError, connection, transaction
from django.db.models import Sum

from matching.queries.invariants import violations
from matching.queries.restrictions import leased_jobs_at
from resources.domain.advertised_load import SUBMITTING
from tests import factories
from tests.factories import NOW, submit
from tests.tables import rows_written
from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.domain.lifecycle import FINAL, Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import (
    CountOfJobs,
    CurrentJobCount,
    CurrentSiteJobCount,
    CurrentSubmissionJobCount,
    Job,
    JobCount,
    JobCountChange,
    SiteJobCount,
    SubmissionJobCount,
)
from wms.jobs.services import bulk, counting, transitions
from wms.jobs.sql.counts import add_count_changes, recount_jobs, wrong_job_counts

pytestmark = pytest.mark.django_db


@pytest.fixture(params=["pending", "added"])
def settle(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a step that adds changes to the counters, or leaves them where they are."""
    return _leave if request.param == "pending" else _add


def _leave() -> None:
    """Leave the changes."""


def _add() -> None:
    # The service's transaction must be its own.
    add_count_changes()


def numbers(by: User, *group_by: str, **filters: object) -> dict[tuple[str | None, ...], int]:
    """Return the summary that *by* gets."""
    checked = JobFilterSet(filters)
    assert checked.is_valid()
    tallies = queries.summary(checked, by=by, group_by=group_by)
    return {tuple(tally.values.values()): tally.count for tally in tallies}


@pytest.fixture
def operator() -> User:
    return factories.make_user(operator=True)


def test_inserts_updates_and_deletes_are_counted(settle: Callable[[], None], operator: User) -> None:
    site = factories.make_site(name="CERN")
    jobs = [factories.make_job() for _ in range(4)]
    settle()
    assert numbers(operator, "status") == {("Waiting",): 4}
    Job.objects.filter(pk__in=[jobs[0].pk, jobs[1].pk]).update(status=JobStatus.MATCHED, site=site)
    settle()
    assert numbers(operator, "status") == {("Matched",): 2, ("Waiting",): 2}
    assert numbers(operator, "site", "status") == {("CERN", "Matched"): 2, (None, "Waiting"): 2}
    assert leased_jobs_at([site.pk])[site.pk][SUBMITTING] == 2
    Job.objects.filter(pk=jobs[0].pk).update(site=None)
    settle()
    assert numbers(operator, "site") == {("CERN",): 1, (None,): 3}
    Job.objects.filter(pk=jobs[3].pk).delete()
    settle()
    assert numbers(operator, "status") == {("Matched",): 2, ("Waiting",): 1}
    assert wrong_job_counts() == 0


def test_jobs_that_get_another_owner_are_counted_for_it(settle: Callable[[], None], operator: User) -> None:
    first, second = factories.make_job(), factories.make_job()
    settle()
    Job.objects.filter(pk=first.pk).update(owner=second.owner, status=JobStatus.HELD)
    settle()
    name = second.owner.username
    assert numbers(operator, "owner", "status") == {(name, "Held"): 1, (name, "Waiting"): 1}
    assert wrong_job_counts() == 0


def test_an_update_that_changes_no_counted_property_writes_no_change(operator: User) -> None:
    job = factories.make_job()
    before = JobCountChange.objects.count()
    Job.objects.filter(pk=job.pk).update(heartbeat_at=NOW, cpu_s=1.0, minor_status="x")
    Job.objects.filter(pk=job.pk).update(status=JobStatus.WAITING, site=None)
    assert JobCountChange.objects.count() == before
    assert numbers(operator, "status") == {("Waiting",): 1}


def test_an_exit_code_counts_when_the_payload_has_ended(settle: Callable[[], None], operator: User) -> None:
    job = factories.make_job(status=JobStatus.RUNNING)
    before = JobCountChange.objects.count()
    Job.objects.filter(pk=job.pk).update(exit_code=7)
    assert JobCountChange.objects.count() == before
    settle()
    Job.objects.filter(pk=job.pk).update(status=JobStatus.FAILED, ended_at=NOW)
    settle()
    assert numbers(operator, "status", exit_code=7) == {("Failed",): 1}
    # A pilot may report the end of a job that was killed.
    Job.objects.filter(pk=job.pk).update(exit_code=0)
    settle()
    assert numbers(operator, "status", exit_code=7) == {}
    assert numbers(operator, "status", exit_code=0) == {("Failed",): 1}
    assert wrong_job_counts() == 0


def test_each_change_of_a_job_is_one_row_and_a_request_of_equal_jobs_too() -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    submit(parse_submission({"jobs": [{"executable": "a.sh"}] * 50}), owner=alice, now=NOW)
    change = JobCountChange.objects.get()
    assert (change.status_before, change.status_after, change.jobs) == (None, "Waiting", 50)
    Job.objects.filter(pk=Job.objects.values("pk")[:1]).update(status=JobStatus.HELD)
    last = JobCountChange.objects.latest("pk")
    assert (last.status_before, last.status_after, last.jobs) == ("Waiting", "Held", 1)
    assert JobCountChange.objects.count() == 2


def test_actions_of_users_are_counted(settle: Callable[[], None]) -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    ids = [
        job.id for job in submit(parse_submission({"jobs": [{"executable": "a.sh"}] * 5}), owner=alice, now=NOW).jobs
    ]
    for action, chosen in ((Action.HOLD, ids[:3]), (Action.RELEASE, ids[:1]), (Action.KILL, ids[2:])):
        settle()
        assert bulk.act_on(action, chosen, by=alice, now=NOW).done == len(chosen)
    assert numbers(alice, "status") == {("Held",): 1, ("Killed",): 3, ("Waiting",): 1}
    assert wrong_job_counts() == 0


def test_many_changes_of_one_statement_are_counted_by_groups(settle: Callable[[], None], operator: User) -> None:
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    submitted = [submit(parse_submission({"jobs": [{"executable": "a.sh"}] * 30}), owner=alice, now=NOW) for _ in "ab"]
    ids = [job.id for result in submitted for job in result.jobs]
    Job.objects.filter(pk__in=ids[:7]).update(status=JobStatus.RUNNING, site=factories.make_site(name="CERN"))
    settle()
    before = JobCountChange.objects.count()
    assert bulk.act_on(Action.KILL, ids, by=alice, now=NOW).done == 60
    # Waiting jobs of two submissions are two groups; the seven of a pilot are changed by a statement of few jobs.
    assert JobCountChange.objects.count() == before + 2 + 7
    settle()
    assert numbers(operator, "status", "site") == {("Killed", "CERN"): 7, ("Killed", None): 53}
    assert wrong_job_counts() == 0


def test_random_actions_on_many_jobs_are_counted_as_a_recount_counts_them() -> None:
    chance = Random(1)
    group = factories.make_group()
    alice = factories.make_user(groups=[group])
    sites = [None, *(factories.make_site() for _ in range(2))]
    for number in (1, 19, 20, 21, 60):
        jobs = [{"executable": "a.sh", "job_type": chance.choice(["User", "Test"])} for _ in range(number)]
        submit(parse_submission({"jobs": jobs}), owner=alice, now=NOW)
    ids = list(Job.objects.values_list("pk", flat=True))
    elsewhere = [status for status in JobStatus if status is not JobStatus.WAITING]
    moved = 0
    for step in range(40):
        chosen = chance.sample(ids, chance.choice([1, 20, 21, 50, len(ids)]))
        # A job that waits is in a queue, and no other is.
        outside = list(Job.objects.filter(pk__in=chosen).exclude(status=JobStatus.WAITING).values_list("pk", flat=True))
        if step % 4 == 0:
            # As pilots do, and as nothing does: any status, at any place, with any exit code.
            for job_id in outside[:30]:
                status = chance.choice(elsewhere)
                Job.objects.filter(pk=job_id).update(
                    status=status,
                    ended_at=NOW if status in FINAL else None,
                    site=chance.choice(sites),
                    exit_code=chance.choice([None, 0, 7]),
                )
        elif step % 4 == 1:
            target = chance.choice(elsewhere)
            moved += len(transitions.record(outside, status=target, source="x", now=NOW).moved)
        else:
            moved += bulk.act_on(chance.choice(list(Action)), chosen, by=alice, now=NOW).done
        if chance.random() < 0.3:
            _add()
        assert wrong_job_counts() == 0, step
    assert moved > len(ids)
    current = {model: _summed(model) for model in (CurrentJobCount, CurrentSiteJobCount, CurrentSubmissionJobCount)}
    recount_jobs()
    assert {model: _summed(model) for model in current} == current


def _summed(view: type[CountOfJobs]) -> set[tuple[object, ...]]:
    columns = [field.attname for field in view._meta.concrete_fields if field.attname not in {"id", "jobs"}]
    rows = view._default_manager.values_list(*columns).annotate(sum=Sum("jobs")).exclude(sum=0)
    return set(rows.order_by())


def test_only_the_statement_of_many_changes_counts_them_itself() -> None:
    jobs = [factories.make_job() for _ in range(25)]
    ids = [job.pk for job in jobs]
    transitions.record(ids, status=JobStatus.HELD, source="x", now=NOW)
    # In the same transaction.
    Job.objects.filter(pk=ids[0]).update(status=JobStatus.WAITING)
    assert wrong_job_counts() == 0
    with pytest.raises(DataError), transaction.atomic():
        # The source is too long.
        transitions.record(ids, status=JobStatus.KILLED, source="x" * 151, now=NOW)
    Job.objects.filter(pk=ids[1]).update(status=JobStatus.WAITING)
    assert wrong_job_counts() == 0


def test_a_submission_keeps_rows_of_its_present_statuses_only() -> None:
    job = factories.make_job()
    _add()
    for status in (JobStatus.HELD, JobStatus.WAITING, JobStatus.HELD):
        Job.objects.filter(pk=job.pk).update(status=status)
        _add()
    assert list(SubmissionJobCount.objects.values_list("submission", "status", "jobs")) == [
        (job.submission_id, "Held", 1)
    ]
    assert not JobCountChange.objects.exists()


@pytest.mark.parametrize(
    ("filters", "group_by", "counts_rows"),
    [
        ({}, ("status",), False),
        ({"status": "Waiting,Held", "owner": "alice"}, ("group", "job_type"), False),
        ({"vo": "lhcb", "job_type": "User"}, ("owner",), False),
        ({"site": "CERN"}, ("status", "site"), False),
        ({"job_group_id": "{submission}", "owner": "alice"}, ("status",), False),
        ({"job_group_id": "{submission}"}, ("site",), True),
        ({"site": "CERN", "job_type": "User"}, ("status",), True),
        ({"job_name": "a"}, ("status",), True),
        ({"submitted_after": "2020-01-01T00:00:00Z"}, ("status",), True),
    ],
)
def test_jobs_are_counted_only_where_no_counter_has_the_properties(
    filters: Mapping[str, str], group_by: tuple[str, ...], counts_rows: bool, operator: User, statements: "Recorded"
) -> None:
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(vo=vo)
    alice = factories.make_user(username="alice", groups=[group])
    result = submit(parse_submission({"jobs": [{"executable": "a.sh", "job_name": "a"}] * 3}), owner=alice, now=NOW)
    Job.objects.filter(pk=result.jobs[0].id).update(site=factories.make_site(name="CERN"), status=JobStatus.MATCHED)
    factories.make_job()
    values = {name: value.format(submission=result.job_group_id) for name, value in filters.items()}
    for settled in (False, True):
        if settled:
            _add()
        statements.clear()
        got = numbers(operator, *group_by, **values)
        assert any('FROM "jobs_job"' in statement for statement in statements) is counts_rows
        jobs = JobFilterSet(values, Job.objects.all()).qs.select_related("owner", "group", "site")
        really: dict[tuple[str | None, ...], int] = {}
        for job in jobs:
            of_job = {
                "status": job.status,
                "site": job.site and job.site.name,
                "owner": job.owner.username,
                "group": job.group.name,
                "job_type": job.job_type,
            }
            key = tuple(of_job[name] for name in group_by)
            really[key] = really.get(key, 0) + 1
        assert got == really != {}


Recorded = list[str]


@pytest.fixture
def statements() -> Iterator[Recorded]:
    """Return the SQL of the statements since it was last cleared."""
    recorded: Recorded = []

    def record(execute: Callable[..., object], sql: str, *arguments: object) -> object:
        recorded.append(sql)
        return execute(sql, *arguments)

    with connection.execute_wrapper(record):
        yield recorded


def test_only_visible_jobs_are_counted(settle: Callable[[], None]) -> None:
    vo = factories.make_vo()
    sharing, closed = factories.make_group(vo=vo, shares_jobs=True), factories.make_group(vo=vo)
    alice, bob = factories.make_user(groups=[sharing, closed]), factories.make_user(groups=[sharing, closed])
    manager = factories.make_user()
    vo.managers.add(manager)
    factories.make_job(owner=alice, group=sharing)
    factories.make_job(owner=alice, group=closed)
    factories.make_job(owner=bob, group=closed)
    settle()
    assert [numbers(user, "status") for user in (alice, bob, manager)] == [
        {("Waiting",): 2},
        {("Waiting",): 2},
        {("Waiting",): 3},
    ]
    assert numbers(factories.make_user(), "status") == {}


def test_deleted_jobs_are_counted_only_if_named(operator: User) -> None:
    factories.make_job(status=JobStatus.DELETED)
    factories.make_job()
    assert numbers(operator, "status") == {("Waiting",): 1}
    assert numbers(operator, "status", status="Deleted") == {("Deleted",): 1}


def test_verify_reports_wrong_counters_and_a_recount_corrects_them(operator: User) -> None:
    factories.make_job()
    _add()
    JobCount.objects.update(jobs=7)
    SiteJobCount.objects.all().delete()
    (violation,) = [each for each in violations() if "counts of jobs" in each.invariant]
    assert violation.row == "2 counts; run `wms-server recount_jobs`"
    out = StringIO()
    call_command("recount_jobs", stdout=out)
    assert out.getvalue() == "All jobs are counted.\n"
    assert wrong_job_counts() == 0
    assert numbers(operator, "status") == {("Waiting",): 1}


def test_the_current_numbers_are_those_of_the_counters_and_of_the_changes() -> None:
    factories.make_job()
    for view, counter in (
        (CurrentJobCount, JobCount),
        (CurrentSiteJobCount, SiteJobCount),
        (CurrentSubmissionJobCount, SubmissionJobCount),
    ):
        assert list(view.objects.values_list("status", "jobs")) == [("Waiting", 1)]
        assert not counter.objects.exists()


def test_adding_nothing_writes_nothing() -> None:
    factories.make_job()
    _add()
    _add()
    before = rows_written()
    _add()
    assert rows_written() == before


@pytest.mark.django_db
def test_a_concurrent_run_does_nothing() -> None:
    factories.make_job()
    assert counting.add_changes() == 1
    assert counting.add_changes() == 0
