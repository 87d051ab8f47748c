"""The page of leases and its file: who ran where and when."""

import csv
from collections.abc import Mapping
from datetime import timedelta
from http import HTTPStatus
from io import StringIO
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from matching.models import Match
from pilots.models import Pilot
from resources.models import Queue
from tests.factories import make_ce, make_job, make_match, make_pilot, make_queue, make_site, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.portal.views import leases

pytestmark = pytest.mark.django_db

NOW = timezone.now().replace(microsecond=0)


@pytest.fixture
def manager(vo: VO, client_of: ClientOf) -> Client:
    return client_of(make_user(username="bob", manages=[vo]))


@pytest.fixture
def operator(client_of: ClientOf) -> Client:
    return client_of(make_user(username="olivia", operator=True))


def ago(**duration: float) -> str:
    return (NOW - timedelta(**duration)).isoformat()


def leased(job: Job, *, host: str, hours_ago: float, ended_hours_ago: float | None, queue: Queue) -> Match:
    pilot = make_pilot(vo=job.vo, queue=queue)
    Pilot.objects.filter(pk=pilot.pk).update(host_name=host)
    ended_at = None if ended_hours_ago is None else NOW - timedelta(hours=ended_hours_ago)
    lease = make_match(job=job, pilot=pilot, leased_at=NOW - timedelta(hours=hours_ago), ended_at=ended_at)
    Match.objects.filter(pk=lease.pk).update(queue=queue, end_reason="" if ended_at is None else "pilot_ended")
    return lease


@pytest.fixture
def attempts(alice: User, group: Group) -> tuple[Match, Match]:
    """Return two leases of one job: it was rescheduled away from node1, and runs on node2."""
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, job_name="secret-name")
    kit, ral = make_site(name="LCG.KIT.de", vos=[group.vo]), make_site(name="LCG.RAL.uk", vos=[group.vo])
    queues = [make_queue(name="grid", ce=make_ce(name="ce01", site=site)) for site in (kit, ral)]
    return (
        leased(job, host="node1", hours_ago=4, ended_hours_ago=3, queue=queues[0]),
        leased(job, host="node2", hours_ago=2, ended_hours_ago=None, queue=queues[1]),
    )


def hosts(client: Client, **query: object) -> list[str]:
    answer = client.get(f"/leases/?{urlencode(query)}")
    assert not answer.context["form"].errors
    return [row.host for row in answer.context["rows"]]


def file_of(client: Client, query: str = "") -> list[list[str]]:
    answer: Any = client.get(f"/leases/table.csv?{query}")
    return [*csv.reader(StringIO(answer.getvalue().decode()))]


def errors_of(answer: Any) -> Mapping[str, list[str]]:
    return dict(answer.context["form"].errors)


def test_an_attempt_that_was_rescheduled_away_is_listed(manager: Client, attempts: tuple[Match, Match]) -> None:
    earlier, later = attempts
    answer = manager.get("/leases/")
    now, before = answer.context["rows"]
    assert (before.job_id, before.owner, before.group, before.pilot_id, before.host, before.site, before.place) == (
        earlier.job_id, "alice", "lhcb_user", earlier.pilot_id, "node1", "LCG.KIT.de", "ce01 / grid"
    )  # fmt: skip
    assert (before.leased_at, before.ended_at, before.end) == (earlier.leased_at, earlier.ended_at, "pilot ended")
    assert (now.host, now.ended_at, now.end) == ("node2", None, "")
    page = answer.content.decode()
    assert f'<a href="/jobs/{later.job_id}/">' in page
    assert f'<a href="/pilots/{earlier.pilot_id}/">' in page
    assert "there are more" not in page


def test_leases_are_filtered_by_each_field_and_by_a_period(manager: Client, attempts: tuple[Match, Match]) -> None:
    earlier, job = attempts[0], attempts[0].job_id
    assert hosts(manager, host="node1") == hosts(manager, site="LCG.KIT.de") == ["node1"]
    assert hosts(manager, pilot=earlier.pilot_id) == ["node1"]
    assert hosts(manager, job=job) == hosts(manager, owner="alice") == ["node2", "node1"]
    assert hosts(manager, host="node") == hosts(manager, owner="nobody") == hosts(manager, job=2**63 - 1) == []
    assert hosts(manager, since="150m") == hosts(manager, since=ago(hours=2.5)) == ["node2"]
    assert hosts(manager, since="2000-01-01", until=f"{NOW - timedelta(hours=2.5):%Y-%m-%d %H:%M}") == ["node1"]
    Match.objects.update(ended_at=NOW - timedelta(days=2))
    assert hosts(manager) == []
    assert hosts(manager, since="3d") == ["node2", "node1"]


def test_an_invalid_filter_is_named_and_the_file_leads_to_the_page(
    manager: Client, attempts: tuple[Match, Match]
) -> None:
    query = urlencode({"since": "yesterday", "until": "never", "job": "x", "pilot": 2**63, "host": "node1"})
    answer = manager.get(f"/leases/?{query}")
    assert set(errors_of(answer)) == {"since", "until", "job", "pilot"}
    assert '"yesterday" is no time' in errors_of(answer)["since"][0]
    assert [row.host for row in answer.context["rows"]] == ["node1"]
    assert b"table.csv" not in answer.content
    assert manager.get(f"/leases/table.csv?{query}")["Location"] == f"/leases/?{query}"
    reversed_period = manager.get("/leases/?since=2026-02-02&until=2026-02-01")
    assert errors_of(reversed_period)["until"] == [
        "Write a time after the begin, which is a day ago unless it is given."
    ]


@pytest.mark.parametrize("address", ["/leases/", "/leases/table.csv"])
def test_others_are_refused(portal: Client, client: Client, attempts: tuple[Match, Match], address: str) -> None:
    assert portal.get(address).status_code == HTTPStatus.NOT_FOUND
    assert client.get(address)["Location"].startswith("/accounts/login/")


def test_leases_of_other_vos_are_for_operators(
    manager: Client, operator: Client, client_of: ClientOf, attempts: tuple[Match, Match]
) -> None:
    job = make_job(status=JobStatus.RUNNING)
    leased(job, host="node9", hours_ago=1, ended_hours_ago=None, queue=make_queue())
    assert hosts(manager) == ["node2", "node1"]
    assert hosts(manager, host="node9") == hosts(manager, job=job.pk) == []
    assert [row[6] for row in file_of(manager)[1:]] == ["node2", "node1"]
    assert hosts(operator) == ["node9", "node2", "node1"]
    assert hosts(client_of(make_user(manages=[job.vo]))) == ["node9"]


def test_the_file_has_the_rows_without_names_of_jobs_and_without_formulas(
    manager: Client, attempts: tuple[Match, Match]
) -> None:
    Pilot.objects.filter(pk=attempts[0].pilot_id).update(host_name="=cmd()\u202e")
    head, now, before = file_of(manager)
    assert head[:7] == ["match_id", "job", "owner", "group", "vo", "pilot", "host"]
    assert head[7:] == ["site", "ce", "queue", "leased_at", "ended_at", "end_reason"]
    assert now[1:6] == [str(attempts[1].job_id), "alice", "lhcb_user", "lhcb", str(attempts[1].pilot_id)]
    assert now[6:10] == ["node2", "LCG.RAL.uk", "ce01", "grid"]
    assert (before[6], before[12]) == ("'=cmd()\\u202e", "pilot_ended")
    assert file_of(manager, "host=node2")[1:] == [now]


def test_page_and_file_are_bounded_and_say_that_there_are_more(
    manager: Client, attempts: tuple[Match, Match], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ROWS_OF_PAGE", 1)
    monkeypatch.setattr(leases, "ROWS_OF_FILE", 1)
    answer = manager.get("/leases/")
    assert [row.host for row in answer.context["rows"]] == ["node2"]
    assert b"there are more" in answer.content
    older = manager.get(f"/leases/?{answer.context['older']}")
    assert [row.host for row in older.context["rows"]] == ["node1"]
    assert b"there are more" not in older.content
    assert hosts(manager, before="nonsense", host="node2") == ["node2"]
    _, row, last = file_of(manager)
    assert (row[6], last) == ("node2", ["only the first 1 rows: there are more"])
    assert b"there are more" not in manager.get("/leases/?host=node1").content
    assert len(file_of(manager, "host=node1")) == 2


def test_the_page_takes_as_many_queries_for_many_leases_as_for_few(
    manager: Client, attempts: tuple[Match, Match], alice: User, group: Group
) -> None:
    def queries(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            manager.get(address).getvalue()
        return len(captured)

    few = [queries(address) for address in ("/leases/", "/leases/table.csv")]
    for number in range(5):
        job = make_job(owner=alice, group=group, status=JobStatus.RUNNING)
        queue = make_queue(name=f"queue{number}")
        leased(job, host=f"host{number}", hours_ago=1, ended_hours_ago=None, queue=queue)
    assert [queries(address) for address in ("/leases/", "/leases/table.csv")] == few


def test_managers_are_led_to_the_page(
    manager: Client, portal: Client, attempts: tuple[Match, Match], alice: User, group: Group
) -> None:
    pilot = attempts[0].pilot
    Pilot.objects.filter(pk=pilot.pk).update(submitted_at="2026-03-04T05:06:07Z")
    assert b'href="/leases/"' in manager.get("/pilots/").content
    assert b'href="/leases/"' in manager.get("/jobs/").content
    assert b'href="/leases/?host=node1&amp;since=2026-03-04"' in manager.get(f"/pilots/{pilot.pk}/").content
    own = make_pilot(group=group, owner=alice)
    Pilot.objects.filter(pk=own.pk).update(host_name="node3")
    for address in ("/pilots/", "/jobs/", f"/pilots/{own.pk}/"):
        assert b"/leases/" not in portal.get(address).content
