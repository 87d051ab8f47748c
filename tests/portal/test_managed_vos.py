"""The first page of a manager, with what holds the VO back and why its jobs wait, and the notice of a pause."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from resources.domain.enums import ResourceState
from resources.models import Site
from taskqueues.models import Limit
from tests.factories import make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.memo import forget_brief_results

pytestmark = pytest.mark.django_db


@pytest.fixture
def manager(client_of: ClientOf, vo: VO) -> Client:
    return client_of(make_user(username="mallory", manages=[vo]))


def text_of(client: Client) -> str:
    return " ".join(client.get("/").content.decode().split())


def paused(vo: VO) -> None:
    vo.paused_until, vo.pause_reason = timezone.now() + timedelta(hours=2), "storage is <moved>"
    vo.save()


def test_nothing_holds_a_quiet_vo_back(manager: Client, vo: VO) -> None:
    (shown,) = manager.get("/").context["vos"]
    assert (shown.name, shown.holds, shown.waiting) == ("lhcb", [], [])
    assert "Nothing holds its jobs back, and none waits." in text_of(manager)


def test_a_pause_a_limit_a_throttle_and_a_ban_are_said(manager: Client, vo: VO, group: Group, alice: User) -> None:
    paused(vo)
    Limit.objects.create(group=group, running=0)
    Limit.objects.create(vo=vo, running=100)  # has room
    Limit.objects.create(group=make_group(name="atlas"), running=0)  # of another VO
    site = Site.objects.get(name="LCG.CERN.ch")
    Site.objects.filter(pk=site.pk).update(throttle_policy="matches", max_matches=0, throttle_when_expired="closed")
    banned = make_site(name="LCG.CNAF.it", vos=[vo])
    Site.objects.filter(pk=banned.pk).update(state=ResourceState.BANNED, state_reason="no power")
    (shown,) = manager.get("/").context["vos"]
    said = [hold.text.partition(" until ")[0].partition(" may run")[0] for hold in shown.holds]
    assert said == [
        "Matching for lhcb is paused",
        "At most 0 jobs of the group lhcb_user",
        "The throttle of LCG.CERN.ch is closed. The site has never advertised, and it stays closed",
        "LCG.CNAF.it is banned: no power.",
    ]
    page = text_of(manager)
    assert "Holds its jobs back" in page
    assert "storage is &lt;moved&gt;" in page


def test_waiting_jobs_of_all_users_are_counted_by_what_they_wait_for(
    manager: Client, vo: VO, group: Group, alice: User
) -> None:
    make_queue(ce=make_ce(site=make_site(vos=[vo])), memory_mb=4000)
    bob = make_user(username="bob", groups=[group])
    for owner in (alice, bob):
        make_job(owner=owner, group=group)
    make_job(owner=bob, group=group, memory_mb=10**6)
    other = make_group(name="atlas")
    make_job(owner=make_user(groups=[other]), group=other)
    (shown,) = manager.get("/").context["vos"]
    assert [(row.jobs, row.words) for row in shown.waiting] == [(2, "wait for a pilot"), (1, "fit no queue")]
    assert shown.why_url.startswith("/jobs/why/?q=vo%3Alhcb")
    assert manager.get(shown.why_url).status_code == 200


def test_others_see_no_such_part_and_everybody_of_the_vo_the_pause(
    manager: Client, portal: Client, client_of: ClientOf, vo: VO, group: Group, alice: User
) -> None:
    make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    assert "is paused" not in text_of(portal)
    paused(vo)
    assert portal.get("/").context["vos"] == []
    assert "Matching for lhcb is paused until" in text_of(portal)
    assert "Jobs wait until then; those that run go on." in text_of(portal)
    stranger = client_of(make_user(groups=[make_group(name="atlas")]))
    assert "is paused" not in text_of(stranger)
    VO.objects.filter(pk=vo.pk).update(paused_until=timezone.now() - timedelta(seconds=1))
    assert "is paused" not in text_of(portal)


def test_what_stops_jobs_has_a_link_and_limits_that_close_a_whole_come_first(
    client_of: ClientOf, vo: VO, group: Group, alice: User
) -> None:
    make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    narrow = Limit.objects.create(group=group, job_type="User", running=0)
    closing = Limit.objects.create(vo=vo, running=0)
    Site.objects.filter(name="LCG.CERN.ch").update(state=ResourceState.BANNED, state_reason="no power")
    manager = make_user(manages=[vo], staff=True)
    (shown,) = client_of(manager).get("/").context["vos"]
    assert [hold.url for hold in shown.holds] == [
        *(f"/admin/taskqueues/limit/{limit.pk}/change/" for limit in (closing, narrow)),
        "/sites/LCG.CERN.ch/",
    ]


def test_missing_pilots_and_suspended_owners_are_said(manager: Client, vo: VO, group: Group, alice: User) -> None:
    make_queue(ce=make_ce(site=make_site(vos=[vo])))
    bob = make_user(username="bob", groups=[group])
    for owner in (alice, bob, bob):
        make_job(owner=owner, group=group)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    (shown,) = manager.get("/").context["vos"]
    assert [(hold.text, hold.url) for hold in shown.holds] == [
        ("No pilot of lhcb is there or on its way; 1 job waits for one.", "/pilots/"),
        ("bob is suspended: 2 jobs wait.", "/jobs/?q=vo%3Alhcb+owner%3Abob+status%3Awaiting"),
    ]
    make_pilot(vo=vo)
    forget_brief_results()
    (shown,) = manager.get("/").context["vos"]
    assert [hold.text for hold in shown.holds] == ["bob is suspended: 2 jobs wait."]


def test_vos_that_something_stops_come_first(client_of: ClientOf, vo: VO) -> None:
    stopped = make_vo(name="zeus")
    paused(stopped)
    shown = client_of(make_user(manages=[vo, stopped])).get("/").context["vos"]
    assert [each.name for each in shown] == ["zeus", "lhcb"]


# ---- pauses ----------------------------------------------------------------------------------------------------------

PAUSE = {"reason": "storage is moved", "for_s": "7200"}


def test_a_manager_pauses_the_vo_and_ends_it_on_the_first_page(
    manager: Client, portal: Client, vo: VO, group: Group, alice: User
) -> None:
    make_job(owner=alice, group=group)
    make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    meant = {**PAUSE, "confirmed": "No job of lhcb starts while it lasts."}
    page = " ".join(manager.post("/vos/lhcb/pause/", meant, follow=True).content.decode().split())
    assert "Matching for lhcb is paused until" in page
    assert "Jobs: 1 waiting, 1 running" in page
    vo.refresh_from_db()
    assert "storage is moved" in vo.why_paused(timezone.now())
    assert "End the pause" in text_of(manager)
    assert manager.post("/vos/lhcb/pause/", {"end": "1"}, follow=True).status_code == 200
    vo.refresh_from_db()
    assert vo.why_paused(timezone.now()) == ""
    assert portal.post("/vos/lhcb/pause/", PAUSE).status_code == 404


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"for_s": "7200"}, "Give the reason of the pause"),
        ({"reason": "x", "for_s": ""}, "This time is past"),
        ({"reason": "x", "for_s": "1"}, "Select a valid choice"),
        ({"reason": "x\x1b[2J", "for_s": "7200"}, "Write one line"),
    ],
)
def test_a_pause_that_is_refused_changes_nothing(manager: Client, vo: VO, form: dict[str, str], said: str) -> None:
    assert said in manager.post("/vos/lhcb/pause/", form, follow=True).content.decode()
    vo.refresh_from_db()
    assert vo.paused_until is None


def test_operators_pause_all_vos_on_the_page_of_operations(manager: Client, client_of: ClientOf, vo: VO) -> None:
    paused(vo)
    make_vo(name="zeus")
    operator = client_of(make_user(operator=True))
    page = operator.post("/operations/pause/", {**PAUSE, "reason": "network is moved"}, follow=True).content.decode()
    assert "Matching for all VOs is paused until" in page
    assert "End the pause" in page
    assert all("network" in each.all_pause_reason for each in VO.objects.all())
    ended = operator.post("/operations/pause/", {"end": "1"}, follow=True).content.decode()
    assert "The pause of all VOs is ended. Matching for lhcb is paused until" in ended
    assert not VO.objects.exclude(all_paused_until=None).exists()
    assert manager.post("/operations/pause/", PAUSE).status_code == 404


def test_a_pause_that_makes_jobs_wait_is_asked_about_first(
    manager: Client, client_of: ClientOf, vo: VO, group: Group, alice: User
) -> None:
    make_job(owner=alice, group=group)
    operator = client_of(make_user(username="olivia", operator=True))
    for client, address, whose in ((manager, "/vos/lhcb/pause/", "lhcb"), (operator, "/operations/pause/", "all VOs")):
        asked = client.post(address, PAUSE)
        page, sentence = asked.content.decode(), f"No job of {whose} starts while it lasts."
        assert asked.status_code == 400
        assert f"Nothing was changed. {sentence} 1 job waits; running jobs go on: 0." in page
        assert f'<input type="hidden" name="reason" value="{PAUSE["reason"]}">' in page
        vo.refresh_from_db()
        assert vo.why_paused(timezone.now()) == ""
        done = client.post(address, {**PAUSE, "confirmed": sentence}, follow=True)
        assert f"Matching for {whose} is paused until" in done.content.decode()
        client.post(address, {"end": "1"})
