"""Sites on the portal: visibility, states, offers, and what happens there."""

import re
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pilots.domain.pilot import PilotStatus
from resources.domain.enums import ResourceState, ThrottlePolicy
from resources.models import Site
from tests.factories import (
    make_ce,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_queue,
    make_site,
    make_throttled_site,
    make_user,
    make_vo,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def cern(group: Group) -> Site:
    assert group.pk
    return Site.objects.get(name="LCG.CERN.ch")


def text_of(response: Any) -> str:
    """Return the visible text of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def rows_of(client: Client, query: str = "") -> dict[str, Any]:
    response = client.get(f"/sites/{query}")
    assert response.status_code == HTTPStatus.OK
    return {row.name: row for row in response.context["rows"]}


def ended(status: JobStatus, *, owner: User, group: Group, site: Site, hours_ago: float = 1) -> Job:
    at = timezone.now() - timedelta(hours=hours_ago)
    job = make_job(owner=owner, group=group, status=status, site=site, submitted_at=at)
    make_match(job=job, pilot=make_pilot(vo=group.vo, status=PilotStatus.DONE), leased_at=at, ended_at=at)
    return job


def test_only_sites_that_serve_the_own_vos_are_listed(portal: Client, cern: Site) -> None:
    make_site(name="ATLAS.only", vos=[make_vo(name="atlas")])
    make_site(name="For.all")
    assert set(rows_of(portal)) == {"For.all", cern.name, "LCG.PIC.es"}
    assert set(rows_of(portal, "?name=cern")) == {cern.name}
    assert "No site of your VOs has this in its name" in text_of(portal.get("/sites/?name=nowhere"))
    assert portal.get(f"/sites/{cern.name}/").status_code == HTTPStatus.OK
    for hidden in ("ATLAS.only", "nowhere"):
        assert portal.get(f"/sites/{hidden}/").status_code == HTTPStatus.NOT_FOUND


def test_a_state_has_a_reason_and_an_end(portal: Client, cern: Site) -> None:
    until = timezone.now() + timedelta(hours=1)
    Site.objects.filter(pk=cern.pk).update(state=ResourceState.BANNED, state_reason="cooling", state_until=until)
    state = rows_of(portal)[cern.name].state
    assert (state.name, state.badge, state.reason, state.until) == ("banned", "failed", "cooling", until)
    assert "banned cooling until" in text_of(portal.get(f"/sites/{cern.name}/"))
    Site.objects.filter(pk=cern.pk).update(state_until=timezone.now() - timedelta(seconds=1))
    assert rows_of(portal)[cern.name].state.name == "active"


def test_closed_queues_of_an_active_site_are_counted(portal: Client, cern: Site) -> None:
    drained = make_ce(name="ce01", site=cern, state=ResourceState.DRAINING)
    make_queue(ce=drained)
    make_queue(ce=drained, state=ResourceState.BANNED)
    ce = make_ce(name="ce02", site=cern)
    over = timezone.now() - timedelta(hours=1)
    make_queue(ce=ce, state=ResourceState.BANNED)
    make_queue(ce=ce, state=ResourceState.BANNED, state_until=over)
    make_queue(ce=ce)
    row = rows_of(portal)[cern.name]
    assert (row.ces, row.queues, row.closed_queues) == (2, 5, "1 of 5 queues banned, 2 draining")
    for address in ("/sites/", f"/sites/{cern.name}/"):
        assert "active 1 of 5 queues banned, 2 draining" in text_of(portal.get(address))
    Site.objects.filter(pk=cern.pk).update(state=ResourceState.BANNED)
    assert rows_of(portal)[cern.name].closed_queues == ""


def test_a_site_shows_what_its_queues_offer_and_no_secrets(portal: Client, cern: Site) -> None:
    ce = make_ce(name="ce01", site=cern, options={"host": "secret-host"})
    make_queue(
        name="gpu", ce=ce, cpu_time_s=7200, memory_mb=16_000, platforms=["el9"], tags=["gpu", "a"],
        required_tags=["gpu"], wall_time_s=86_400, vo_parameters={"atlas": {"Secret": "x"}},
    )  # fmt: skip
    row = rows_of(portal)[cern.name]
    assert (row.ces, row.queues) == (1, 1)
    response = portal.get(f"/sites/{cern.name}/")
    (queue,) = response.context["queues"]
    assert (queue.ce, queue.name, queue.cpu_time, queue.platforms) == ("ce01", "gpu", "2 h", "el9")
    assert queue.tags == "a, gpu (required)"
    assert list(queue.amounts) == ["1", "16,000 MB", "24 h", "0", "0 MB"]
    assert "secret-host" not in text_of(response)
    assert "Secret" not in text_of(response)


def test_a_queue_whose_pilots_the_site_starts_is_named_so(portal: Client, cern: Site) -> None:
    make_queue(name="grid", ce=make_ce(site=cern), max_waiting_pilots=0)
    assert text_of(portal.get(f"/sites/{cern.name}/")).count("grid active the site starts the pilots") == 1
    make_queue(name="other", ce=make_ce(site=cern))
    assert text_of(portal.get(f"/sites/{cern.name}/")).count("the site starts the pilots") == 1


def test_jobs_and_successes_are_shown_as_own_and_total(
    portal: Client, alice: User, group: Group, vo: VO, cern: Site
) -> None:
    stranger = make_user(username="stranger", groups=[group])
    for owner, status in ((alice, JobStatus.RUNNING), (stranger, JobStatus.RUNNING), (stranger, JobStatus.MATCHED)):
        make_job(owner=owner, group=group, status=status, site=cern)
    atlas = make_group(vo=make_vo(name="atlas"))
    make_job(owner=make_user(groups=[atlas]), group=atlas, status=JobStatus.RUNNING, site=cern)
    ended(JobStatus.DONE, owner=alice, group=group, site=cern)
    ended(JobStatus.FAILED, owner=alice, group=group, site=cern)
    ended(JobStatus.FAILED, owner=alice, group=group, site=cern, hours_ago=25)
    ended(JobStatus.DONE, owner=stranger, group=group, site=cern)
    ended(JobStatus.KILLED, owner=stranger, group=group, site=cern)
    ended(JobStatus.DONE, owner=make_user(groups=[atlas]), group=atlas, site=cern)
    row = rows_of(portal)[cern.name]
    assert (row.own_running, row.all_running) == (1, 3)
    assert (row.own_success.text, row.all_success.text) == ("1 of 2", "2 of 3")
    assert rows_of(portal)["LCG.PIC.es"].own_success.text == "–"
    for address in ("/sites/", f"/sites/{cern.name}/"):
        assert "stranger" not in text_of(portal.get(address))


def test_pilots_are_one_sum_for_physicists_and_counts_by_status_for_managers(
    portal: Client, vo: VO, cern: Site, client_of: ClientOf
) -> None:
    queue = make_queue(ce=make_ce(site=cern))
    make_pilot(vo=vo, queue=queue)
    make_pilot(vo=vo, queue=queue, status=PilotStatus.WAITING)
    make_pilot(vo=vo, queue=queue, status=PilotStatus.DONE)
    make_pilot(vo=make_vo(name="atlas"), queue=queue)
    row = rows_of(portal)[cern.name]
    assert (row.pilots, list(row.pilots_by_status)) == (2, [])
    managed = rows_of(client_of(make_user(manages=[vo])))[cern.name]
    assert managed.pilots == 2
    assert {(part.label, part.count) for part in managed.pilots_by_status} == {("Running", 1), ("Waiting", 1)}


def test_a_throttle_shows_its_state(portal: Client, vo: VO) -> None:
    site = make_throttled_site(name="Throttled.site", policy=ThrottlePolicy.MATCHES, max_matches=0)
    site.vos.add(vo)
    row = rows_of(portal)["Throttled.site"]
    assert row.throttle


def test_the_number_of_queries_does_not_grow(
    portal: Client, vo: VO, group: Group, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            rows_of(portal)
        return len(captured)

    queries()
    few = queries()
    for number in range(30):
        site = make_site(name=f"site-{number}", vos=[vo])
        make_pilot(vo=vo, queue=make_queue(ce=make_ce(site=site)))
        ended(JobStatus.DONE, owner=alice, group=group, site=site)
    assert queries() == few


def test_a_ban_is_another_revision(portal: Client, cern: Site) -> None:
    etag = portal.get(f"/sites/{cern.name}/")["ETag"]
    cern.state, cern.state_changed_at = ResourceState.BANNED, timezone.now()
    cern.save()
    assert portal.get(f"/sites/{cern.name}/", headers={"If-None-Match": etag}).status_code == HTTPStatus.OK


def test_the_list_is_sorted_by_its_headings_and_sites_without_a_value_are_last(
    portal: Client, alice: User, group: Group, vo: VO, cern: Site
) -> None:
    for number in range(3):
        site = make_site(
            name=f"site-{number}", vos=[vo], state=ResourceState.BANNED if number == 1 else ResourceState.ACTIVE
        )
        for _ in range(number):
            make_pilot(vo=vo, queue=make_queue(ce=make_ce(site=site)))
        for status in [JobStatus.FAILED] * number + [JobStatus.DONE]:
            ended(status, owner=alice, group=group, site=site)
    quiet = [cern.name, "LCG.PIC.es"]
    orders = {
        "": [*quiet, "site-0", "site-1", "site-2"],
        "-name": ["site-2", "site-1", "site-0", *reversed(quiet)],
        "-pilots": ["site-2", "site-1", *quiet, "site-0"],
        "state": ["site-1", *quiet, "site-0", "site-2"],
        "success": ["site-2", "site-1", "site-0", *quiet],
        "-success": ["site-0", "site-1", "site-2", *quiet],
        "unknown": [*quiet, "site-0", "site-1", "site-2"],
    }
    assert {order: list(rows_of(portal, f"?sort={order}")) for order in orders} == orders
    page = portal.get("/sites/?name=site&sort=-pilots").content.decode()
    assert '<th class="number" aria-sort="descending"><a href="?name=site&amp;sort=pilots">Pilots' in page
    assert '<a href="?name=site&amp;sort=-mine">My jobs there' in page
