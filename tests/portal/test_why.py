"""Why jobs wait, on the portal: of one job, and of a selection by task queue."""

import re
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from matching.domain.sentences import worded
from matching.queries.explain.explanation import MOST_TASK_QUEUES, explain, explain_each
from resources.models import Queue, Site
from taskqueues.models import Limit, QueuedJob
from tests.factories import (
    make_ce,
    make_group,
    make_job,
    make_pilot,
    make_queue,
    make_submission,
    make_user,
    make_vo,
)
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import with_surroundings

pytestmark = pytest.mark.django_db


@pytest.fixture
def queue(group: Group) -> Queue:
    """Return a queue at CERN with 4000 MB of memory."""
    assert group.pk
    return make_queue(name="grid", ce=make_ce(name="ce01", site=Site.objects.get(name="LCG.CERN.ch")))


def text_of(response: Any) -> str:
    """Return the visible text of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def task_queue_of(job: Job) -> int:
    return QueuedJob.objects.get(pk=job.pk).task_queue_id


def why(client: Client, query: str = "") -> Any:
    response = client.get("/jobs/why/", {"q": query})
    assert response.status_code == HTTPStatus.OK
    return response


# ---- one job ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_main_exclusions_and_advice_and_folds_the_rest(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    make_queue(name="small", ce=queue.ce, memory_mb=1000, processors=8)
    job = make_job(owner=alice, group=group, memory_mb=2000, processors=8)
    response = portal.get(f"/jobs/{job.pk}/")
    view = response.context["why"]
    assert [hurdle.name for hurdle in view.hurdles] == ["processors", "memory"]
    assert not {"processors", "memory", "throttle", "limit"} & {hurdle.name for hurdle in view.passed}
    assert view.text.most_excluding == (
        "The condition processors excludes most: 1 of 2 queues. The job requires 8 processors; queues offer 1 or 8."
    )
    assert view.text.advice == [
        "With 1 processor instead of 8 it would fit 1 queue: LCG.CERN.ch.",
        "With 1000 MB of memory instead of 2000 MB it would fit 1 queue: LCG.CERN.ch.",
    ]
    html = response.content.decode()
    assert html.index("Conditions that exclude queues") < html.index("conditions that every queue satisfies")
    assert "What would help" in text_of(response)


def test_the_queues_of_one_site_can_be_chosen(portal: Client, alice: User, group: Group, queue: Queue) -> None:
    make_queue(name="far", ce=make_ce(name="arc", site=Site.objects.get(name="LCG.PIC.es")))
    job = make_job(owner=alice, group=group)
    assert {row.site for row in portal.get(f"/jobs/{job.pk}/").context["why"].text.queues} == {
        "LCG.CERN.ch",
        "LCG.PIC.es",
    }
    chosen = portal.get(f"/jobs/{job.pk}/", {"why_site": queue.ce.site.name}).context["why"]
    assert [row.site for row in chosen.text.queues] == ["LCG.CERN.ch"]
    unknown = portal.get(f"/jobs/{job.pk}/", {"why_site": "LCG.CERN"})
    assert len(unknown.context["why"].text.queues) == 2
    assert "No site that serves your VO is called &quot;LCG.CERN&quot; here. Did you mean" in unknown.content.decode()


def test_limits_show_their_room_and_those_of_others_are_left_out(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    mallory = make_user(username="mallory", groups=[group])
    Limit.objects.create(user=alice, running=7)
    Limit.objects.create(user=mallory, running=1)
    Limit.objects.create(site=Site.objects.get(name="LCG.PIC.es"), running=2)
    Limit.objects.create(site=queue.ce.site, running=0)
    job = make_job(owner=alice, group=group)
    response = portal.get(f"/jobs/{job.pk}/")
    rooms = {room.name: (room.words, room.is_full) for room in response.context["why"].rooms}
    assert rooms == {
        "the user alice": ("7 of 7 jobs", False),
        "all at the site LCG.CERN.ch": (
            "at most 0 jobs of all at the site LCG.CERN.ch may run at a time, and 0 do",
            True,
        ),
    }
    assert "mallory" not in text_of(response)


# ---- a selection -----------------------------------------------------------------------------------------------------


def test_the_waiting_jobs_of_a_selection_are_explained_by_task_queue(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    large = [make_job(owner=alice, group=group, memory_mb=8000, job_name=f"scan-{n}") for n in range(3)]
    small = make_job(owner=alice, group=group, job_name="scan-x")
    make_job(owner=alice, group=group, status=JobStatus.RUNNING, job_name="scan-r")
    make_job(owner=alice, group=group, tags=["gpu"], job_name="other")
    response = why(portal, "name:scan-*")
    selection = response.context["selection"]
    assert selection.summary == "Of these jobs 4 wait, in 2 task queues."
    assert [(each.task_queue_id, each.jobs, each.example_id) for each in selection.queues] == [
        (task_queue_of(large[0]), "3 jobs", large[0].pk),
        (task_queue_of(small), "1 job", small.pk),
    ]
    first, second = selection.queues
    assert first.text.summary == (
        "It waits because no queue that serves lhcb fits it: it requires 8000 MB of memory; queues offer 4000 MB."
    )
    assert first.text.advice == ["With 4000 MB of memory instead of 8000 MB it would fit 1 queue: LCG.CERN.ch."]
    assert second.text.summary.startswith("It fits 1 of 1 queue and waits for a pilot there")
    assert f'href="/task-queues/{first.task_queue_id}/"' in response.content.decode()
    assert [job.id for job in portal.get(first.jobs_url).context["rows"]] == [job.pk for job in reversed(large)]
    assert parse_qs(urlsplit(first.jobs_url).query)["q"] == [
        f"name:scan-* owner:alice task-queue:{first.task_queue_id}"
    ]


def test_a_submission_is_selectable_by_group_members_but_not_by_others(
    alice: User, vo: VO, queue: Queue, client_of: ClientOf
) -> None:
    shared, apart = make_group(vo=vo, shares_jobs=True), make_group(vo=vo)
    mate, stranger = make_user(groups=[shared]), make_user(groups=[apart])
    submission = make_submission(owner=alice, group=shared)
    in_submission = make_job(submission=submission, memory_mb=8000)
    make_job(owner=alice, group=shared)
    query = f"submission:{submission.pk}"
    for reader in (alice, mate):
        (task_queue,) = why(client_of(reader), query).context["selection"].queues
        listed = client_of(reader).get(task_queue.jobs_url).context["rows"]
        assert [job.id for job in listed] == [in_submission.pk], reader
        selection = why(client_of(reader), query).context["selection"]
        assert selection.summary == "Of these jobs 1 waits, in 1 task queue.", reader
    for text in (query, "owner:alice", "owner:*", ""):
        refused = why(client_of(stranger), text)
        assert refused.context["selection"].queues == []
        assert "None of these jobs waits" in text_of(refused)
        assert shared.name not in text_of(refused)


def test_a_number_opens_its_job_and_query_errors_are_shown(portal: Client, queue: Queue) -> None:
    assert queue.pk
    assert portal.get("/jobs/why/", {"q": "71"})["Location"] == "/jobs/71/"
    assert (
        "There is no key &quot;sight&quot;. Did you mean &quot;site&quot;?"
        in why(portal, "sight:CERN").content.decode()
    )


def test_task_queues_with_most_jobs_are_explained_and_the_others_counted(
    portal: Client, alice: User, group: Group, queue: Queue
) -> None:
    assert queue.pk
    for number in range(MOST_TASK_QUEUES + 2):
        make_job(owner=alice, group=group, tags=[f"t{number}"])
    last = make_job(owner=alice, group=group, tags=["t31"])
    selection = why(portal).context["selection"]
    assert len(selection.queues) == MOST_TASK_QUEUES
    assert selection.queues[0].task_queue_id == task_queue_of(last)
    assert selection.left_out == "Further 2 jobs, in 2 task queues, are not explained."


def test_the_number_of_queries_does_not_grow(
    portal: Client, alice: User, group: Group, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            why(portal)
        return len(captured)

    assert queue.pk
    make_job(owner=alice, group=group, tags=["first"], platforms=["el9"], requirements={})
    queries()
    few = queries()
    for number in range(29):
        make_job(owner=alice, group=group, tags=[f"t{number}"], platforms=["el9"], memory_mb=100 * number)
    assert queries() == few


@pytest.mark.parametrize("pilots", [0, 1])
def test_many_task_queues_are_explained_as_each_by_itself(alice: User, group: Group, queue: Queue, pilots: int) -> None:
    make_queue(name="private", ce=make_ce(site=queue.ce.site), memory_mb=100, tags=["gpu"])
    for _ in range(pilots):
        make_pilot(vo=group.vo, queue=queue)
    made = [
        make_job(owner=alice, group=group, **description)
        for description in (
            {},
            {"memory_mb": 8000},
            {"tags": ["gpu"]},
            {"platforms": ["el9"], "processors": 4},
            {"banned_sites": ["LCG.CERN.ch"]},
        )
    ]
    now = timezone.now()
    jobs = {task_queue_of(job): with_surroundings(Job.objects.all()).get(pk=job.pk) for job in made}
    together = explain_each(jobs, now=now)
    assert set(together) == set(jobs)
    for task_queue_id, job in jobs.items():
        alone = explain(job, task_queue_id=task_queue_id, now=now)
        text, of_alone = worded(together[task_queue_id]), worded(alone)
        assert text.conditions == of_alone.conditions
        assert text.advice == of_alone.advice
        assert together[task_queue_id].standing == alone.standing
        if "but no pilot is there and none is sent" in of_alone.summary:
            # Of pilots only the number is read.
            assert text.summary.endswith("; no pilot is there now.")
        else:
            assert text.summary == of_alone.summary


def test_texts_of_users_are_escaped(portal: Client, alice: User, group: Group, queue: Queue) -> None:
    assert queue.pk
    make_job(owner=alice, group=group, software=["<script>alert(1)</script>"])
    html = why(portal, '"<script>alert(2)</script>"').content.decode() + why(portal).content.decode()
    assert "<script>alert" not in html


def test_another_vo_is_not_explained(client_of: ClientOf, alice: User, group: Group, queue: Queue) -> None:
    assert queue.pk
    make_job(owner=alice, group=group)
    other = make_vo(name="atlas")
    assert "LCG.CERN.ch" not in text_of(why(client_of(make_user(manages=[other])), "owner:*"))
