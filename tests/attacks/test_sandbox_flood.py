"""Quotas of sandboxes: one user cannot fill the store; files without a job are removed, those with one are kept."""

import io
import shutil
import tarfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.factories import make_group, make_job, make_token, make_user, submit
from tests.threads import at_once
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import InputSandbox, Job, Sandbox, SandboxUpload
from wms.jobs.services import sandbox_upkeep, sandboxes
from wms.jobs.services.sandbox_files import NoRoomError
from wms.jobs.services.sandbox_upkeep import SandboxQuotaError
from wms.jobs.services.sandboxes import NamedSandbox, TooManyOutputsError
from wms.jobs.sql.sandboxes import LEAST_BYTES
from wms.kernel.errors import WmsError
from wms.schedule import BEAT

MB = 1024 * 1024
DAY = timedelta(days=1)
NOW = timezone.now()

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def directory(settings: Settings, tmp_path: Path) -> Path:
    """Return the directory of this test's sandboxes."""
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    return tmp_path


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


def upload(content: bytes, owner: User, *, at: datetime = NOW, name: str = "run.sh") -> NamedSandbox:
    return sandboxes.upload(io.BytesIO(content), file_name=name, owner=owner, now=at)


def files_in(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def submit_naming(named: NamedSandbox, owner: User) -> int:
    body = {"executable": "run.sh", "input_sandbox": [sandboxes.reference_of(named.sandbox)]}
    return submit(parse_submission(body), owner=owner, now=NOW).jobs[0].id


# ---- the quota -------------------------------------------------------------------------------------------------------


def test_uploads_beyond_the_quota_are_refused_with_a_remedy(
    alice: User, group: Group, settings: Settings, directory: Path
) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = 10 * MB
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(alice)}")
    answers = [
        client.post("/api/v1/sandboxes/", {"file": SimpleUploadedFile(f"{number}.dat", bytes([number]) * MB)})
        for number in range(14)
    ]
    assert [answer.status_code for answer in answers] == [201] * 10 + [409] * 4
    body = answers[-1].json()
    assert body["code"] == "sandbox_quota_exceeded"
    assert "Delete jobs that you no longer need" in body["detail"]
    assert len(files_in(directory)) == Sandbox.objects.count() == 10
    # Others are not concerned.
    upload(b"x" * MB, make_user(groups=[group]))


def test_the_same_content_counts_once_for_each_owner(alice: User, group: Group, settings: Settings) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = MB + MB // 2
    for name in ("a", "b", "a"):
        upload(b"x" * MB, alice, name=name)
    bob = make_user(groups=[group])
    upload(b"x" * MB, bob)
    for owner in (alice, bob):
        with pytest.raises(SandboxQuotaError):
            upload(b"y" * MB, owner)


def test_names_of_one_content_cannot_fill_the_quota_of_the_vo(alice: User, settings: Settings) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = MB
    for number in range(10):
        upload(b"x" * MB, alice, name=f"name{number}")
    with pytest.raises(SandboxQuotaError, match="Your sandboxes, counted under each name, take 10,485,760 bytes"):
        upload(b"x" * MB, alice, name="name10")


def test_tiny_files_count_by_their_disk_blocks(alice: User, settings: Settings) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = 3 * LEAST_BYTES
    for number in range(3):
        upload(bytes([number]), alice)
    with pytest.raises(SandboxQuotaError):
        upload(b"more", alice)


def test_an_upload_named_like_an_output_counts_in_the_quota(alice: User, settings: Settings) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = MB
    upload(b"x" * MB, alice, name="job-1-output.tar.gz")
    with pytest.raises(SandboxQuotaError):
        upload(b"y", alice, name="job-2-output.tar.gz")


def test_simultaneous_uploads_do_not_exceed_the_quota(alice: User, settings: Settings, directory: Path) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = 3 * MB

    def attempt(number: int) -> bool:
        try:
            upload(bytes([number]) * MB, alice)
        except SandboxQuotaError:
            return False
        return True

    accepted = at_once([partial(attempt, number) for number in range(8)])
    assert sum(accepted) == Sandbox.objects.count() == len(files_in(directory)) == 3


# ---- clean-up --------------------------------------------------------------------------------------------------------


def test_the_removal_of_unused_sandboxes_is_a_periodic_task() -> None:
    assert "jobs.remove_unused_sandboxes" in {entry["task"] for entry in BEAT.values()}


def test_unreferenced_sandboxes_are_removed_after_the_grace_period(
    alice: User, directory: Path, settings: Settings
) -> None:
    settings.WMS_SANDBOX_QUOTA_BYTES = MB
    upload(b"x" * MB, alice)
    assert sandbox_upkeep.remove_unused(now=NOW + 0.9 * DAY) == 0
    assert sandbox_upkeep.remove_unused(now=NOW + 1.1 * DAY) == 1
    assert files_in(directory) == []
    assert not Sandbox.objects.exists()
    upload(b"y" * MB, alice)


def test_referenced_sandboxes_stay_until_the_job_is_deleted(alice: User, group: Group, directory: Path) -> None:
    named = upload(b"x", alice)
    job_id = submit_naming(named, alice)
    assert sandbox_upkeep.remove_unused(now=NOW + 10 * DAY) == 0
    assert len(files_in(directory)) == 1
    Job.objects.filter(pk=job_id).update(status=JobStatus.DELETED, ended_at=NOW)
    assert sandbox_upkeep.remove_unused(now=NOW + 11.1 * DAY) == 1
    assert files_in(directory) == []
    assert not InputSandbox.objects.exists()


def test_an_output_stays_until_its_job_is_deleted(alice: User, group: Group, directory: Path) -> None:
    content = io.BytesIO()
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    with tarfile.open(fileobj=content, mode="w:gz"):
        pass
    stored = sandboxes.store_output(job, content=content, now=NOW)
    Job.objects.filter(pk=job.pk).update(output_sandbox=stored)
    assert sandbox_upkeep.remove_unused(now=NOW + 10 * DAY) == 0
    assert len(files_in(directory)) == 1
    Job.objects.filter(pk=job.pk).update(status=JobStatus.DELETED)
    assert sandbox_upkeep.remove_unused(now=NOW + 11.1 * DAY) == 1
    assert files_in(directory) == []
    assert Job.objects.get(pk=job.pk).output_sandbox is None


def test_a_sandbox_stays_for_group_members_but_not_for_strangers(alice: User, group: Group, directory: Path) -> None:
    of_mate, of_stranger = upload(b"for bob", alice), upload(b"known to all", alice)
    submit_naming(of_mate, make_user(groups=[group]))
    stranger = make_user(groups=[make_group()])
    upload(b"known to all", stranger)
    submit_naming(of_stranger, stranger)
    assert sandbox_upkeep.remove_unused(now=NOW + 2 * DAY) == 0
    left = SandboxUpload.objects.filter(owner=alice)
    assert [uploaded.sandbox for uploaded in left] == [of_mate.sandbox]
    assert SandboxUpload.objects.filter(owner=stranger).exists()
    assert len(files_in(directory)) == 2


def test_unfinished_uploads_of_killed_processes_are_removed(alice: User, directory: Path) -> None:
    (directory / "incoming").mkdir()
    (directory / "incoming" / "left").write_bytes(b"x")
    sandbox_upkeep.remove_unused(now=timezone.now())
    assert files_in(directory) == ["incoming/left"]
    sandbox_upkeep.remove_unused(now=timezone.now() + 1.1 * DAY)
    assert files_in(directory) == []


@pytest.mark.parametrize("round_number", range(12))
def test_a_job_cannot_reference_a_removed_sandbox(
    alice: User, group: Group, directory: Path, round_number: int
) -> None:
    named = upload(b"x" * (round_number + 1), alice, at=NOW - 2 * DAY)
    bob = make_user(groups=[group])

    def name_it(owner: User) -> int:
        try:
            return submit_naming(named, owner)
        except WmsError:
            return 0

    works = [lambda: name_it(alice), lambda: sandbox_upkeep.remove_unused(now=NOW), lambda: name_it(bob)]
    _, removed, _ = at_once(works)
    jobs = Job.objects.count()
    assert bool(removed) is not bool(jobs)
    assert len(files_in(directory)) == Sandbox.objects.count() == (1 if jobs else 0)
    for given in InputSandbox.objects.select_related("sandbox"):
        with sandboxes.open_content(given.sandbox) as content:
            assert content.read() == b"x" * (round_number + 1)


@pytest.mark.parametrize("round_number", range(12))
def test_an_upload_while_the_same_content_is_removed_keeps_its_file(
    alice: User, directory: Path, round_number: int
) -> None:
    content = b"y" * (round_number + 1)
    upload(content, alice, at=NOW - 2 * DAY)
    bob = make_user()
    works: list[Callable[[], object]] = [
        lambda: upload(content, alice),
        lambda: sandbox_upkeep.remove_unused(now=NOW),
        lambda: upload(content, bob),
    ]
    at_once(works)
    with sandboxes.open_content(Sandbox.objects.get()) as stored:
        assert stored.read() == content
    assert len(files_in(directory)) == 1


# ---- outputs of jobs -------------------------------------------------------------------------------------------------


def output(text: str) -> io.BytesIO:
    """Return an output sandbox."""
    packed, content = io.BytesIO(), text.encode()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("out.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    packed.seek(0)
    return packed


def test_outputs_stored_with_a_job_token_are_limited(alice: User, directory: Path) -> None:
    job, other = make_job(owner=alice, status=JobStatus.RUNNING), make_job(owner=alice, status=JobStatus.RUNNING)
    sent = [output(f"{number}") for number in range(sandboxes.MAX_OUTPUTS_OF_JOB)]
    for content in sent:
        sandboxes.store_output(job, content=content, now=NOW)
    with pytest.raises(TooManyOutputsError, match=f"job {job.pk}"):
        sandboxes.store_output(job, content=output("one more"), now=NOW)
    assert len(files_in(directory)) == sandboxes.MAX_OUTPUTS_OF_JOB
    # What was uploaded may be sent again, other jobs are not held up, and neither is this one another day.
    sandboxes.store_output(job, content=sent[0], now=NOW)
    sandboxes.store_output(other, content=output("of another"), now=NOW)
    sandboxes.store_output(job, content=output("another day"), now=NOW + DAY)


def test_no_sandbox_is_stored_on_a_nearly_full_disk(alice: User, directory: Path, settings: Settings) -> None:
    settings.WMS_SANDBOX_MIN_FREE_MB = shutil.disk_usage(directory).total // MB
    job = make_job(owner=alice, status=JobStatus.RUNNING)
    with pytest.raises(NoRoomError):
        sandboxes.store_output(job, content=output("large"), now=NOW)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(alice)}")
    answer = client.post("/api/v1/sandboxes/", {"file": SimpleUploadedFile("a.dat", b"a")})
    assert (answer.status_code, answer.json()["code"]) == (503, "no_room")
    assert files_in(directory) == []
    assert not SandboxUpload.objects.exists()
