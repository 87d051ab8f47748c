"""Constraints of submissions and sandboxes: PostgreSQL refuses each row that breaks one."""

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.constraints import broken_constraint, change, insert_again
from tests.factories import NOW, make_job, make_submission, make_user, make_vo
from wms.jobs.models import (
    Accounting,
    ArchiveFile,
    CountOfJobs,
    InputSandbox,
    JobBucket,
    JobBucketSum,
    JobCount,
    RemovalSweep,
    Sandbox,
    SandboxUpload,
    SavedDescription,
    SavedSyntax,
    SiteJobCount,
    StoredBytes,
    Submission,
    SubmissionJobCount,
)
from wms.jobs.sql.counts import add_count_changes

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("constraint", "write"),
    [
        ("request_id_is_used_once_by_its_owner", lambda: insert_again(_submission())),
        ("a_user_uploads_a_content_under_a_name_once", lambda: insert_again(_upload())),
        ("a_job_names_a_sandbox_once", lambda: insert_again(_input())),
        ("stored_bytes_of_a_user_in_a_vo_are_one_row", lambda: insert_again(_stored_bytes())),
        ("saved_description_has_a_name_of_its_own", lambda: insert_again(_saved())),
        ("saved_description_has_known_syntax", lambda: change(_saved(), syntax="xml")),
        ("job_count_is_one_row", lambda: insert_again(_count(JobCount))),
        ("site_job_count_is_one_row", lambda: insert_again(_count(SiteJobCount))),
        ("submission_job_count_is_one_row", lambda: insert_again(_count(SubmissionJobCount))),
        ("job_bucket_is_one_row", lambda: insert_again(_bucket())),
        ("job_bucket_sum_is_one_row", lambda: insert_again(_sum())),
        ("equal_descriptions_are_stored_once", lambda: insert_again(make_job().stored_description)),
        (
            "removal_sweep_has_one_row",
            lambda: RemovalSweep.objects.create(id=2, submitted_at=NOW, submission_id=uuid4()),
        ),
        ("archive_file_has_a_name_of_its_own", lambda: insert_again(_archive_file())),
        ("accounting_has_one_row", lambda: Accounting.objects.create(id=2, seen="1:1:", began_at=NOW)),
    ],
)
def test_the_database_refuses(constraint: str, write: Callable[[], object]) -> None:
    assert broken_constraint(write) == constraint


def _submission() -> Submission:
    submission = make_submission()
    submission.request_id = uuid4()
    submission.save()
    return submission


def _sandbox() -> Sandbox:
    return Sandbox.objects.create(digest="0" * 64, size_bytes=1, is_archive=False, created_at=NOW)


def _upload() -> SandboxUpload:
    return SandboxUpload.objects.create(sandbox=_sandbox(), owner=make_user(), file_name="input.txt", uploaded_at=NOW)


def _archive_file() -> ArchiveFile:
    return ArchiveFile.objects.create(
        vo=make_vo(), day=NOW, number=1, jobs=1, first_job_id=1, last_job_id=1, size_bytes=1, digest="0" * 64
    )


def _stored_bytes() -> StoredBytes:
    _upload()
    return StoredBytes.objects.get()


def _input() -> InputSandbox:
    return InputSandbox.objects.create(job=make_job(), sandbox=_sandbox(), file_name="input.txt")


def _saved() -> SavedDescription:
    return SavedDescription.objects.create(
        owner=make_user(), name="scan", syntax=SavedSyntax.JDL, text="[ ]", saved_at=NOW
    )


def _count(counter: type[CountOfJobs]) -> CountOfJobs:
    make_job()
    add_count_changes()
    return counter._default_manager.get()


def _sum() -> JobBucketSum:
    return JobBucketSum.objects.create(width_s=3600, begun_at=NOW, grouping="type", key=0, job_type="User")


def _bucket() -> JobBucket:
    job = make_job()
    return JobBucket.objects.create(
        width_s=3600, begun_at=NOW, owner=job.owner, group=job.group, vo=job.vo, job_type="User"
    )
