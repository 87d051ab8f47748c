"""Quotas of stored sandboxes and outputs: who is beyond one is refused, and nobody else is (ADR 86)."""

import gzip
import io
import tarfile
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from tests.attacks.users import client_of, post
from tests.factories import (
    make_group,
    make_job,
    make_user,
    make_vo,
)
from tests.problems import of_problem
from wms.accounts.models import Group, User
from wms.jobs.models import Job, StoredBytes
from wms.jobs.services import sandbox_upkeep
from wms.jobs.services.sandbox_upkeep import SandboxQuotaError
from wms.jobs.services.sandboxes import store_output


def of_random_bytes(size_bytes: int, name: str) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, Random(name).randbytes(size_bytes))


def output_of(job: Job, size_bytes: int) -> None:
    """Store an output of about this size for a job, as its pilot does."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("std.out")
        member.size = size_bytes
        archive.addfile(member, io.BytesIO(Random(job.pk).randbytes(size_bytes)))
    # Without the time of packing, so that the output of a job is the same content in each second.
    content = gzip.compress(packed.getvalue(), mtime=0)
    store_output(job, content=io.BytesIO(content), now=timezone.now())


@pytest.fixture
def empty_store(tmp_path: Path, settings: Settings) -> None:
    options = {**settings.STORAGES["sandboxes"], "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": options}


@pytest.mark.django_db
@pytest.mark.usefixtures("empty_store")
def test_outputs_of_one_user_have_a_quota_and_those_of_others_are_stored(
    eve: User, bob: User, group: Group, settings: Settings
) -> None:
    settings.WMS_OUTPUT_QUOTA_BYTES = 250_000
    jobs = [make_job(owner=eve, group=group) for _ in range(3)]
    for job in jobs[:2]:
        output_of(job, 100_000)
        output_of(job, 100_000)  # a repeated upload is the same one
    with pytest.raises(SandboxQuotaError, match=r"Outputs of jobs of eve take 200,\d+ bytes .* more than 250,000"):
        output_of(jobs[2], 100_000)
    output_of(make_job(owner=bob, group=group), 100_000)
    warnings = post(client_of(eve)).json()["warnings"]
    assert any("further outputs are refused" in warning for warning in warnings)
    browser = Client()
    browser.force_login(eve)
    page = browser.get("/accounts/").content.decode()
    assert "<dt>Jobs submitted today (UTC)</dt><dd>1 of 100,000</dd>" in page
    assert "<dt>Outputs of jobs</dt><dd>195" in page
    stored = StoredBytes.objects.get(owner=eve)
    assert (stored.vo, stored.input_bytes) == (group.vo, 0)
    uploaded = client_of(eve).post("/api/v1/sandboxes/", {"file": of_random_bytes(50_000, "a")}, format="multipart")
    assert uploaded.status_code == 201


@pytest.mark.django_db
@pytest.mark.usefixtures("empty_store")
def test_a_vo_that_stores_too_much_is_refused_and_others_are_not(
    eve: User, bob: User, group: Group, settings: Settings
) -> None:
    settings.WMS_VO_QUOTA_BYTES = 250_000
    other = make_group(name="atlas_user", vo=make_vo(name="atlas"))
    output_of(make_job(owner=eve, group=group), 100_000)
    answers = [
        client_of(user).post("/api/v1/sandboxes/", {"file": of_random_bytes(100_000, name)}, format="multipart")
        for user, name in ((bob, "b"), (eve, "c"), (make_user(groups=[other]), "d"))
    ]
    assert [answer.status_code for answer in answers] == [201, 409, 201]
    assert of_problem(answers[1].json())[1] == "sandbox_quota_exceeded"


@pytest.mark.django_db
@pytest.mark.usefixtures("empty_store")
def test_removed_sandboxes_free_the_quota(eve: User, group: Group, settings: Settings) -> None:
    settings.WMS_OUTPUT_QUOTA_BYTES = 150_000
    first, second = (make_job(owner=eve, group=group) for _ in range(2))
    output_of(first, 100_000)
    with pytest.raises(SandboxQuotaError):
        output_of(second, 100_000)
    sandbox_upkeep.remove_unused(now=timezone.now() + timedelta(days=3))
    assert StoredBytes.objects.get().output_bytes == 0
    output_of(second, 100_000)
