"""GET /api/v1/pilots/summary/: success rates of pilots, for managers and operators (PIL §2.3)."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from pilots.domain.pilot import ENDED, PilotStatus
from pilots.models import Pilot
from resources.models import Queue
from tests.api.matching.conftest import SampleData
from tests.factories import make_ce, make_group, make_job, make_match, make_pilot, make_queue, make_site
from wms.accounts.models import VO, User
from wms.jobs.domain.lifecycle import JobStatus

Clients = Callable[[User | Pilot], APIClient]


@pytest.fixture(autouse=True)
def _only_own_pilots(sample: SampleData) -> None:
    Pilot.objects.update(submitted_at=timezone.now() - timedelta(days=40))


def sent(
    vo: VO,
    queue: Queue | None,
    status: PilotStatus,
    *,
    started: bool = True,
    jobs: int = 0,
    ago: timedelta = timedelta(minutes=5),
) -> None:
    now: datetime = timezone.now()
    pilot = make_pilot(vo=vo, queue=queue, status=status)
    pilot.submitted_at = now - ago
    pilot.started_at = now if started else None
    pilot.matched_at = now if jobs else None
    pilot.ended_at = now if status in ENDED else None
    pilot.save()
    group = make_group(vo=vo)
    for _ in range(jobs):
        make_match(pilot=pilot, job=make_job(group=group, status=JobStatus.DONE), leased_at=now, ended_at=now)


def summary_rows(client: APIClient, **query: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/pilots/summary/", query)
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def test_pilots_are_counted_by_how_they_ended(sample: SampleData, client_of: Clients) -> None:
    sent(sample.vo, sample.queue, PilotStatus.WAITING, started=False)
    sent(sample.vo, sample.queue, PilotStatus.SUBMITTED, started=False)
    sent(sample.vo, sample.queue, PilotStatus.STALLED, started=False)
    sent(sample.vo, sample.queue, PilotStatus.RUNNING)
    sent(sample.vo, sample.queue, PilotStatus.RUNNING, jobs=3)
    sent(sample.vo, sample.queue, PilotStatus.DONE, jobs=2)
    sent(sample.vo, sample.queue, PilotStatus.DONE)
    sent(sample.vo, sample.queue, PilotStatus.ABORTED, started=False)
    sent(sample.vo, sample.queue, PilotStatus.FAILED)
    sent(sample.vo, sample.queue, PilotStatus.LOST, jobs=1)
    sent(sample.vo, sample.queue, PilotStatus.DONE, ago=timedelta(hours=25))
    answer = client_of(sample.mallory).get("/api/v1/pilots/summary/").json()
    assert answer["group_by"] == ["site"]
    assert timezone.now() - datetime.fromisoformat(answer["since"]) >= timedelta(hours=24)
    assert answer["results"] == [
        {
            "values": {"site": "LCG.CERN.ch"},
            "submitted": 10,
            "waiting": 2,
            "stalled": 1,
            "running": 2,
            "matched": 3,
            "empty": 1,
            "done": 2,
            "aborted": 1,
            "failed": 1,
            "lost": 1,
            "jobs": 6,
            "jobs_per_pilot": 2.0,
            "efficiency": 0.5,  # three of the five that have ended and the one that runs a job
        }
    ]


def test_a_pilot_that_was_killed_because_it_did_not_start_is_counted_as_stalled(
    sample: SampleData, client_of: Clients
) -> None:
    sent(sample.vo, sample.queue, PilotStatus.STALLED, started=False)
    Pilot.objects.filter(status=PilotStatus.STALLED).update(ended_at=timezone.now())
    (row,) = summary_rows(client_of(sample.olga))
    assert (row["submitted"], row["waiting"], row["stalled"], row["aborted"], row["efficiency"]) == (1, 0, 1, 0, 0.0)


def test_every_pilot_is_in_one_state_and_the_places_of_a_vo_add_up_to_it(
    sample: SampleData, client_of: Clients
) -> None:
    other = make_queue(name="far", ce=make_ce(name="ce.ral.uk", site=make_site(name="LCG.RAL.uk")))
    for number, (queue, status) in enumerate(product((sample.queue, other, None), PilotStatus)):
        for _ in range(1 + number % 3):
            is_queued = status in {PilotStatus.SUBMITTED, PilotStatus.WAITING, PilotStatus.STALLED, PilotStatus.ABORTED}
            sent(sample.vo, queue, status, started=not is_queued, jobs=0 if is_queued else number % 2)
    client = client_of(sample.olga)
    sites, (vo,) = summary_rows(client, group_by="site"), summary_rows(client, group_by="vo")
    for row in (*sites, vo):
        states = ("waiting", "stalled", "running", "done", "aborted", "failed", "lost")
        assert row["submitted"] == sum(row[state] for state in states)
    for name in ("submitted", "waiting", "running", "matched", "empty", "done", "lost", "jobs"):
        assert vo[name] == sum(row[name] for row in sites)
    assert vo["submitted"] == Pilot.objects.filter(submitted_at__gt=timezone.now() - timedelta(hours=1)).count() == 48


def test_pilots_are_counted_by_place_and_vo(sample: SampleData, client_of: Clients) -> None:
    other = make_queue(name="grid", ce=make_ce(name="ce02.cern.ch", site=sample.queue.ce.site))
    far = make_queue(name="far", ce=make_ce(name="ce.ral.uk", site=make_site(name="LCG.RAL.uk")))
    for queue in (sample.queue, other, other, far, None):
        sent(sample.vo, queue, PilotStatus.RUNNING)
    client = client_of(sample.olga)

    def counts(group_by: str) -> dict[tuple[str | None, ...], int]:
        return {tuple(row["values"].values()): row["submitted"] for row in summary_rows(client, group_by=group_by)}

    assert counts("site") == {("LCG.CERN.ch",): 3, ("LCG.RAL.uk",): 1, (None,): 1}
    assert counts("ce, queue")[("ce02.cern.ch", "grid")] == 2
    assert counts("vo") == {("lhcb",): 5}
    assert next(iter(counts("vo,site,ce,queue"))) == ("lhcb", "LCG.CERN.ch", "ce01.cern.ch", "grid")
    assert (summary_rows(client)[0]["efficiency"], summary_rows(client)[0]["jobs_per_pilot"]) == (None, None)


def test_the_period_is_chosen(sample: SampleData, client_of: Clients) -> None:
    for hours in (0.5, 5, 50):
        sent(sample.vo, sample.queue, PilotStatus.DONE, ago=timedelta(hours=hours))
    client = client_of(sample.mallory)
    assert [summary_rows(client, hours=hours)[0]["submitted"] for hours in ("1", "24", "744")] == [1, 2, 3]


def test_a_manager_sees_the_pilots_of_the_own_vo_and_an_operator_all(sample: SampleData, client_of: Clients) -> None:
    sent(sample.vo, sample.queue, PilotStatus.RUNNING)
    sent(make_group().vo, sample.queue, PilotStatus.RUNNING, jobs=1)
    mallory, olga = (summary_rows(client_of(who))[0] for who in (sample.mallory, sample.olga))
    assert (mallory["submitted"], mallory["jobs"]) == (1, 0)
    assert (olga["submitted"], olga["jobs"]) == (2, 1)


def test_the_filters_of_the_list_apply(sample: SampleData, client_of: Clients) -> None:
    far = make_queue(name="far", ce=make_ce(name="ce.ral.uk", site=make_site(name="LCG.RAL.uk")))
    for queue, status in ((sample.queue, PilotStatus.RUNNING), (far, PilotStatus.RUNNING), (far, PilotStatus.DONE)):
        sent(sample.vo, queue, status)
    client = client_of(sample.mallory)
    for query in ({"site": "LCG.RAL.uk"}, {"ce": "ce.ral.uk"}, {"queue": "far"}):
        assert [row["submitted"] for row in summary_rows(client, **query)] == [2]
    assert [row["submitted"] for row in summary_rows(client, site="LCG.RAL.uk", status="Running")] == [1]
    assert summary_rows(client, host="elsewhere") == []


def test_users_and_pilots_are_refused(sample: SampleData, client_of: Clients) -> None:
    for who in (sample.alice, sample.charlie, sample.pilot):
        assert client_of(who).get("/api/v1/pilots/summary/").status_code == 403
    assert APIClient().get("/api/v1/pilots/summary/").status_code == 401


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"group_by": "sites"}, "group_by"),
        ({"group_by": ""}, "group_by"),
        ({"hours": "0"}, "hours"),
        ({"hours": "745"}, "hours"),
        ({"hours": "day"}, "hours"),
        ({"our": "1"}, "our"),
        ({"status": "running"}, "status"),
        ({"site": ""}, "site"),
    ],
)
def test_invalid_queries_are_refused(sample: SampleData, client_of: Clients, query: dict[str, str], field: str) -> None:
    answer = client_of(sample.mallory).get("/api/v1/pilots/summary/", query)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_the_nearest_name_is_suggested(sample: SampleData, client_of: Clients) -> None:
    answer = client_of(sample.mallory).get("/api/v1/pilots/summary/", {"group_by": "sites"})
    assert 'Did you mean "site"' in str(answer.json())


def test_the_number_of_statements_does_not_grow(
    sample: SampleData, client_of: Clients, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = client_of(sample.olga)
    for _ in range(3):
        sent(sample.vo, make_queue(), PilotStatus.DONE, jobs=2)
    with django_assert_num_queries(3):  # who asks; pilots; leases
        assert len(summary_rows(client)) == 3
