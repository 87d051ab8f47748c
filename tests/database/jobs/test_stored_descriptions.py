"""Descriptions that jobs share, and outputs stored beside them (ADR 57)."""

import hashlib

import pytest
from django.db import transaction

from tests import factories
from tests.factories import NOW
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, OutputTail, StoredDescription
from wms.jobs.services import editing, transitions
from wms.jobs.services.submission import submit
from wms.jobs.sql import store_descriptions

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return factories.make_user(username="alice", groups=[factories.make_group()])


def submitted(owner: User, *jobs: dict[str, object]) -> list[Job]:
    result = submit(parse_submission({"jobs": list(jobs)}), owner=owner, now=NOW)
    return [Job.objects.get(pk=job.id) for job in result.jobs]


def test_jobs_of_any_submission_share_an_equal_description(alice: User) -> None:
    one, same, other = submitted(alice, {"executable": "a"}, {"executable": "a"}, {"executable": "b"})
    (later,) = submitted(alice, {"executable": "a", "priority": one.priority})
    assert one.stored_description_id == same.stored_description_id == later.stored_description_id
    assert [job.description["executable"] for job in (one, other, later)] == ["a", "b", "a"]
    assert StoredDescription.objects.count() == 2


def test_a_description_that_contains_the_id_of_its_job_is_not_shared(alice: User) -> None:
    body = {"executable": "a", "arguments": "%j %s", "parameters": {"values": ["x", "x"]}}
    submit(parse_submission(body), owner=alice, now=NOW)
    jobs = Job.objects.order_by("pk")
    assert [job.description["arguments"] for job in jobs] == [f"{job.pk} x" for job in jobs]


def test_texts_of_the_same_content_are_one_description_and_the_digest_is_of_the_stored_form() -> None:
    with transaction.atomic():
        stored = store_descriptions(['{"a": 1, "bé": [2]}', '{"bé":[2],"a":1}', '{"a": 2}'])
        again = store_descriptions(['{"a":2}', '{"c":"\\u2028"}'])
    assert stored['{"a": 1, "bé": [2]}'] == stored['{"bé":[2],"a":1}'] != stored['{"a": 2}'] == again['{"a":2}']
    row = StoredDescription.objects.get(pk=stored['{"a": 2}'])
    # The first byte is the version of the form.
    assert str(row) == hashlib.sha256(b'\x01{"a": 2}').hexdigest()
    assert StoredDescription.objects.count() == 3


def test_an_edited_job_leaves_the_description_of_the_others(alice: User) -> None:
    one, other = submitted(alice, {"executable": "a"}, {"executable": "a"})
    editing.edit(one.pk, changes={"priority": 9}, by=alice, now=NOW)
    one, other = (Job.objects.get(pk=job.pk) for job in (one, other))
    assert (one.description["priority"], one.priority) == (9, 9)
    assert other.description == {**one.description, "priority": other.priority}


def test_the_output_of_an_attempt_is_removed_when_the_job_waits_again() -> None:
    first, second, silent = (
        factories.make_job(status=JobStatus.RESCHEDULED, std_output_tail=tail) for tail in ("one", "two", "")
    )
    assert [job.std_output_tail for job in (first, second, silent)] == ["one", "two", ""]
    assert OutputTail.objects.count() == 2
    with transaction.atomic():
        transitions.record([first.pk, silent.pk], status=JobStatus.WAITING, source="test", now=NOW)
    assert list(OutputTail.objects.values_list("job", "text")) == [(second.pk, "two")]
    assert [Job.objects.get(pk=job.pk).std_output_tail for job in (first, second, silent)] == ["", "two", ""]
