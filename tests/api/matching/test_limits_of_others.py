"""Explain and lists show limits, pilots and task queues of other users without names."""

from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, DirectorRun, Pilot, PilotSecret
from taskqueues.models import Limit
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import condition, explained, of_alice
from tests.cases import quick_cases
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now

#: Words that appear nowhere but in the names of others, and in what is written about them.
OTHERS = ("xavier", "yolanda", "lhcb_hidden", "atlas", "HiddenType", "hush")


def others(sample: SampleData) -> tuple[User, Group, VO]:
    """Return a user and a group of the VO without relation to Alice, and another VO; all have waiting jobs."""
    hidden = factories.make_group(name="lhcb_hidden", vo=sample.vo)
    atlas = factories.make_vo(name="atlas")
    xavier = factories.make_user(username="xavier", groups=[hidden])
    yolanda = factories.make_user(username="yolanda", groups=[factories.make_group(name="atlas_prod", vo=atlas)])
    sample.queue.ce.site.vos.add(atlas)
    factories.make_job(owner=xavier, group=hidden, job_type="HiddenType")
    factories.make_job(owner=yolanda, group=Group.objects.get(name="atlas_prod"), job_type="HiddenType")
    return xavier, hidden, atlas


@pytest.mark.parametrize("of", ["user", "group", "vo", "job_type", "site", "ce"])
def test_a_full_limit_on_other_jobs_or_places_is_neither_shown_nor_counted(
    sample: SampleData, alice: APIClient, of: str
) -> None:
    xavier, hidden, atlas = others(sample)
    elsewhere = factories.make_site(name="LCG.Hidden.org", vos=[atlas])
    scope: dict[str, object] = {
        "user": xavier,
        "group": hidden,
        "vo": atlas,
        "job_type": "HiddenType",
        "site": elsewhere,
        "ce": factories.make_ce(name="hidden-ce", site=elsewhere),
    }
    Limit.objects.create(running=0, **{of: scope[of]})
    # One that is on the job's site and VO, but on another user there.
    Limit.objects.create(running=0, user=xavier, vo=sample.vo, site=sample.queue.ce.site)
    said = explained(alice, of_alice(sample))
    assert condition(said, "limit") == (1, 0, "may be held back by limits")
    assert (said["limits"], said["queues"][0]["reasons"]) == ([], [])
    # Nor is it a reason when nothing fits, where the summary repeats what the conditions compare.
    nothing_fits = explained(alice, of_alice(sample, processors=64))
    assert "may run at a time" not in str(nothing_fits)


@pytest.mark.parametrize("at_most", quick_cases([2, 4], quick=1))
def test_every_part_of_a_limits_scope_must_cover_the_job(sample: SampleData, alice: APIClient, at_most: int) -> None:
    """All combinations of own and other names in a scope of up to four parts: only that of own names alone is told."""
    xavier, hidden, atlas = others(sample)
    job = of_alice(sample)
    own: dict[str, Any] = {"user": sample.alice, "group": sample.prod, "vo": sample.vo, "job_type": "User"}
    other: dict[str, Any] = {"user": xavier, "group": hidden, "vo": atlas, "job_type": "HiddenType"}
    for which in product((None, own, other), repeat=len(own)):
        scope = {name: names[name] for name, names in zip(own, which, strict=True) if names is not None}
        if len(scope) > at_most:
            continue
        limit = Limit.objects.create(running=0, **scope)
        covers = other not in which
        said = explained(alice, job)
        assert len(said["limits"]) == covers, scope
        assert condition(said, "limit")[:2] == ((0, 1) if covers else (1, 0)), scope
        assert not any(name in str(said) for name in OTHERS), scope
        limit.delete()


def test_a_limit_is_shown_only_for_places_that_the_job_would_fit(sample: SampleData, alice: APIClient) -> None:
    far = factories.make_site(name="LCG.Far.org", vos=[sample.vo])
    factories.make_queue(ce=factories.make_ce(site=far))
    Limit.objects.create(running=0, site=far)
    assert explained(alice, of_alice(sample, sites=["LCG.CERN.ch"]))["limits"] == []
    assert len(explained(alice, of_alice(sample))["limits"]) == 1


def test_the_end_of_a_private_pilot_of_another_user_is_not_shown(sample: SampleData, alice: APIClient) -> None:
    xavier, hidden, _ = others(sample)
    now = database_now()
    Pilot.objects.all().delete()
    DirectorRun.objects.create(pk=1, ran_at=now, running_since=now)
    CEHealth.objects.create(ce=sample.queue.ce, asked_at=now, free_slots=10)
    for group, owner in ((hidden, xavier), (hidden, None)):
        pilot = factories.make_pilot(group=group, owner=owner, queue=sample.queue, status=PilotStatus.FAILED)
        Pilot.objects.filter(pk=pilot.pk).update(submitted_at=now, ended_at=now, status_reason="hush: of xavier")
        PilotSecret.objects.create(
            pilot=pilot, digest=f"{pilot.pk:032d}".encode(), expires_at=now + timedelta(minutes=20)
        )
    assert explained(alice, of_alice(sample))["summary"].endswith("; no pilot is there now.")


# ---- A walk through everything that a user can read ------------------------------------------------------------------


#: Pages of the portal about what jobs wait for, with all that the reader may see.
WAITING_PAGES = (
    "/task-queues/?whose=all",
    "/sites/",
    "/sites/LCG.CERN.ch/",
    "/shares/",
    "/jobs/why/?q=type:User",
)


def readable(job: Job) -> list[str]:
    """Return the addresses that describe jobs, queues, shares, limits, throttles and pilots to users."""
    return [
        *("/api/v1/jobs/", "/api/v1/jobs/summary/?group_by=owner,group,job_type", f"/api/v1/jobs/{job.pk}/"),
        *(
            f"/api/v1/jobs/{job.pk}/explain/",
            f"/api/v1/jobs/{job.pk}/history/",
            "/api/v1/task-queues/",
            "/api/v1/groups/",
        ),
        *(
            "/api/v1/groups/lhcb_prod/shares/",
            "/api/v1/sites/",
            "/api/v1/sites/?vo=lhcb",
            "/api/v1/submit-pools/?vo=lhcb",
        ),
        *("/api/v1/auth/me/", "/jobs/", f"/jobs/{job.pk}/", "/jobs/submit/", "/pilots/"),
        *WAITING_PAGES,
    ]


@pytest.mark.parametrize("is_held_back", [True, False])
def test_an_explanation_discloses_nothing_about_other_users(
    sample: SampleData, alice: APIClient, is_held_back: bool
) -> None:
    xavier, hidden, atlas = others(sample)
    # Sites, and what they say of themselves, are shown to all VOs that they serve; the names of groups to the VO.
    hidden_names = [name for name in OTHERS if name != "lhcb_hidden"]
    site = sample.queue.ce.site
    site.throttle_policy, site.max_submitting_jobs = "level0", 0 if is_held_back else 5
    site.save()
    for scope in ({"user": xavier}, {"group": hidden, "user": xavier}, {"vo": atlas}, {"job_type": "HiddenType"}):
        Limit.objects.create(running=0, site=site, **scope)
        Limit.objects.create(waiting=1, **scope)
    Limit.objects.create(running=0, vo=sample.vo) if is_held_back else None
    for group, owner in ((hidden, xavier), (Group.objects.get(name="atlas_prod"), None)):
        pilot = factories.make_pilot(group=group, owner=owner, queue=sample.queue, status=PilotStatus.FAILED)
        Pilot.objects.filter(pk=pilot.pk).update(status_reason="hush")
    factories.make_pilot(vo=atlas, queue=sample.queue)
    job = of_alice(sample)
    page = Client()
    page.force_login(sample.alice)
    for address in readable(job):
        answer = (alice if address.startswith("/api/") else page).get(address)
        assert answer.status_code == 200, address
        told = [name for name in hidden_names if name in answer.content.decode()]
        assert told == [], address
    for address in ("/api/v1/matches/preview/", "/api/v1/pilots/summary/"):
        assert alice.get(address).status_code in {403, 405}, address
    refused = alice.post(
        "/api/v1/jobs/", {"executable": "a", "job_type": "HiddenTyp", "group": "lhcb_hid"}, format="json"
    )
    assert (refused.status_code, [name for name in OTHERS if name in refused.content.decode()]) == (400, [])


def test_a_manager_sees_no_explanation_of_another_vo(sample: SampleData, client_of: ClientOf) -> None:
    """Yannick manages atlas, which the same site serves: a preview there counts and names atlas's task queues alone."""
    _, _, atlas = others(sample)
    of_alice(sample)
    Limit.objects.create(running=0, user=sample.alice)
    yannick = factories.make_user(username="yannick", manages=[atlas])
    client, page = client_of(yannick), Client()
    page.force_login(yannick)
    offer = {"cpu_time_s": 300_000, "memory_mb": 4000, "site": "LCG.CERN.ch"}
    answer = client.post("/api/v1/matches/preview/", offer, format="json")
    assert answer.status_code == 200
    seen = answer.json()
    assert [queue["owner"] for queue in seen["task_queues"]] == ["yolanda"]
    assert {each["left"] for each in seen["conditions"]} == {1}
    named = (sample.alice.username, sample.bob.username, sample.prod.name, "xavier", "lhcb_hidden")
    for address in (
        "/api/v1/jobs/",
        "/api/v1/task-queues/",
        "/api/v1/groups/",
        "/api/v1/submit-pools/",
        "/api/v1/pilots/summary/",
    ):
        assert not any(name in client.get(address).content.decode() for name in named), address
    for address in WAITING_PAGES:
        shown = page.get(address)
        assert shown.status_code == 200, address
        assert not any(name in shown.content.decode() for name in named), address
    for address in ("/jobs/", "/pilots/"):
        assert not any(name in page.get(address).content.decode() for name in named), address
    for body in ({**offer, "group": "lhcb_prod"}, {**offer, "group": "atlas_prod", "owner": "alic"}, {"vo": "lhcb"}):
        refused = client.post("/api/v1/matches/preview/", {**offer, **body}, format="json")
        assert refused.status_code == 400
        assert "alice" not in refused.content.decode()


def test_a_quota_that_refuses_a_submission_names_own_scopes_only(sample: SampleData, alice: APIClient) -> None:
    xavier, hidden, atlas = others(sample)
    for scope in ({"user": xavier}, {"group": hidden}, {"vo": atlas}, {"job_type": "HiddenType"}):
        Limit.objects.create(waiting=0, **scope)
    body = {"executable": "a"}
    assert alice.post("/api/v1/jobs/", body, format="json").status_code == 201
    Limit.objects.create(waiting=0, vo=sample.vo)
    refused = alice.post("/api/v1/jobs/", body, format="json")
    assert refused.status_code == 409
    assert not any(name in refused.content.decode() for name in OTHERS)
    assert Job.objects.filter(owner=sample.alice, status=JobStatus.WAITING).count() == 1
