"""Reports of the accounting: sums by one or two properties over days (ADR 64)."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from resources.models import Site
from tests import factories
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.accounting import ReportKey, Span, Width
from wms.jobs.models import JobBucketPeriod
from wms.jobs.queries import accounting
from wms.jobs.queries.accounting import AccountingReport, ReportRow, ReportSums

pytestmark = pytest.mark.django_db

YEAR = Span(width=Width.DAY, first=datetime(2026, 1, 1, tzinfo=UTC), last=datetime(2026, 12, 31, tzinfo=UTC))
NOW = datetime(2026, 11, 25, 12, 30, tzinfo=UTC)


@pytest.fixture
def vo() -> VO:
    return factories.make_vo(name="lhcb")


@pytest.fixture
def group(vo: VO) -> Group:
    return factories.make_group(name="lhcb_user", vo=vo)


@pytest.fixture
def alice(group: Group) -> User:
    return factories.make_user(username="alice", groups=[group])


def day(owner: User, group: Group, begun: str, *, width: Width = Width.DAY, **properties: Any) -> None:
    """Add what jobs of one kind did on a day of 2026; one job is done if nothing is said."""
    begun_at = datetime.fromisoformat(f"2026-{begun}T00:00:00+00:00")
    numbers = {"done": 1, **properties}
    factories.make_bucket(owner=owner, group=group, begun_at=begun_at, width=width, **numbers)


def report(by_user: User, *keys: ReportKey, most: int = 100, span: Span = YEAR, **narrowed: str) -> AccountingReport:
    return accounting.report(span, by_user=by_user, keys=keys, narrowed=narrowed, most=most)


def done(found: AccountingReport) -> list[tuple[str | int | None, ...]]:
    """Return the values of each row, and its number of jobs Done."""
    return [(*row.values, row.sums.done) for row in found.rows]


def test_all_starts_ends_and_hours_of_the_days_are_summed_up(alice: User, group: Group) -> None:
    day(alice, group, "03-01", started=3, done=2, failed=1, cpu_s=1800.0, wall_s=7200.0)
    day(alice, group, "03-02", started=1, done=1, failed=0, killed=2, cpu_s=1800.0, wall_s=7200.0)
    for others in ({"width": Width.WEEK}, {"width": Width.HOUR}):
        day(alice, group, "03-02", **others)
    (row,) = report(alice, ReportKey.GROUP).rows
    sums = ReportSums(started=4, done=3, failed=1, killed=2, cpu_s=3600.0, wall_s=14400.0)
    assert row == ReportRow(values=("lhcb_user",), sums=sums)
    assert (sums.success, sums.efficiency, sums.cpu_hours, sums.core_hours) == (0.75, 0.25, 1.0, 4.0)
    assert (ReportSums(killed=1).success, ReportSums(killed=1).efficiency) == (None, None)


def test_months_are_those_of_the_calendar_in_utc(alice: User, group: Group) -> None:
    for begun in ("01-31", "02-01", "02-28", "03-01"):
        day(alice, group, begun)
    assert done(report(alice, ReportKey.MONTH)) == [("2026-01", 1), ("2026-02", 2), ("2026-03", 1)]
    february = Span(width=Width.DAY, first=datetime(2026, 2, 1, tzinfo=UTC), last=datetime(2026, 2, 28, tzinfo=UTC))
    assert done(report(alice, ReportKey.USER, ReportKey.MONTH, span=february)) == [("alice", "2026-02", 2)]


def test_the_country_is_a_parameter_of_the_site(alice: User, group: Group) -> None:
    countries: dict[str, Any] = {
        "CERN": {"Country": "CH"}, "CSCS": {"country": ["CH"]}, "RAL": {"Country": "UK"}, "NOWHERE": {},
    }  # fmt: skip
    for number, (name, parameters) in enumerate(countries.items()):
        site = factories.make_site(name=name)
        Site.objects.filter(pk=site.pk).update(parameters=parameters)
        day(alice, group, "05-01", site=site, done=10**number)
    day(alice, group, "05-01", done=10_000)
    assert done(report(alice, ReportKey.COUNTRY)) == [("CH", 11), ("UK", 100), (None, 11_000)]
    Site.objects.update(parameters={})
    assert done(report(alice, ReportKey.COUNTRY, ReportKey.GROUP)) == [(None, "lhcb_user", 11_111)]


def test_rows_are_narrowed_by_names(alice: User, group: Group, vo: VO) -> None:
    cern, other = factories.make_site(name="CERN"), factories.make_group(name="other")
    bob, olga = factories.make_user(username="bob"), factories.make_user(operator=True)
    day(alice, group, "05-01", site=cern, job_type="MC", done=1)
    day(bob, group, "05-01", site=cern, done=10)
    day(bob, other, "05-01", job_type="MC", done=100)
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 111), ({"vo": "lhcb"}, 11), ({"group": "other"}, 100), ({"user": "bob"}, 110), ({"site": "CERN"}, 11),
        ({"type": "MC"}, 101), ({"user": "bob", "site": "CERN"}, 10), ({"vo": "none"}, 0),
    ]  # fmt: skip
    for narrowed, expected in cases:
        assert report(olga, ReportKey.GROUP, **narrowed).total.done == expected
    assert done(report(olga, ReportKey.SITE, ReportKey.JOB_TYPE)) == [
        ("CERN", "MC", 1), ("CERN", "User", 10), (None, "MC", 100),
    ]  # fmt: skip


def test_jobs_are_counted_for_those_who_may_see_them(alice: User, group: Group, vo: VO) -> None:
    bob = factories.make_user(username="bob", groups=[group])
    day(alice, group, "05-01", done=1)
    day(bob, group, "05-01", done=10)
    seen = {
        "alice": alice, "manager": factories.make_user(manages=[vo]), "operator": factories.make_user(operator=True),
        "stranger": factories.make_user(), "manager of another VO": factories.make_user(manages=[factories.make_vo()]),
    }  # fmt: skip
    assert {name: report(user, ReportKey.USER).total.done for name, user in seen.items()} == {
        "alice": 1, "manager": 11, "operator": 11, "stranger": 0, "manager of another VO": 0,
    }  # fmt: skip
    Group.objects.filter(pk=group.pk).update(properties=["JOB_SHARING"])
    assert done(report(alice, ReportKey.USER)) == [("alice", 1), ("bob", 10)]


def test_jobs_that_only_waited_make_no_row_and_removed_users_keep_theirs(alice: User, group: Group) -> None:
    olga = factories.make_user(operator=True)
    day(alice, group, "05-01", done=0, waiting=5.0)
    assert report(olga, ReportKey.SITE).rows == []
    gone = factories.make_user()
    day(gone, group, "05-01")
    pk = gone.pk
    gone.delete()
    assert done(report(olga, ReportKey.USER)) == [(f"user {pk}", 1)]


def test_of_too_many_rows_those_with_the_most_core_hours_stay_and_the_rest_is_summed_up(
    alice: User, group: Group
) -> None:
    for number in range(5):
        day(alice, group, "05-01", job_type=f"T{number}", done=10**number, wall_s=3600.0 * (number % 3))
    found = report(alice, ReportKey.JOB_TYPE, most=2)
    assert done(found) == [("T1", 10), ("T2", 100)]
    assert (found.rest_count, found.rest.done, found.total.done, found.total.core_hours) == (3, 11_001, 11_111, 4.0)
    whole = report(alice, ReportKey.JOB_TYPE, most=5)
    assert (len(whole.rows), whole.rest_count, whole.total.done) == (5, 0, 11_111)


@pytest.mark.parametrize(
    ("since", "until", "first", "last"),
    [
        (None, None, "2026-01-01", "2026-11-25"),
        (None, "2025-12-31", "2025-06-15", "2025-12-31"),
        ("2026-03-01", "2026-03-31", "2026-03-01", "2026-03-31"),
        ("2024-01-01", "2027-12-31", "2025-06-15", "2026-11-25"),
        ("2026-11-25", None, "2026-11-25", "2026-11-25"),
        ("2026-11-26", None, None, None),
        ("2025-01-01", "2025-06-14", None, None),
        ("0001-01-01", "9999-12-31", "2025-06-15", "2026-11-25"),
    ],
)
def test_a_period_is_cut_to_the_days_for_which_there_are_numbers(
    since: str | None, until: str | None, first: str | None, last: str | None
) -> None:
    # The first day, partly; its week began earlier.
    began = datetime(2025, 6, 15, tzinfo=UTC)
    for width, begun_at in ((Width.DAY, began), (Width.WEEK, began - timedelta(days=6))):
        JobBucketPeriod.objects.create(width_s=width, begun_at=begun_at, samples=1)
    asked = (None if day is None else date.fromisoformat(day) for day in (since, until))
    days = accounting.days_accounted(*asked, now=NOW)
    assert (days and f"{days.first:%Y-%m-%d}", days and f"{days.last:%Y-%m-%d}") == (first, last)


def test_without_accounting_there_is_no_day_and_no_row(alice: User) -> None:
    assert accounting.days_accounted(None, None, now=NOW) is None
    assert accounting.report(None, by_user=alice, keys=[ReportKey.GROUP], narrowed={}, most=1) == AccountingReport()
