"""Shares on the portal: configured beside delivered, and whose jobs are there."""

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from taskqueues.domain.usage import interval_of
from taskqueues.models import GroupUsage, UsageInterval
from tests.factories import make_bucket, make_group, make_job, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus

pytestmark = pytest.mark.django_db


def text_of(response: Any) -> str:
    """Return the visible text of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def groups_of(client: Client) -> dict[str, Any]:
    response = client.get("/shares/")
    assert response.status_code == HTTPStatus.OK
    return {group.name: group for group in response.context["shares"].groups}


def use(group: Group, processor_s: float, *, hours_ago: float) -> None:
    began_at = interval_of(timezone.now() - timedelta(hours=hours_ago))
    UsageInterval.objects.create(group=group, cpu_segment_s=500, began_at=began_at, matches=1, processor_s=processor_s)


def test_the_configured_share_is_beside_the_delivered_one(portal: Client, vo: VO, group: Group) -> None:
    other = make_group(vo=vo, priority=3000.0)
    elsewhere = make_group(vo=make_vo())
    use(group, 10.0, hours_ago=0.5)
    use(other, 30.0, hours_ago=0.5)
    use(group, 60.0, hours_ago=10)
    use(other, 300.0, hours_ago=100)
    use(elsewhere, 1000.0, hours_ago=0.5)
    GroupUsage.objects.create(group=group, used_s=100.0)
    GroupUsage.objects.create(group=other, used_s=100.0)
    shown = groups_of(portal)
    assert set(shown) == {group.name}
    mine = shown[group.name]
    assert (mine.share, mine.expected, mine.in_effect) == ("1,000", "25 %", "1,000")
    assert [(part.period, part.text) for part in mine.delivered] == [
        ("hour", "25 %"),
        ("day", "70 %"),
        ("week", "17.5 %"),
    ]
    assert mine.correction == "not applied in lhcb (it would be × 0.4)"
    vo.history_fair_share = True
    vo.save()
    corrected = groups_of(portal)[group.name]
    assert (corrected.correction, corrected.in_effect) == ("× 0.4", "400")


def test_members_are_sums_unless_the_group_shares_or_the_reader_manages_it(
    portal: Client, alice: User, vo: VO, group: Group, client_of: ClientOf
) -> None:
    first, second = make_user(username="first", groups=[group]), make_user(username="second", groups=[group])
    make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    make_job(owner=alice, group=group)
    make_job(owner=first, group=group, status=JobStatus.RUNNING)
    make_job(owner=second, group=group, status=JobStatus.MATCHED)
    make_job(owner=second, group=group, status=JobStatus.COMPLETING)

    def members(client: Client) -> list[tuple[str, int, int, str]]:
        rows = groups_of(client)[group.name].members
        return [(row.name, row.waiting, row.running, row.part) for row in rows]

    assert members(portal) == [("you", 1, 1, "25 %"), ("2 other members with jobs", 0, 3, "75 %")]
    assert not any(name in text_of(portal.get("/shares/")) for name in ("first", "second"))
    named = [("alice", 1, 1, "25 %"), ("second", 0, 2, "50 %"), ("first", 0, 1, "25 %")]
    assert members(client_of(make_user(manages=[vo]))) == named
    group.properties = ["JOB_SHARING"]
    group.save()
    assert members(portal) == named


def test_groups_of_other_users_are_not_found(portal: Client, vo: VO) -> None:
    make_group(name="other_group", vo=vo)
    assert "other_group" not in text_of(portal.get("/shares/"))


def test_a_user_without_a_group_is_shown_what_to_do(client_of: ClientOf) -> None:
    assert "A manager of a VO can invite you" in text_of(client_of(make_user()).get("/shares/"))


def test_the_number_of_queries_does_not_grow(client_of: ClientOf, vo: VO, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = make_user(groups=[make_group(vo=vo)])
    client = client_of(reader)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            groups_of(client)
        return len(captured)

    queries()
    few = queries()
    for number in range(29):
        group = make_group(vo=vo if number % 2 else make_vo())
        reader.memberships.create(group=group)
        make_job(owner=reader, group=group)
    assert queries() == few


def test_a_manager_sees_all_groups_of_the_vo_side_by_side_with_the_terms(
    portal: Client, alice: User, vo: VO, group: Group, client_of: ClientOf
) -> None:
    other = make_group(name="other_group", vo=vo, priority=3000.0)
    make_group(name="elsewhere", vo=make_vo())
    vo.history_fair_share = True
    vo.save()
    use(group, 60.0, hours_ago=10)
    GroupUsage.objects.create(group=group, used_s=100.0)
    GroupUsage.objects.create(group=other, used_s=0.0)
    make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    assert "table" not in portal.get("/shares/").context
    assert "All groups of" not in text_of(portal.get("/shares/"))
    page = client_of(make_user(manages=[vo])).get("/shares/")
    mine, others = page.context["table"].rows
    assert (mine.name, others.name) == (group.name, other.name)
    assert (mine.share, mine.expected, mine.used, mine.ratio, mine.factor) == (
        "1,000",
        "25 %",
        "100 %",
        "0.25",
        "0.3333",
    )
    assert (mine.bound, others.bound) == ("lower bound", "upper bound")
    assert (mine.corrected, mine.corrected_part, mine.normalization) == ("142.9", "3.57 %", "0.4286")
    assert mine.delivered == ["–", "100 %", "100 %"]
    assert (mine.waiting, mine.running, others.running) == (0, 1, 0)
    assert "at least 0.3333 and at most 3" in text_of(page)


def test_a_manager_sees_who_used_the_shares(vo: VO, group: Group, client_of: ClientOf) -> None:
    first, second = make_user(username="first", groups=[group]), make_user(username="second", groups=[group])
    hour = Width.HOUR.begin_of(timezone.now())
    make_bucket(owner=first, group=group, begun_at=hour, wall_s=7200.0)
    make_bucket(owner=first, group=group, begun_at=hour - timedelta(hours=30), wall_s=3600.0)
    make_bucket(owner=second, group=group, begun_at=hour - timedelta(hours=10), wall_s=36_000.0)
    make_bucket(owner=second, group=group, begun_at=hour - timedelta(days=9), wall_s=36_000.0)
    make_bucket(owner=second, group=make_group(vo=make_vo()), begun_at=hour, wall_s=36_000.0)
    page = client_of(make_user(manages=[vo])).get("/shares/")
    assert [(row.group, row.user, row.core_hours) for row in page.context["table"].users] == [
        (group.name, "second", ["0.0", "10.0", "10.0"]),
        (group.name, "first", ["2.0", "2.0", "3.0"]),
    ]


def test_groups_that_are_left_out_are_counted(
    vo: VO, group: Group, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.portal.views.shares.MOST_GROUPS", 1)
    monkeypatch.setattr("wms.portal.views.shares.MOST_GROUPS_OF_VO", 2)
    for _ in range(2):
        make_group(vo=vo)
    page = client_of(make_user(manages=[vo])).get("/shares/")
    assert (page.context["shares"].beyond, page.context["table"].beyond) == (2, 1)
    assert "2 more groups are not shown one by one" in text_of(page)


def test_the_table_is_a_csv_file_for_managers_only(portal: Client, vo: VO, group: Group, client_of: ClientOf) -> None:
    other = make_vo()
    make_group(name="elsewhere", vo=other)
    assert portal.get("/shares/table.csv").status_code == HTTPStatus.NOT_FOUND
    manager = client_of(make_user(manages=[vo]))
    lines = manager.get("/shares/table.csv").content.decode().splitlines()
    assert lines[0].split(",")[:3] == ["group", "vo", "configured"]
    assert [line.split(",")[0] for line in lines[1:]] == [group.name]
    assert "elsewhere" not in manager.get(f"/shares/table.csv?vo={other}").content.decode()
