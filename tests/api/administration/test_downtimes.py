"""Downtimes over REST: who declares, sees, ends and imports them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from resources.models import Downtime
from tests.api.administration.conftest import Administration, changes_of, client_of, history_of
from tests.factories import make_downtime, make_job, make_site, make_user
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/downtimes/"
BEGIN, END = datetime(2035, 12, 31, 8, tzinfo=UTC), datetime(2035, 12, 31, 16, tzinfo=UTC)
TIMES = {"begins_at": "2035-12-31T08:00:00Z", "ends_at": "2035-12-31T16:00:00Z"}


def body(**fields: object) -> dict[str, object]:
    return {"site": "lhcb.org", **TIMES, "reason": "new disks", **fields}


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ({}, "site lhcb.org"),
        ({"ce": "ce.lhcb.org"}, "computing element ce.lhcb.org at site lhcb.org"),
        (
            {"ce": "ce.lhcb.org", "queue": "lhcb_queue"},
            "queue lhcb_queue of computing element ce.lhcb.org at site lhcb.org",
        ),
    ],
    ids=["site", "ce", "queue"],
)
def test_a_manager_declares_and_ends_a_downtime_once(
    administration: Administration, place: dict[str, str], words: str
) -> None:
    manager = administration.manager
    tried = manager.post(ADDRESS, body(**place, dry_run=True))
    assert (tried.status_code, tried.json()["id"], Downtime.objects.count()) == (200, None, 0)
    declared = manager.post(ADDRESS, body(**place))
    assert declared.status_code == 201, declared.json()
    answer = declared.json()
    assert answer == {**tried.json(), "id": answer["id"]}
    assert (answer["site"], answer["ce"], answer["queue"]) == ("lhcb.org", place.get("ce"), place.get("queue"))
    assert manager.post(ADDRESS, body(**place)).json() == answer
    (row,) = Downtime.objects.all()
    assert (row.begins_at, row.ends_at, row.declared_by) == (BEGIN, END, administration.mallory)
    assert [each["id"] for each in manager.get(ADDRESS).json()["results"]] == [row.pk]
    assert manager.get(f"{ADDRESS}{row.pk}/").json() == answer
    assert manager.delete(f"{ADDRESS}{row.pk}/").status_code == 204
    assert not Downtime.objects.exists()
    assert manager.delete(f"{ADDRESS}{row.pk}/").status_code == 404
    text = "2035-12-31 08:00 to 2035-12-31 16:00 UTC (new disks)"
    lines = [f"downtime of {words}: {text}", f"downtime of {words}: {text} removed"]
    assert [line for line in history_of(administration.own.site) if line.startswith("downtime")] == lines
    assert [(who, target) for who, target, _ in changes_of("resource.state_changed")] == [("mallory", words)] * 2


def test_it_says_how_many_jobs_run_at_the_place(administration: Administration) -> None:
    own = administration.own
    make_job(owner=own.member, group=own.group, sites=["lhcb.org"])
    answer = administration.manager.post(ADDRESS, body()).json()
    assert (answer["running_jobs"], answer["waiting_jobs"]) == (1, 1)
    Job.objects.filter(pk=own.job.pk).update(status="Done", ended_at=timezone.now())
    assert administration.manager.post(ADDRESS, body(reason="x")).json()["running_jobs"] == 0


def test_a_manager_changes_times_and_reason_and_not_the_place(administration: Administration) -> None:
    manager, row = administration.manager, make_downtime(administration.own.ce, begins_at=BEGIN)
    address, new = f"{ADDRESS}{row.pk}/", {**TIMES, "reason": "more disks"}
    tried = manager.put(address, {**new, "dry_run": True})
    row.refresh_from_db()
    assert (tried.status_code, row.reason) == (200, "maintenance")
    for _ in range(2):
        changed = manager.put(address, new)
        assert (changed.status_code, changed.json()) == (200, tried.json())
    assert changed.json() == manager.get(address).json()
    row.refresh_from_db()
    assert (row.level, row.begins_at, row.ends_at, row.reason) == (administration.own.ce, BEGIN, END, "more disks")
    words = "downtime of computing element ce.lhcb.org at site lhcb.org: 2035-12-31 08:00 to 2035-12-31"
    line = f"{words} 10:00 UTC (maintenance) → 2035-12-31 08:00 to 2035-12-31 16:00 UTC (more disks)"
    assert [each for each in history_of(administration.own.site) if each.startswith("downtime")] == [line]


def test_a_change_that_is_not_possible_or_not_the_callers_changes_nothing(administration: Administration) -> None:
    own = make_downtime(administration.own.site, begins_at=BEGIN)
    other = make_downtime(administration.other.site, begins_at=BEGIN)
    shared = make_downtime(make_site(name="shared.org"), begins_at=BEGIN)
    announced_there = make_downtime(administration.own.ce, begins_at=BEGIN)
    Downtime.objects.filter(pk=announced_there.pk).update(source="gocdb", external_id="1")
    manager, new = administration.manager, {**TIMES, "reason": "more disks"}
    for pk, fields, status in (
        (own.pk, {"ends_at": TIMES["begins_at"]}, 400),
        (own.pk, {"site": "lhcb.org"}, 400),
        (announced_there.pk, {}, 400),
        (shared.pk, {}, 403),
        (other.pk, {}, 404),
        (2**62, {}, 404),
    ):
        assert manager.put(f"{ADDRESS}{pk}/", {**new, **fields}).status_code == status
    assert set(Downtime.objects.values_list("reason", flat=True)) == {"maintenance"}


def test_a_running_downtime_ends_now_and_stays_in_the_list_of_past_ones(administration: Administration) -> None:
    manager, now = administration.manager, timezone.now()
    downtime = make_downtime(administration.own.ce, begins_at=now - timedelta(hours=1))
    assert manager.delete(f"{ADDRESS}{downtime.pk}/").status_code == 204
    downtime.refresh_from_db()
    assert now <= downtime.ends_at <= timezone.now()
    assert manager.get(ADDRESS).json()["results"] == []
    since = (now - timedelta(days=1)).isoformat()
    listed = manager.get(ADDRESS, {"since": since, "site": "lhcb.org"}).json()["results"]
    assert [each["id"] for each in listed] == [downtime.pk]
    assert manager.get(ADDRESS, {"since": since, "site": "atlas.org"}).json()["results"] == []


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"ends_at": TIMES["begins_at"]}, "bad_downtime", "ends_at"),
        ({"begins_at": "2020-01-01T00:00:00Z", "ends_at": "2020-01-02T00:00:00Z"}, "bad_downtime", "ends_at"),
        ({"ends_at": "2099-01-01T00:00:00Z"}, "bad_downtime", "ends_at"),
        ({"begins_at": "2035-12-31T08:00:00"}, "invalid_input", "begins_at"),
        ({"ends_at": 5}, "invalid_input", "ends_at"),
        ({"reason": " "}, "invalid_input", "reason"),
        ({"reason": "one\ntwo"}, "invalid_input", "reason"),
        ({"reason": "x" * 256}, "invalid_input", "reason"),
        ({"ends": "soon"}, "invalid_input", "ends"),
    ],
)
def test_an_impossible_downtime_is_refused_and_nothing_is_stored(
    administration: Administration, fields: dict[str, object], code: str, field: str
) -> None:
    answer = administration.manager.post(ADDRESS, body(**fields))
    assert (answer.status_code, answer.json()["code"], list(answer.json()["errors"])) == (400, code, [field])
    assert not Downtime.objects.exists()


def test_managers_of_other_vos_neither_see_nor_declare_nor_end_it(administration: Administration) -> None:
    other = make_downtime(administration.other.site, begins_at=BEGIN)
    shared = make_downtime(make_site(name="shared.org"), begins_at=BEGIN)
    manager = administration.manager
    assert [each["id"] for each in manager.get(ADDRESS).json()["results"]] == [shared.pk]
    assert manager.post(ADDRESS, body(site="atlas.org")).status_code == 404
    assert manager.post(ADDRESS, body(ce="none.org")).status_code == 404
    assert manager.post(ADDRESS, body(site="shared.org")).status_code == 403
    assert manager.delete(f"{ADDRESS}{other.pk}/").status_code == 404
    assert manager.delete(f"{ADDRESS}{shared.pk}/").status_code == 403
    member = client_of(make_user(username="mia", groups=[administration.own.group]))
    assert [each["id"] for each in member.get(ADDRESS).json()["results"]] == [shared.pk]
    assert member.post(ADDRESS, body()).status_code == 403
    assert Downtime.objects.count() == 2


# ---- GOCDB -----------------------------------------------------------------------------------------------------------


def announced(key: str, **fields: object) -> str:
    values: dict[str, object] = {
        "HOSTED_BY": "lhcb.org",
        "HOSTNAME": "CE.lhcb.org",
        "SERVICE_TYPE": "ARC-CE",
        "SEVERITY": "OUTAGE",
        "START_DATE": int(BEGIN.timestamp()),
        "END_DATE": int(END.timestamp()),
        "DESCRIPTION": "new disks",
    }
    parts = "".join(f"<{name}>{value}</{name}>" for name, value in {**values, **fields}.items())
    return f'<DOWNTIME PRIMARY_KEY="{key}">{parts}</DOWNTIME>'


def imported(administration: Administration, *downtimes: str, **fields: object) -> Any:
    document = f"<results>{''.join(downtimes)}</results>"
    answer = administration.operator.post(f"{ADDRESS}import/", {"xml": document, **fields})
    assert answer.status_code == 200, answer.json()
    return {name: value for name, value in answer.json().items() if value}


def test_outages_of_computing_elements_are_imported_changed_and_removed(administration: Administration) -> None:
    by_hand = make_downtime(administration.own.site, begins_at=BEGIN)
    assert imported(administration, announced("1"), dry_run=True) == {"added": 1}
    assert Downtime.objects.count() == 1
    assert imported(administration, announced("1")) == {"added": 1}
    assert imported(administration, announced("1")) == {"unchanged": 1}
    row = Downtime.objects.get(source="gocdb")
    assert (row.ce, row.queue, row.begins_at, row.reason) == (administration.own.ce, None, BEGIN, "new disks")
    assert imported(administration, announced("1", DESCRIPTION="more disks")) == {"changed": 1}
    refused = administration.operator.delete(f"{ADDRESS}{row.pk}/")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_downtime")
    assert imported(administration) == {"removed": 1}
    assert list(Downtime.objects.all()) == [by_hand]
    words = "downtime of computing element ce.lhcb.org at site lhcb.org: "
    text = "2035-12-31 08:00 to 2035-12-31 16:00 UTC"
    assert [line.removeprefix(words) for line in history_of(administration.own.site) if line.startswith(words)] == [
        f"{text} (new disks)",
        f"{text} (new disks) → {text} (more disks)",
        f"{text} (more disks) removed",
    ]


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        ({"SEVERITY": "WARNING"}, {"warnings": 1}),
        ({"SERVICE_TYPE": "SRM", "HOSTNAME": "se.lhcb.org"}, {"other_services": 1}),
        ({"SERVICE_TYPE": "Site-BDII"}, {"other_services": 1}),
        ({"HOSTED_BY": "elsewhere.org"}, {"other_sites": 1}),
        ({"HOSTNAME": "ce2.lhcb.org"}, {"unplaced": ["ce2.lhcb.org at lhcb.org"]}),
        ({"HOSTNAME": "se.lhcb.org", "SERVICE_TYPE": ""}, {"unplaced": ["se.lhcb.org at lhcb.org"]}),
        ({"START_DATE": 1, "END_DATE": 2}, {"ended": 1}),
        (
            {"START_DATE": "x"},
            {"unreadable": ["downtime 1: its START_DATE is not a time in seconds since 1970"]},
        ),
    ],
)
def test_what_closes_no_place_here_is_counted(
    administration: Administration, fields: dict[str, object], result: dict[str, object]
) -> None:
    assert imported(administration, announced("1", **fields)) == result
    assert not Downtime.objects.exists()


def test_a_place_is_found_by_the_name_in_gocdb_the_host_or_the_whole_site(administration: Administration) -> None:
    own = administration.own
    own.site.parameters = {"gocdb_name": "LHCB-T2"}
    own.site.save()
    own.ce.options = {"host": "login.lhcb.org"}
    own.ce.save()
    of_host = announced("1", HOSTED_BY="LHCB-T2", HOSTNAME="login.lhcb.org", SERVICE_TYPE="")
    of_site = announced("1", HOSTED_BY="LHCB-T2", HOSTNAME="", SERVICE_TYPE="")
    assert imported(administration, of_host, of_site, announced("2")) == {"added": 2, "other_sites": 1}
    assert {row.level for row in Downtime.objects.all()} == {own.ce, own.site}


def test_one_that_was_ended_here_or_cannot_be_read_is_not_revived_or_removed(administration: Administration) -> None:
    now = timezone.now()
    begun = {"START_DATE": int((now - timedelta(hours=1)).timestamp())}
    assert imported(administration, announced("1", **begun), announced("2")) == {"added": 2}
    row = Downtime.objects.get(external_id="1")
    assert administration.manager.delete(f"{ADDRESS}{row.pk}/").status_code == 204
    broken = announced("2", END_DATE="never")
    assert imported(administration, announced("1", **begun), broken)["unchanged"] == 1
    row.refresh_from_db()
    assert row.ends_at <= timezone.now()
    assert Downtime.objects.filter(external_id="2").exists()
    assert imported(administration) == {"removed": 1}


def test_only_operators_import_and_a_wrong_document_changes_nothing(administration: Administration) -> None:
    imported(administration, announced("1"))
    for document in ("", "<html/>", '<!DOCTYPE r [<!ENTITY e "x">]><results>&e;</results>'):
        answer = administration.operator.post(f"{ADDRESS}import/", {"xml": document or "no XML"})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_gocdb_document")
    assert administration.manager.post(f"{ADDRESS}import/", {"xml": "<results/>"}).status_code == 403
    assert Downtime.objects.count() == 1
