"""Task queues on the portal: visibility, priorities term by term, and what comes before them."""

import re
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from matching.queries import task_queues
from resources.models import Site
from taskqueues.models import GroupUsage, QueuedJob, TaskQueue
from taskqueues.services import priorities
from tests.factories import make_ce, make_group, make_job, make_queue, make_task_queue, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, User
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = pytest.mark.django_db


def text_of(response: Any) -> str:
    """Return the visible text of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


def rows_of(client: Client, query: str = "") -> list[Any]:
    response = client.get(f"/task-queues/{query}")
    assert response.status_code == HTTPStatus.OK
    rows: list[Any] = response.context["list"].rows
    return rows


def task_queue_of(job: Job) -> TaskQueue:
    return TaskQueue.objects.get(queued_jobs=job.pk)


# ---- who sees which --------------------------------------------------------------------------------------------------


def test_users_see_own_task_queues_and_on_request_those_of_sharing_groups_and_managed_vos(
    alice: User, vo: VO, group: Group, client_of: ClientOf
) -> None:
    sharing, apart = make_group(vo=vo, shares_jobs=True), make_group(vo=vo)
    mate, stranger = make_user(groups=[sharing]), make_user(groups=[apart])
    alice.memberships.create(group=sharing)
    own, shared = make_job(owner=alice, group=group), make_job(owner=mate, group=sharing)
    hidden = make_job(owner=stranger, group=apart)
    elsewhere = make_job(group=make_group(vo=make_vo()))
    ids = {job: task_queue_of(job).pk for job in (own, shared, hidden, elsewhere)}

    def seen(reader: User, query: str) -> set[int]:
        return {row.id for row in rows_of(client_of(reader), query)}

    assert seen(alice, "") == {ids[own]}
    assert seen(alice, "?whose=all") == {ids[own], ids[shared]}
    manager, operator = make_user(manages=[vo]), make_user(operator=True)
    assert seen(manager, "") == set()
    assert seen(manager, "?whose=all") == {ids[own], ids[shared], ids[hidden]}
    assert seen(operator, "?whose=all") == set(ids.values())
    for reader, job, status in (
        (alice, own, HTTPStatus.OK),
        (alice, shared, HTTPStatus.OK),
        (alice, hidden, HTTPStatus.NOT_FOUND),
        (alice, elsewhere, HTTPStatus.NOT_FOUND),
        (stranger, own, HTTPStatus.NOT_FOUND),
        (manager, hidden, HTTPStatus.OK),
        (manager, elsewhere, HTTPStatus.NOT_FOUND),
    ):
        assert client_of(reader).get(f"/task-queues/{ids[job]}/").status_code == status


def test_task_queues_of_others_are_sums_without_names(portal: Client, alice: User, vo: VO, group: Group) -> None:
    secret = make_group(name="secret_group", vo=vo, priority=5000.0)
    stranger = make_user(username="stranger", groups=[secret])
    mine = make_job(owner=alice, group=group, cpu_time_s=500)
    for _ in range(2):
        make_job(owner=stranger, group=secret, cpu_time_s=500)
    make_job(owner=stranger, group=secret, cpu_time_s=500, tags=["hidden-tag"])
    make_job(owner=stranger, group=secret, cpu_time_s=250_000)
    priorities.recalculate()
    (row,) = rows_of(portal, "?whose=all")
    # The group's 5000 are divided over four jobs: 2500, 1250 and 1250.
    assert row.before == (
        "1 task queue (1 job, priority 1,250) of longer jobs; 2 task queues (3 jobs, priority 3,750) of its segment"
    )
    assert (row.rank, row.priority, row.share) == ("4", "1,000", "21.1 %")
    for address in ("/task-queues/?whose=all", f"/task-queues/{task_queue_of(mine).pk}/"):
        text = text_of(portal.get(address))
        assert not any(name in text for name in ("stranger", "secret_group", "hidden-tag"))


def test_the_jobs_of_a_task_queue_are_listed_without_others_of_their_kind(
    portal: Client, alice: User, vo: VO, group: Group, client_of: ClientOf
) -> None:
    jobs = [make_job(owner=alice, group=group) for _ in range(3)]
    make_job(owner=alice, group=group, tags=["gpu"])
    task_queue = task_queue_of(jobs[0])
    (row, _) = sorted(rows_of(portal), key=lambda row: row.id)
    address = portal.get(f"/task-queues/{task_queue.pk}/").context["task_queue"].jobs_url
    assert address == row.jobs_url == f"/jobs/?q=owner%3A%2A+task-queue%3A{task_queue.pk}"

    def listed(reader: User) -> list[int]:
        return [job.id for job in client_of(reader).get(address).context["rows"]]

    newest_first = [job.pk for job in reversed(jobs)]
    for reader in (alice, make_user(manages=[vo]), make_user(operator=True)):
        assert listed(reader) == newest_first
    assert listed(make_user(groups=[group])) == []
    # "All that match".
    all_of_it = {"action": "hold", "scope": "all", "q": f"task-queue:{task_queue.pk}", "confirmed": "1", "shown": "3"}
    portal.post("/jobs/actions/", all_of_it)
    assert listed(alice) == []
    assert Job.objects.filter(status="Held").count() == 3


@pytest.mark.parametrize("text", ["task-queue:x", "task-queue:-1", f"task-queue:{2**63}"])
def test_the_id_of_a_task_queue_is_a_number(portal: Client, text: str) -> None:
    assert portal.get("/jobs/", {"q": text}).context["asked"].errors == (
        f'The id of a task queue is a number, not "{text.removeprefix("task-queue:")}".',
    )


# ---- terms -----------------------------------------------------------------------------------------------------------


def test_the_terms_multiply_to_the_priority(portal: Client, alice: User, vo: VO, group: Group) -> None:
    vo.history_fair_share = True
    vo.save()
    other = make_group(vo=vo, priority=3000.0)
    GroupUsage.objects.create(group=group, used_s=500.0)
    GroupUsage.objects.create(group=other, used_s=500.0)
    make_job(owner=make_user(groups=[group]), group=group)
    mine = make_job(owner=alice, group=group)
    for _ in range(3):
        make_job(owner=alice, group=group, tags=["gpu"])
    priorities.recalculate()
    task_queue = task_queue_of(mine)
    standing = task_queues.standing_of(
        TaskQueue.objects.select_related("owner", "group", "vo").get(pk=task_queue.pk), now=database_now()
    )
    assert standing is not None
    terms = standing.terms
    # Expected 1/4, used 1/2: the factor is 1/2; that of the other group is 3/2; normalized by 4000 / 5000.
    assert (terms.share, terms.owners) == (1000.0, 2)
    assert terms.correction == pytest.approx(0.4)
    assert terms.part == pytest.approx(1 / 4)
    assert terms.correction is not None
    assert terms.share * terms.correction / 2 * terms.part == pytest.approx(task_queue.priority)
    view = portal.get(f"/task-queues/{task_queue.pk}/").context["task_queue"]
    assert [(term.label, term.value) for term in view.standing.terms] == [
        ("Share", "1,000"),
        ("× correction", "0.4"),
        ("× part of the owner", "1 / 2"),
        ("× part of this task queue", "0.25"),
        ("= priority", "50"),
    ]


def test_a_group_that_shares_jobs_is_not_divided_over_owners(portal: Client, alice: User, vo: VO) -> None:
    sharing = make_group(vo=vo, shares_jobs=True, priority=100.0)
    mine = make_job(owner=alice, group=sharing)
    make_job(owner=make_user(groups=[sharing]), group=sharing)
    priorities.recalculate()
    view = portal.get(f"/task-queues/{task_queue_of(mine).pk}/").context["task_queue"]
    assert [term.value for term in view.standing.terms] == ["100", "1", "1", "0.5", "50"]


def test_a_task_queue_of_a_group_with_priority_0_is_never_drawn(portal: Client, alice: User, vo: VO) -> None:
    idle = make_group(vo=vo, priority=0.0)
    job = make_job(owner=alice, group=idle)
    make_queue(ce=make_ce(site=Site.objects.get(name="LCG.CERN.ch")))
    priorities.recalculate()
    (row,) = rows_of(portal)
    assert (row.rank, row.part, row.priority) == ("–", "0", "0")
    assert "is never drawn, because its group" in text_of(portal.get(f"/task-queues/{task_queue_of(job).pk}/"))


# ---- pages -----------------------------------------------------------------------------------------------------------


def test_a_task_queue_shows_its_requirements_its_jobs_and_why(portal: Client, alice: User, group: Group) -> None:
    make_queue(ce=make_ce(site=Site.objects.get(name="LCG.CERN.ch")))
    jobs = [make_job(owner=alice, group=group, memory_mb=8000, tags=["gpu"], sites=["LCG.CERN.ch"]) for _ in range(2)]
    response = portal.get(f"/task-queues/{task_queue_of(jobs[0]).pk}/")
    view = response.context["task_queue"]
    assert {fact.label: fact.value for fact in view.requirements}.items() >= {
        "Memory": "8,000 MB",
        "Tags": "gpu",
        "Sites": "LCG.CERN.ch",
    }.items()
    assert view.job_ids == [jobs[1].pk, jobs[0].pk]
    assert response.context["why"].text.summary.startswith("It waits because no queue that serves lhcb fits it")
    assert view.standing.before == ["It is not drawn, because no queue can run its jobs."]


def test_a_task_queue_that_has_emptied_does_not_exist(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    task_queue = task_queue_of(job)
    QueuedJob.objects.all().delete()
    assert portal.get(f"/task-queues/{task_queue.pk}/").status_code == HTTPStatus.NOT_FOUND
    assert rows_of(portal) == []
    assert "None of your jobs waits" in text_of(portal.get("/task-queues/"))


def test_pages_follow_each_other_by_priority(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_queues, "MOST_ON_PAGE", 2)
    made = [
        make_task_queue(owner=alice, group=group, tags=[f"t{n}"], priority=float(n), job_ids=[100 + n])
        for n in range(1, 6)
    ]
    expected = [task_queue.pk for task_queue in reversed(made)]
    assert [row.id for number in (1, 2, 3) for row in rows_of(portal, f"?page={number}")] == expected
    for number in ("0", "x", "99999999999", "-1"):
        assert [row.id for row in rows_of(portal, f"?page={number}")] == expected[:2]
    assert [row.id for row in rows_of(portal, "?page=77")] == expected[4:]


def test_many_jobs_are_an_estimate(portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_queues, "COUNTED_UP_TO", 2)
    make_task_queue(owner=alice, group=group, job_ids=[1, 2, 3])
    make_task_queue(owner=alice, group=group, tags=["a"], job_ids=[4, 5])
    assert sorted(row.jobs for row in rows_of(portal)) == ["2", "about 3"]


def test_the_number_of_queries_does_not_grow(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            rows_of(portal, "?whose=all")
        return len(captured)

    make_task_queue(owner=alice, group=group, job_ids=[1])
    queries()
    few = queries()
    for number in range(2, 31):
        make_task_queue(owner=alice, group=group, tags=[f"t{number}"], job_ids=[number])
    assert queries() == few
