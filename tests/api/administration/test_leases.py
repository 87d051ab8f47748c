"""The list of leases over REST: who ran where and when."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from matching.models import Match
from pilots.models import Pilot
from tests.api.administration.conftest import Administration
from tests.factories import make_job, make_match, make_pilot
from wms.jobs.domain.lifecycle import JobStatus

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/leases/"
NOW = timezone.now()


def found(client: Any, **query: object) -> list[int]:
    answer = client.get(ADDRESS, {name: str(value) for name, value in query.items()})
    assert answer.status_code == 200, answer.json()
    return [row["job"] for row in answer.json()["results"]]


@pytest.fixture
def attempts(administration: Administration) -> tuple[Match, Match]:
    """Return two leases of one job: it ran on node1 three hours ago, was rescheduled, and runs on node2 now."""
    own = administration.own
    Match.objects.all().delete()
    job = make_job(owner=own.member, group=own.group, status=JobStatus.RUNNING, site=own.site, queue=own.queue)
    leases = []
    for host, began, ended in (("node1", 4, 3), ("node2", 2, None)):
        pilot = make_pilot(vo=own.vo, queue=own.queue)
        Pilot.objects.filter(pk=pilot.pk).update(host_name=host)
        lease = make_match(job=job, pilot=pilot, leased_at=NOW - timedelta(hours=began))
        ended_at = None if ended is None else NOW - timedelta(hours=ended)
        reason = "" if ended is None else "expired"
        Match.objects.filter(pk=lease.pk).update(queue=own.queue, ended_at=ended_at, end_reason=reason)
        leases.append(lease)
    return leases[0], leases[1]


def test_an_attempt_that_was_rescheduled_away_is_found_by_its_host(
    administration: Administration, attempts: tuple[Match, Match]
) -> None:
    earlier, _ = attempts
    (row,) = administration.manager.get(ADDRESS, {"host": "node1"}).json()["results"]
    assert {
        name: row[name] for name in ("match_id", "owner", "group", "vo", "host", "site", "queue", "end_reason")
    } == {
        "match_id": str(earlier.pk),
        "owner": "lhcb_member",
        "group": "lhcb_user",
        "vo": "lhcb",
        "host": "node1",
        "site": "lhcb.org",
        "queue": "lhcb_queue",
        "end_reason": "expired",
    }
    newest_first = [row["host"] for row in administration.manager.get(ADDRESS).json()["results"]]
    assert newest_first == ["node2", "node1"]


def test_leases_of_a_period_are_those_that_were_open_in_it(
    administration: Administration, attempts: tuple[Match, Match]
) -> None:
    def hosts(**hours_ago: float) -> list[str]:
        query = {name: (NOW - timedelta(hours=each)).isoformat() for name, each in hours_ago.items()}
        return [row["host"] for row in administration.manager.get(ADDRESS, query).json()["results"]]

    assert hosts(since=2.5) == ["node2"]
    assert hosts(since=3.5) == ["node2", "node1"]
    assert hosts(since=3.5, until=2.5) == ["node1"]
    assert hosts(since=9, until=4.5) == []
    Match.objects.update(ended_at=NOW - timedelta(days=2))
    assert hosts() == []
    assert len(hosts(since=50)) == 2


def test_leases_of_a_job_or_a_pilot_are_all_of_them(
    administration: Administration, attempts: tuple[Match, Match]
) -> None:
    Match.objects.update(ended_at=NOW - timedelta(days=2))
    manager, (earlier, later) = administration.manager, attempts
    job = earlier.job_id
    assert found(manager, job=job) == [job, job]
    assert found(manager, pilot=earlier.pilot_id) == found(manager, pilot=later.pilot_id) == [job]
    assert found(manager, job=job, since=(NOW - timedelta(hours=9)).isoformat()) == found(manager, host="node1") == []


def test_other_filters_and_other_vos(administration: Administration, attempts: tuple[Match, Match]) -> None:
    earlier, job = attempts[0], attempts[0].job_id
    manager = administration.manager
    assert (
        found(manager, job=job) == found(manager, owner="lhcb_member") == found(manager, site="lhcb.org") == [job, job]
    )
    assert found(manager, pilot=earlier.pilot_id) == [job]
    assert found(manager, job=10**9) == found(manager, owner="nobody") == []
    other = administration.other
    foreign = make_match(job=other.job, pilot=other.pilot, leased_at=NOW)
    Match.objects.filter(pk=foreign.pk).update(queue=other.queue)
    assert other.job.pk not in found(manager)
    assert found(administration.operator) == [other.job.pk, job, job]
    answer = manager.get(ADDRESS, {"since": "yesterday", "hots": "x"})
    assert (answer.status_code, {*answer.json()["errors"]}) == (400, {"since", "hots"})
