"""Downtimes in the administration: declared, changed and ended by the service, with its rights and its sentences."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from resources.models import Downtime
from tests.admin.conftest import RowsOfVO, Shared, act, add, change, changelist, errors_of
from tests.api.administration.conftest import history_of
from tests.factories import make_downtime

pytestmark = pytest.mark.django_db

BEGIN, END = datetime(2035, 12, 31, 8, tzinfo=UTC), datetime(2035, 12, 31, 16, tzinfo=UTC)
TIMES = {
    "begins_at_0": "2035-12-31", "begins_at_1": "08:00:00", "ends_at_0": "2035-12-31", "ends_at_1": "16:00:00",
    "reason": "new disks",
}  # fmt: skip
WORDS = "downtime of computing element ce.lhcb.org at site lhcb.org"
TEXT = "2035-12-31 08:00 to 2035-12-31 16:00 UTC (new disks)"


def declared(client: Client, **fields: Any) -> Any:
    return client.post(add(Downtime), {**TIMES, **{name: str(value) for name, value in fields.items()}}, follow=True)


def in_list(client: Client, **query: str) -> list[int]:
    return [row.pk for row in client.get(changelist(Downtime), query).context["cl"].result_list]


@pytest.fixture(autouse=True)
def _only_own(mine: RowsOfVO) -> None:
    Downtime.objects.all().delete()


def test_a_manager_declares_changes_and_withdraws_a_downtime_and_its_site_has_the_history(
    manager: Client, mine: RowsOfVO
) -> None:
    page = declared(manager, site=mine.site.pk, ce=mine.ce.pk).content.decode()
    assert "Computing element ce.lhcb.org at site lhcb.org: 1 job runs there; 0 jobs wait" in page
    (row,) = Downtime.objects.all()
    assert (row.level, row.begins_at, row.ends_at, row.reason) == (mine.ce, BEGIN, END, "new disks")
    assert row.declared_by is not None
    assert row.declared_by.username == "bob"
    changed = manager.post(change(row), {**TIMES, "ends_at_1": "20:00:00", "site": str(mine.site.pk)})
    assert changed.status_code == 302
    row.refresh_from_db()
    assert (row.level, row.ends_at.hour) == (mine.ce, 20)
    page = manager.get(f"{change(row).removesuffix('change/')}history/").content.decode()
    assert page.count("16:00 UTC (new disks)") == 2
    assert act(manager, row, "end").status_code == 302
    assert not Downtime.objects.exists()
    longer = TEXT.replace("16:00", "20:00")
    lines = [line.removeprefix(f"{WORDS}: ") for line in history_of(mine.site) if line.startswith(WORDS)]
    assert lines == [TEXT, f"{TEXT} → {longer}", f"{longer} removed"]


def test_an_equal_downtime_is_not_added_again(manager: Client, mine: RowsOfVO) -> None:
    for _ in range(2):
        declared(manager, site=mine.site.pk)
    assert Downtime.objects.count() == 1


@pytest.mark.parametrize(
    ("fields", "errors"),
    [
        ({"ends_at_1": "08:00:00"}, {"ends_at": ["The end must be after the begin; correct one of them."]}),
        ({"ends_at_0": "2099-01-01"}, {"ends_at": ["This is more than ten years from now; give an earlier time."]}),
        ({"reason": "a\x1b[31mb"}, {"reason": ["Use one line of at most 255 characters."]}),
        ({"begins_at_0": "soon"}, {"begins_at": ["Enter a valid date."]}),
    ],
)
def test_what_is_refused_is_said_beside_its_field(
    manager: Client, mine: RowsOfVO, fields: dict[str, str], errors: dict[str, list[str]]
) -> None:
    assert errors_of(declared(manager, site=mine.site.pk, **fields)) == errors
    assert not Downtime.objects.exists()


def test_a_place_is_one_within_the_other(operator: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    elsewhere = errors_of(declared(operator, site=theirs.site.pk, ce=mine.ce.pk))
    assert elsewhere == {"ce": ["ce.lhcb.org is not a computing element of this site; choose one that is."]}
    without_ce = errors_of(declared(operator, site=mine.site.pk, queue=mine.queue.pk))
    assert list(without_ce) == ["queue"]
    assert not Downtime.objects.filter(site=mine.site).exists()


def test_a_manager_neither_declares_nor_ends_at_sites_that_serve_others(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, shared: Shared
) -> None:
    for site in (theirs.site, shared.site):
        assert list(errors_of(declared(manager, site=site.pk))) == ["site"]
    row = make_downtime(shared.site, begins_at=BEGIN)
    act(manager, row, "end")
    assert manager.post(change(row), {**TIMES}).status_code == 403
    row.refresh_from_db()
    assert (row.ends_at, row.reason) == (BEGIN + timedelta(hours=2), "maintenance")
    assert in_list(manager) == [row.pk]


def test_what_gocdb_announces_is_shown_and_only_ended(manager: Client, mine: RowsOfVO) -> None:
    running = make_downtime(mine.ce, begins_at=timezone.now() - timedelta(hours=1))
    ahead = make_downtime(mine.ce, begins_at=BEGIN)
    for row in (running, ahead):
        Downtime.objects.filter(pk=row.pk).update(source="gocdb", external_id=str(row.pk))
    assert 'name="reason"' not in manager.get(change(ahead)).content.decode()
    assert manager.post(change(ahead), TIMES).status_code == 403
    act(manager, running, "end")
    page = manager.get(changelist(Downtime)).content.decode()
    assert "Ended: 1 downtime." in page
    assert "2035-12-31 08:00:00 UTC" in page
    act(manager, ahead, "end")
    said = manager.get(changelist(Downtime)).content.decode()
    assert "Nothing was changed. This downtime is announced in GOCDB; change it there." in said
    running.refresh_from_db()
    assert running.ends_at <= timezone.now()
    assert Downtime.objects.count() == 2


def test_downtimes_are_found_by_time_and_place(operator: Client, mine: RowsOfVO) -> None:
    now = timezone.now()
    over = make_downtime(mine.site, begins_at=now - timedelta(days=2))
    running = make_downtime(mine.ce, begins_at=now - timedelta(minutes=1))
    ahead = make_downtime(mine.queue, begins_at=BEGIN)
    assert in_list(operator) == [ahead.pk, running.pk, over.pk]
    assert [in_list(operator, time=each) for each in ("ahead", "running", "over")] == [
        [ahead.pk], [running.pk], [over.pk],
    ]  # fmt: skip
    assert in_list(operator, q="lhcb_queue") == [ahead.pk]
    assert in_list(operator, site__id__exact=str(mine.site.pk)) == [ahead.pk, running.pk, over.pk]


def test_a_downtime_goes_with_its_queue(manager: Client, mine: RowsOfVO) -> None:
    make_downtime(mine.queue, begins_at=BEGIN)
    page = manager.get(f"{change(mine.queue).removesuffix('change/')}delete/").content.decode()
    assert "permission" not in page
