"""Actions on selected jobs and on all that a query matches: the question first, then the result."""

from http import HTTPStatus
from typing import Any

import pytest
from django.test import Client

from tests.factories import make_group, make_job, make_submission, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import bulk

pytestmark = pytest.mark.django_db
ACTIONS = "/jobs/actions/"


def statuses() -> list[str]:
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


def all_that_match(text: str, action: str, **more: str) -> dict[str, str]:
    return {"scope": "all", "q": text, "action": action, **more}


@pytest.fixture
def jobs(alice: User, group: Group) -> list[Job]:
    """Return Alice's jobs: two that wait, one that failed, one that is done."""
    submission = make_submission(owner=alice, group=group)
    return [
        make_job(submission=submission, status=status)
        for status in (JobStatus.WAITING, JobStatus.WAITING, JobStatus.FAILED, JobStatus.DONE)
    ]


def test_an_action_on_all_matches_asks_for_confirmation(portal: Client, jobs: list[Job]) -> None:
    make_job()
    response = portal.post(f"{ACTIONS}?q=group:lhcb_user", all_that_match("group:lhcb_user", "kill"))
    question = response.context["question"]
    assert (question.question, question.total, question.possible_count, question.impossible_count) == (
        "Kill 2 jobs?", 4, 2, 2,
    )  # fmt: skip
    assert [(share.status, share.jobs) for share in question.possible] == [("Waiting", 2)]
    assert [(share.status, share.jobs) for share in question.impossible] == [("Failed", 1), ("Done", 1)]
    page = response.content.decode()
    for text in ("Kill 2 jobs", "2 will be killed", "2 cannot be killed", "group:lhcb_user", 'name="shown" value="4"'):
        assert text in page
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done", "Waiting"]


def test_a_confirmed_action_changes_all_matches_and_lists_refusals(portal: Client, jobs: list[Job]) -> None:
    form = all_that_match("group:lhcb_user", "kill", confirmed="1", shown="4")
    response = portal.post(f"{ACTIONS}?q=group:lhcb_user", form, follow=True)
    assert response.redirect_chain == [("/jobs/?q=group%3Alhcb_user", 302)]
    page = response.content.decode()
    assert "2 jobs killed." in page
    assert f"2 not killed (not possible in its status): {jobs[2].pk}, {jobs[3].pk}." in page
    assert statuses() == ["Killed", "Killed", "Failed", "Done"]


@pytest.mark.parametrize("more", [{}, {"confirmed": "1"}, {"confirmed": "1", "shown": "x"}, {"shown": "4"}])
def test_without_confirmation_nothing_is_changed(more: dict[str, str], portal: Client, jobs: list[Job]) -> None:
    response = portal.post(ACTIONS, all_that_match("status:waiting", "kill", **more))
    assert response.context["question"].total == 2
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]


def test_an_increased_number_of_jobs_is_confirmed_again(portal: Client, jobs: list[Job]) -> None:
    form = all_that_match("status:waiting", "kill", confirmed="1", shown="1")
    response = portal.post(ACTIONS, form)
    assert "Nothing was done: 2 jobs match now instead of 1. Please confirm again." in response.content.decode()
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]
    portal.post(ACTIONS, {**form, "shown": "2"})
    assert statuses() == ["Killed", "Killed", "Failed", "Done"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("hold", ["Held", "Held", "Failed", "Done"]),
        ("delete", ["Deleted", "Deleted", "Deleted", "Deleted"]),
        ("reschedule", ["Waiting", "Waiting", "Waiting", "Done"]),
    ],
)
def test_each_action_is_possible_on_all_that_match(
    action: str, expected: list[str], portal: Client, jobs: list[Job]
) -> None:
    asked = portal.post(ACTIONS, all_that_match("", action))
    assert asked.context["question"].action == action
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]
    portal.post(ACTIONS, all_that_match("", action, confirmed="1", shown="4"))
    assert statuses() == expected


def test_held_jobs_are_released(portal: Client, jobs: list[Job]) -> None:
    portal.post(ACTIONS, all_that_match("status:waiting", "hold", confirmed="1", shown="2"))
    portal.post(ACTIONS, all_that_match("status:held", "release", confirmed="1", shown="2"))
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]


def test_reversible_actions_on_selected_jobs_need_no_confirmation(portal: Client, jobs: list[Job]) -> None:
    ids = [job.pk for job in jobs[:2]]
    response = portal.post(ACTIONS, {"action": "hold", "ids": ids}, follow=True)
    assert "2 jobs held." in response.content.decode()
    assert statuses() == ["Held", "Held", "Failed", "Done"]
    assert portal.post(ACTIONS, {"action": "delete", "ids": ids}).context["question"].question == "Delete 2 jobs?"


def test_a_question_without_a_possible_job_has_no_button(portal: Client, jobs: list[Job]) -> None:
    page = portal.post(ACTIONS, all_that_match("status:done", "kill")).content.decode()
    assert "1 cannot be killed" in page
    assert ">Kill 0 jobs</button>" not in page
    assert "Back" in page


def test_an_action_never_changes_jobs_of_others(vo: Any, client_of: ClientOf, jobs: list[Job]) -> None:
    stranger = make_user(groups=[make_group(vo=vo)])
    for text in ("", "owner:*", "owner:alice status:waiting", f"id:{jobs[0].pk}"):
        client_of(stranger).post(ACTIONS, all_that_match(text, "kill", confirmed="1", shown="100"))
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]


def test_all_jobs_of_everybody_need_a_criterion(client_of: ClientOf, jobs: list[Job]) -> None:
    operator = make_user(operator=True)
    form = all_that_match("owner:*", "kill", confirmed="1", shown="100")
    page = client_of(operator).post(ACTIONS, form, follow=True).content.decode()
    assert "Name at least one criterion" in page
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]
    client_of(operator).post(ACTIONS, {**form, "q": "owner:alice"})
    assert statuses() == ["Killed", "Killed", "Failed", "Done"]


@pytest.mark.parametrize("text", ["stats:waiting", "status:nonsense", "since:never", "71", f"group:{'g' * 65}"])
def test_a_query_with_an_error_is_refused(text: str, portal: Client, jobs: list[Job]) -> None:
    form = all_that_match(text, "kill", confirmed="1", shown="100")
    assert portal.post(ACTIONS, form).status_code == HTTPStatus.BAD_REQUEST
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]


def test_more_jobs_than_one_request_may_change_are_refused(
    portal: Client, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "MAX_JOBS", 3)
    for text in ("", "reason:*"):
        page = portal.post(ACTIONS, all_that_match(text, "kill", confirmed="1", shown="4"), follow=True)
        assert "More than 3 jobs match; narrow the query" in page.content.decode()
    assert statuses() == ["Waiting", "Waiting", "Failed", "Done"]


def test_the_action_bar_counts_the_possible_jobs(portal: Client, jobs: list[Job]) -> None:
    response = portal.get("/jobs/")
    assert {button.action: button.possible for button in response.context["buttons"]} == {
        "kill": 2, "hold": 2, "release": 0, "reschedule": 1, "delete": 4,
    }  # fmt: skip
    page = response.content.decode()
    assert "all 4 that match" in page
    assert 'data-allows="kill hold delete"' in page
    narrowed = portal.get("/jobs/?q=status:failed").context["buttons"]
    assert {button.action for button in narrowed if button.possible} == {"reschedule", "delete"}


def test_times_are_pinned_when_the_question_is_asked(portal: Client, jobs: list[Job]) -> None:
    page = portal.post(ACTIONS, all_that_match("before:1m", "kill"))
    asked = page.context["asked"]
    assert asked.text == "before:1m"
    assert asked.pinned.startswith("before:20")
    assert asked.pinned in page.content.decode()
