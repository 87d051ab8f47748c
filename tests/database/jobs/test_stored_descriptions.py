"""Descriptions that jobs share, and outputs stored beside them (ADR 57)."""

import hashlib
import json
from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from matching.services.match import match
from matching.services.offers import OfferRequest
from tests import factories
from tests.factories import NOW, submit
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, StoredDescription
from wms.jobs.queries import outputs_of
from wms.jobs.services import editing, transitions
from wms.jobs.sql.arrivals import store_descriptions

pytestmark = pytest.mark.django_db


@pytest.fixture
def alice() -> User:
    return factories.make_user(username="alice", groups=[factories.make_group()])


def submitted(owner: User, *jobs: Mapping[str, object]) -> list[Job]:
    result = submit(parse_submission({"jobs": list(jobs)}), owner=owner, now=NOW)
    return [Job.objects.get(pk=job.id) for job in result.jobs]


def test_jobs_of_any_submission_share_an_equal_description(alice: User) -> None:
    one, same, other = submitted(alice, {"executable": "a"}, {"executable": "a"}, {"executable": "b"})
    (later,) = submitted(alice, {"executable": "a", "priority": one.priority})
    assert one.stored_description_id == same.stored_description_id == later.stored_description_id
    assert [job.description["executable"] for job in (one, other, later)] == ["a", "b", "a"]
    assert StoredDescription.objects.count() == 2


def test_jobs_that_differ_in_name_only_share_a_description_and_keep_their_names(alice: User) -> None:
    names = ["one", 'a "quoted", {braced} \\ name', "", "NULL", "été 日本 \U0001f600"]
    jobs = submitted(alice, *({"executable": "a", "job_name": name} for name in names))
    assert [job.job_name for job in jobs] == [job.description["job_name"] for job in jobs] == names
    assert StoredDescription.objects.count() == 1
    assert "job_name" not in StoredDescription.objects.get().description


def test_an_edited_name_stores_no_description(alice: User) -> None:
    one, other = submitted(alice, {"executable": "a", "job_name": "one"}, {"executable": "a", "job_name": "other"})
    editing.edit(one.pk, changes={"job_name": "new"}, by=alice, now=NOW)
    one, other = (Job.objects.get(pk=job.pk) for job in (one, other))
    assert [job.description["job_name"] for job in (one, other)] == [one.job_name, other.job_name] == ["new", "other"]
    assert one.stored_description_id == other.stored_description_id
    assert StoredDescription.objects.count() == 1


def test_a_description_of_the_last_version_is_read_and_edited(alice: User) -> None:
    """Those had the name of the job in them."""
    (job,) = submitted(alice, {"executable": "a", "job_name": "stale"})
    with transaction.atomic():
        text = json.dumps({**job.description, "job_name": "one"})
        Job.objects.filter(pk=job.pk).update(stored_description=store_descriptions([text])[text], job_name="one")
    before = Job.objects.get(pk=job.pk)
    assert before.description == {**job.description, "job_name": "one"}
    editing.edit(job.pk, changes={"priority": 9}, by=alice, now=NOW)
    assert Job.objects.get(pk=job.pk).description == {**before.description, "priority": 9}
    editing.edit(job.pk, changes={"job_name": "new"}, by=alice, now=NOW)
    edited = Job.objects.get(pk=job.pk)
    assert (edited.job_name, edited.description) == ("new", {**before.description, "priority": 9, "job_name": "new"})


def test_a_lease_has_the_name_of_the_job_however_its_description_is_stored(alice: User) -> None:
    (job,) = submitted(alice, {"executable": "a", "job_name": "one"})
    pilot = factories.make_pilot(vo=job.vo)
    request_id = uuid4()

    def leased() -> list[Mapping[str, Any]]:
        offer = OfferRequest(cpu_time_s=300_000)
        leases = match(offer, request_id=request_id, pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
        return [lease.description for lease in leases]

    expected = [{**job.description, "job_name": "one"}]
    assert leased() == expected
    with transaction.atomic():
        text = json.dumps({**job.description, "job_name": "stored before"})
        Job.objects.filter(pk=job.pk).update(stored_description=store_descriptions([text])[text])
    # The same request again is answered from its lease.
    assert leased() == expected


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


def test_the_output_of_an_attempt_is_that_of_an_earlier_one_when_the_job_waits_again() -> None:
    first, second, silent = (
        factories.make_job(status=JobStatus.RESCHEDULED, reschedules=1, std_output_tail=tail)
        for tail in ("one", "two", "")
    )
    assert [job.std_output_tail for job in (first, second, silent)] == ["one", "two", ""]
    with transaction.atomic():
        transitions.record([first.pk, silent.pk], status=JobStatus.WAITING, source="test", now=NOW)
    jobs = [Job.objects.get(pk=job.pk) for job in (first, second, silent)]
    assert [job.std_output_tail for job in jobs] == ["", "two", ""]
    assert [(job.attempt, [(tail.attempt, tail.std_output) for tail in outputs_of(job)]) for job in jobs] == [
        (1, [(0, "one")]),
        (0, [(0, "two")]),
        (1, []),
    ]
