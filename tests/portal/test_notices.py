"""The banner of every page: what is wrong with the system, as far as it concerns the user."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from resources.domain.enums import ResourceState
from resources.models import Queue, ResourceLevel, Site
from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel import liveness
from wms.kernel.models import Liveness

pytestmark = pytest.mark.django_db

STOPPED = "The server's background work has stopped"


@pytest.fixture(autouse=True)
def beat(db: None) -> None:
    liveness.report(liveness.BEAT)


@pytest.fixture
def cern(group: Group) -> Site:
    site = Site.objects.get(name="LCG.CERN.ch")
    close(site, reason="power cut")
    return site


@pytest.fixture
def cern_queue(group: Group) -> Queue:
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


def close(place: ResourceLevel, *, state: ResourceState = ResourceState.BANNED, reason: str = "") -> None:
    type(place).objects.filter(pk=place.pk).update(state=state, state_reason=reason)  # type: ignore[attr-defined]


def texts(portal: Client, address: str = "/jobs/") -> list[str]:
    return [notice.text for notice in portal.get(address).context["header"].notices]


def test_there_is_no_banner_without_problems(portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group, sites=("LCG.CERN.ch",))
    assert texts(portal) == []


@pytest.mark.parametrize("address", ["/", "/jobs/", "/submissions/", "/jobs/submit/", "/accounts/tokens/"])
def test_stopped_background_work_is_shown_on_every_page(address: str, portal: Client) -> None:
    Liveness.objects.update(reported_at=timezone.now() - timedelta(minutes=5))
    assert texts(portal, address)[0].startswith(STOPPED)
    assert STOPPED.replace("'", "&#x27;") in portal.get(address).content.decode()


def test_a_banned_site_required_by_waiting_jobs_is_shown_with_its_reason(
    portal: Client, alice: User, group: Group, cern: Site
) -> None:
    assert texts(portal) == []
    make_job(owner=alice, group=group, sites=("LCG.CERN.ch",))
    assert texts(portal) == [
        "LCG.CERN.ch, which jobs of yours that wait require, is banned (power cut): no new jobs start there."
    ]


def test_a_draining_site_with_recent_jobs_is_shown_with_its_end(
    portal: Client, alice: User, group: Group, cern: Site
) -> None:
    close(cern, state=ResourceState.DRAINING)
    until = timezone.now().replace(microsecond=0) + timedelta(hours=3)
    Site.objects.filter(pk=cern.pk).update(state_until=until)
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=cern)
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(status_changed_at=now - timedelta(days=2))
    assert texts(portal) == []
    Job.objects.filter(pk=job.pk).update(status_changed_at=now - timedelta(hours=2))
    told = f"where your jobs ran in the last day, is draining until {until:%Y-%m-%d %H:%M:%S} UTC"
    assert texts(portal) == [f"LCG.CERN.ch, {told}: no new jobs start there."]


def test_an_expired_ban_is_not_shown_in_the_banner(portal: Client, alice: User, group: Group, cern: Site) -> None:
    make_job(owner=alice, group=group, sites=("LCG.CERN.ch",))
    Site.objects.filter(pk=cern.pk).update(state_until=timezone.now() - timedelta(minutes=1))
    assert texts(portal) == []


def test_closed_sites_of_jobs_of_others_are_not_shown(portal: Client, group: Group, cern: Site) -> None:
    make_job(group=group, sites=("LCG.CERN.ch",))
    job = make_job(group=group, status=JobStatus.DONE, site=cern)
    Job.objects.filter(pk=job.pk).update(status_changed_at=timezone.now())
    assert texts(portal) == []


def test_a_site_of_another_vo_is_not_disclosed_to_who_names_it(portal: Client, alice: User, group: Group) -> None:
    close(make_site(name="SECRET.site", vos=[make_vo()]), reason="break-in")
    make_job(owner=alice, group=group, sites=("SECRET.site",))
    assert texts(portal) == []


def test_many_sites_are_summed_up(portal: Client, alice: User, group: Group) -> None:
    for number in range(7):
        close(make_site(name=f"S{number}"))
        make_job(owner=alice, group=group, sites=(f"S{number}",))
    shown = texts(portal)
    assert len(shown) == 6
    assert shown[-1] == "2 more sites that your jobs use or require are banned or draining."


def test_a_banned_computing_element_required_by_waiting_jobs_is_shown(
    portal: Client, alice: User, group: Group, cern_queue: Queue
) -> None:
    close(cern_queue.ce, reason="full disk")
    make_job(owner=alice, group=group, grid_ces=("ce02",))
    assert texts(portal) == []
    make_job(owner=alice, group=group, grid_ces=("ce01",))
    told = "which jobs of yours that wait require, is banned (full disk)"
    assert texts(portal) == [f"The computing element ce01 of LCG.CERN.ch, {told}: no new jobs start there."]


@pytest.mark.parametrize("level", ["ce", "queue"])
def test_a_draining_part_of_a_site_with_recent_jobs_is_shown(
    level: str, portal: Client, alice: User, group: Group, cern_queue: Queue
) -> None:
    other = make_queue(ce=make_ce(site=cern_queue.ce.site))
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=cern_queue.ce.site, queue=other)
    Job.objects.filter(pk=job.pk).update(status_changed_at=timezone.now(), ce=other.ce)
    closed, words = {
        "ce": (cern_queue.ce, "The computing element ce01 of LCG.CERN.ch"),
        "queue": (cern_queue, "The queue grid of ce01 at LCG.CERN.ch"),
    }[level]
    close(closed, state=ResourceState.DRAINING)
    assert texts(portal) == []
    Job.objects.filter(pk=job.pk).update(ce=cern_queue.ce, queue=cern_queue)
    told = "where your jobs ran in the last day, is draining: no new jobs start there."
    assert texts(portal) == [f"{words}, {told}"]
    Job.objects.filter(pk=job.pk).update(status_changed_at=timezone.now() - timedelta(days=2))
    assert texts(portal) == []


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
def test_a_closed_place_that_waiting_jobs_fit_alone_is_shown(
    level: str, portal: Client, alice: User, group: Group, cern_queue: Queue
) -> None:
    small = make_queue(ce=make_ce(site=Site.objects.get(name="LCG.PIC.es")), memory_mb=1000)
    make_job(owner=alice, group=group, memory_mb=3000)
    closed, words = {
        "site": (cern_queue.ce.site, "LCG.CERN.ch"),
        "ce": (cern_queue.ce, "The computing element ce01 of LCG.CERN.ch"),
        "queue": (cern_queue, "The queue grid of ce01 at LCG.CERN.ch"),
    }[level]
    close(closed)
    told = "without which jobs of yours that wait fit nowhere, is banned: no new jobs start there."
    assert texts(portal) == [f"{words}, {told}"]
    # They fit elsewhere.
    Queue.objects.filter(pk=small.pk).update(memory_mb=4000)
    assert texts(portal) == []


def test_closed_parts_of_a_closed_place_are_not_shown_again(
    portal: Client, alice: User, group: Group, cern_queue: Queue
) -> None:
    make_job(owner=alice, group=group, memory_mb=3000)
    for place in (cern_queue.ce.site, cern_queue.ce, cern_queue):
        close(place)
    assert [text.partition(",")[0] for text in texts(portal)] == ["LCG.CERN.ch"]


def test_a_part_of_a_site_of_another_vo_is_not_disclosed(portal: Client, alice: User, group: Group) -> None:
    close(make_ce(name="secret", site=make_site(vos=[make_vo()])), reason="break-in")
    make_job(owner=alice, group=group, grid_ces=("secret",))
    assert texts(portal) == []


def test_closed_places_need_a_constant_number_of_queries(
    portal: Client, alice: User, group: Group, cern_queue: Queue
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            portal.get("/jobs/submit/")
        return len(captured)

    make_job(owner=alice, group=group, sites=("LCG.CERN.ch",))
    none = queries()
    close(cern_queue.ce.site)
    close(make_queue(ce=make_ce(site=Site.objects.get(name="LCG.PIC.es"))))
    some = queries()
    for number in range(20):
        site = make_site(name=f"S{number}")
        close(make_queue(ce=make_ce(site=site)))
        close(make_site())
        make_job(owner=alice, group=group, sites=(f"S{number}",))
    assert queries() == some
    for model in (Site, Queue):
        model.objects.update(state=ResourceState.ACTIVE)
    assert queries() == none < some


def test_a_user_without_a_group_is_shown_whom_to_ask(client_of: ClientOf) -> None:
    (text,) = texts(client_of(make_user()))
    assert "Ask a manager" in text


def test_members_managers_and_operators_get_no_group_notice(client_of: ClientOf) -> None:
    assert texts(client_of(make_user(groups=[make_group()]))) == []
    assert texts(client_of(make_user(manages=[make_vo()]))) == []
    assert texts(client_of(make_user(operator=True))) == []
