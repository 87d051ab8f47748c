"""Ended jobs leave the database at their age, with all that only they need, and nothing refers to them afterwards."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from random import Random
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.core.management import CommandError, call_command
from django.db.models import Count
from pytest_django import Settings

from matching.models import Match
from matching.services import removal_permits, retention
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot, PilotLog, PilotLogPart, PilotSecret
from resources.models import OutputName
from taskqueues.models import UsageCounter
from tests import factories
from tests.database.matching.removing import LATER, OLD, accounting, broken, ended, permit, referring, remove, sandbox
from tests.factories import NOW, make_job, make_match, make_submission, make_user
from wms.accounts.models import VO
from wms.accounts.services import admin_log
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import (
    Accounting,
    CurrentJobCount,
    InputSandbox,
    Job,
    JobBucket,
    JobBucketSum,
    JobHistory,
    Sandbox,
    SandboxUpload,
    StoredDescription,
    Submission,
    SubmissionCanary,
    SubmissionContent,
    SubmissionNotice,
)
from wms.jobs.services import counting, sandbox_upkeep
from wms.jobs.sql.retention import remove_jobs
from wms.kernel.errors import ConflictError, ForbiddenError

pytestmark = pytest.mark.django_db
__all__ = ["accounting"]


def test_an_old_job_is_removed_with_every_row_about_it() -> None:
    old, young = ended(), ended(at=NOW - timedelta(days=179))
    SubmissionNotice.objects.create(submission=old.submission, owner=old.owner, due_at=NOW)
    SubmissionCanary.objects.create(submission=old.submission, job_ids=[old.pk], reason="a", due_at=NOW)
    permit()
    assert remove() == 1
    assert list(Job.objects.all()) == [young]
    for rows in (Submission, SubmissionContent):
        assert list(rows.objects.values_list("pk", flat=True)) == [young.submission_id]
    assert JobHistory.objects.exclude(job=young).count() == Match.objects.exclude(job=young).count() == 0
    counting.add_changes()
    assert referring() == {}
    assert broken() == []


def test_nothing_is_removed_before_an_operator_has_allowed_it_for_the_vo() -> None:
    first, second = ended(), ended()
    assert remove() == 0
    removal_permits.look(first.vo, now=NOW)
    assert remove() == 0
    permit(first.vo)
    assert remove() == 1
    assert list(Job.objects.all()) == [second]
    permit(second.vo)
    removal_permits.withdraw(second.vo)
    assert remove() == 0


def test_only_an_operator_who_has_seen_the_present_ages_allows_it() -> None:
    vo, operator = ended().vo, make_user(operator=True)
    with pytest.raises(ConflictError):
        removal_permits.permit(vo, by=operator, now=NOW)
    removal_permits.look(vo, now=NOW)
    with pytest.raises(ForbiddenError):
        removal_permits.permit(vo, by=make_user(), now=NOW)
    vo.keep_done_days = 10
    vo.save()
    with pytest.raises(ConflictError):
        removal_permits.permit(vo, by=operator, now=NOW)
    assert remove() == 0


@pytest.mark.parametrize(("days", "removed"), [(100, 0), (0, 0), (180, 1), (190, 1), (201, 0)])
def test_a_shorter_age_than_the_permitted_one_removes_nothing_before_it_is_permitted(days: int, removed: int) -> None:
    vo = ended().vo
    permit(vo)
    vo.keep_done_days = days
    vo.save()
    assert remove() == removed


@pytest.mark.parametrize("status", sorted(FINAL))
def test_each_status_has_an_age_of_its_own(status: JobStatus) -> None:
    vo = factories.make_vo()
    group = factories.make_group(vo=vo)
    jobs = {each: ended(each, at=NOW - timedelta(days=11), group=group) for each in sorted(FINAL)}
    for each in FINAL:
        setattr(vo, f"keep_{each.lower()}_days", 10 if each is status else 0)
    vo.save()
    permit(vo)
    assert remove() == 1
    assert not Job.objects.filter(pk=jobs[status].pk).exists()


def _job_that_waits(job: Job) -> None:
    make_job(submission=job.submission, owner=job.owner, submitted_at=OLD)


def _open_lease(job: Job) -> None:
    make_match(job=job, leased_at=OLD)


def _usage_not_counted(job: Job) -> None:
    Match.objects.filter(job=job).update(ended_at=NOW + timedelta(seconds=1))


def _history_not_read(job: Job) -> None:
    # Of this transaction, which no snapshot before its end has.
    JobHistory.objects.create(job=job, changed_at=OLD, status=job.status, source="x")


def _no_accounting(_: Job) -> None:
    Accounting.objects.all().delete()


def _no_usage(_: Job) -> None:
    UsageCounter.objects.all().delete()


def _rescheduled(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RESCHEDULED, ended_at=None)


@pytest.mark.parametrize(
    "reason",
    [
        *(_job_that_waits, _open_lease, _usage_not_counted, _history_not_read, _no_accounting, _no_usage, _rescheduled),
    ],
)
def test_a_job_stays_that_is_needed(reason: Callable[[Job], None]) -> None:
    job = ended(JobStatus.KILLED)
    permit()
    reason(job)
    assert remove() == 0
    assert JobHistory.objects.filter(job=job).exists()


def test_a_job_whose_change_is_not_in_the_counters_yet_stays() -> None:
    ended()
    permit()
    assert retention.remove_ended(now=NOW) == 0
    assert remove() == 1


def test_jobs_of_a_submission_leave_one_after_the_other_and_the_submission_with_the_last() -> None:
    done = ended(JobStatus.DONE, at=NOW - timedelta(days=50))
    ended(JobStatus.DELETED, at=NOW - timedelta(days=50), submission=done.submission)
    permit()
    assert remove() == 1
    assert list(Submission.objects.all()) == [done.submission]
    assert broken() == []
    assert remove(NOW + timedelta(days=131)) == 1
    assert not Submission.objects.exists()


def test_a_description_goes_with_the_last_job_that_has_it() -> None:
    shared = [ended(arguments="shared"), make_job(arguments="shared", submitted_at=OLD)]
    alone = ended(arguments="alone")
    permit()
    assert remove() == 2
    assert remove(LATER) == 0
    assert list(StoredDescription.objects.all()) == [shared[1].stored_description]
    assert alone.stored_description_id != shared[0].stored_description_id
    assert referring() == {}


def test_a_new_job_does_not_get_a_description_that_is_about_to_go() -> None:
    old = ended(arguments="same")
    permit()
    assert remove() == 1
    # A transaction that has found the description before it was retired commits only now.
    late = make_job(submitted_at=NOW)
    Job.objects.filter(pk=late.pk).update(stored_description=old.stored_description_id)
    new = make_job(arguments="same", submitted_at=NOW)
    assert new.stored_description_id != old.stored_description_id
    remove(LATER)
    assert referring() == {}
    assert StoredDescription.objects.filter(pk=old.stored_description_id).exists()


def test_many_descriptions_go_in_several_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        ended(arguments=str(number))
    permit()
    assert remove() == 5
    monkeypatch.setattr(retention, "_DESCRIPTIONS_TOGETHER", 2)
    remove(LATER)
    assert StoredDescription.objects.count() == 0


def test_a_removal_that_is_stopped_ends_with_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [ended(at=OLD - timedelta(days=1)), ended()]
    permit()
    monkeypatch.setattr(retention, "JOBS_TOGETHER", 1)

    def stopping(job_ids: list[int], **rest: Any) -> None:
        remove_jobs(job_ids, **rest)
        for vo in VO.objects.all():
            removal_permits.withdraw(vo)

    monkeypatch.setattr(retention, "remove_jobs", stopping)
    assert remove() == 1
    assert list(Job.objects.all()) == jobs[1:]


def test_a_retired_description_is_kept_while_a_transaction_may_be_open_that_uses_it() -> None:
    ended()
    permit()
    assert remove() == 1
    remove(NOW + retention.DESCRIPTION_GRACE)
    assert StoredDescription.objects.count() == 1
    remove(NOW + retention.DESCRIPTION_GRACE + timedelta(seconds=1))
    assert StoredDescription.objects.count() == 0


def test_a_file_that_another_job_has_too_stays(settings: Settings, tmp_path: object) -> None:
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    old, other = ended(), make_job(submitted_at=OLD)
    shared = sandbox()
    for job in (old, other):
        InputSandbox.objects.create(job=job, sandbox=shared, file_name="shared")
        SandboxUpload.objects.create(sandbox=shared, owner=job.owner, file_name="shared", uploaded_at=OLD)
    output = sandbox()
    Job.objects.filter(pk=old.pk).update(output_sandbox=output)
    SandboxUpload.objects.create(sandbox=output, owner=old.owner, file_name="o", is_output=True, uploaded_at=OLD)
    permit()
    assert remove() == 1
    sandbox_upkeep.remove_unused(now=NOW)
    assert list(Sandbox.objects.all()) == [shared]
    assert list(SandboxUpload.objects.values_list("owner", flat=True)) == [other.owner_id]
    assert broken() == []


def test_who_wrote_a_logical_name_stays_known_and_no_id_is_used_again() -> None:
    job = ended()
    OutputName.objects.create(vo=job.vo, lfn="/vo/file", writer_id=job.pk, owner=job.owner)
    permit()
    assert remove() == 1
    assert OutputName.objects.get().writer_id == job.pk
    assert make_job().pk > job.pk


def test_a_sweep_goes_from_the_oldest_and_continues_where_the_last_run_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [ended(at=OLD - timedelta(days=day)) for day in (1, 4, 2, 3)]
    permit()
    monkeypatch.setattr(retention, "JOBS_TOGETHER", 1)
    monkeypatch.setattr(retention, "PAGES_OF_RUN", 3)
    counting.add_changes()
    assert retention.remove_ended(now=NOW) == 3
    assert list(Job.objects.all()) == [jobs[0]]
    assert retention.remove_ended(now=NOW) == 1
    ended(group=jobs[0].group)
    counting.add_changes()
    assert retention.remove_ended(now=NOW + retention.REST / 2) == 0
    assert retention.remove_ended(now=NOW + retention.REST) == 1


def test_submissions_whose_ids_alternate_are_removed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ended(), ended()
    for job in (first, second):
        ended(submission=job.submission)
    permit()
    monkeypatch.setattr(retention, "JOBS_TOGETHER", 4)
    monkeypatch.setattr(retention, "PAGES_OF_RUN", 1)
    counting.add_changes()
    assert retention.remove_ended(now=NOW) == 4


def _buckets() -> list[object]:
    return [*JobBucket.objects.order_by("pk").values(), *JobBucketSum.objects.order_by("pk").values()]


@pytest.mark.parametrize("seed", range(3))
def test_of_a_random_system_only_what_is_due_goes_and_the_rest_is_whole(seed: int) -> None:
    chance = Random(seed)
    vos = [factories.make_vo() for _ in range(2)]
    for vo in vos:
        for each in FINAL:
            setattr(vo, f"keep_{each.lower()}_days", chance.choice([0, 20, 100, None]))
        vo.save()
    for _ in range(12):
        submission = make_submission(group=factories.make_group(vo=chance.choice(vos)))
        at = NOW - timedelta(days=chance.randrange(250))
        for _ in range(chance.randrange(1, 4)):
            status = chance.choice([*sorted(FINAL) * 4, JobStatus.HELD])
            wanted = {"submission": submission, "arguments": str(chance.randrange(3))}
            if status in FINAL:
                ended(status, at=at, **wanted)
            else:
                make_job(status=status, submitted_at=at, **wanted)  # type: ignore[arg-type]
        factories.make_bucket(owner=submission.owner, group=submission.group, begun_at=at.astimezone(UTC), done=2)
    permit(*vos)
    buckets, expected = _buckets(), _kept(NOW)
    remove()
    assert set(Job.objects.values_list("pk", flat=True)) == expected
    counting.add_changes()
    assert referring() == {}
    assert broken() == []
    assert _buckets() == buckets
    counted = {
        row["status"]: row["jobs"] for row in CurrentJobCount.objects.order_by("status").values("status", "jobs")
    }
    assert set(counted) >= {
        status for (status,) in Job.objects.values_list("status").annotate(n=Count("pk")).values_list("status")
    }


def _kept(now: datetime) -> set[int]:
    """Return the ids of jobs that stay, computed from the rows one by one."""
    kept = set()
    for job in Job.objects.select_related("vo"):
        own = getattr(job.vo, f"keep_{job.status.lower()}_days", None)
        days = own if own is not None else 30 if job.status == JobStatus.DELETED else 180
        whole = not Job.objects.filter(submission=job.submission_id, ended_at=None).exists()
        is_old = job.ended_at is not None and days > 0 and job.ended_at < now - timedelta(days=days)
        if not (whole and is_old):
            kept.add(job.pk)
    return kept


def output_of(*arguments: str) -> str:
    out = StringIO()
    call_command("retention", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_shows_what_would_be_removed_and_permits_it() -> None:
    job = ended()
    name, olga = job.vo.name, make_user(username="olga", operator=True)
    shown = output_of()
    assert f"{name}: removal not permitted" in shown
    assert "Done     kept for 180 days; older: 1, about" in shown
    assert "the oldest of 2025-11-13" in shown
    assert remove() == 0
    output_of("--vo", name, "--permit", "--by", olga.username)
    assert f"{name}: removal permitted by olga" in output_of("--vo", name)
    VO.objects.filter(pk=job.vo_id).update(keep_done_days=3)
    assert "Done: not removed, as their age is shorter" in output_of("--vo", name)
    output_of("--vo", name, "--stop")
    assert remove() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--vo", "nobody"],
        ["--permit", "--by", "olga"],
        ["--vo", "x1", "--permit"],
        ["--vo", "x1", "--permit", "--by", "nobody"],
        ["--vo", "x1", "--permit", "--by", "olga"],
        ["--vo", "x1", "--permit", "--stop"],
    ],
)
def test_the_command_refuses_what_is_not_clear(arguments: list[str]) -> None:
    factories.make_vo(name="x1")
    make_user(username="olga", operator=True)
    with pytest.raises(CommandError):
        output_of(*arguments)


def test_an_ended_pilot_goes_when_no_job_is_left_that_it_ran() -> None:
    done, failed = ended(), ended(JobStatus.FAILED)
    VO.objects.filter(pk=failed.vo_id).update(keep_failed_days=0)
    Pilot.objects.update(status=PilotStatus.DONE, submitted_at=OLD, ended_at=OLD)
    ran_failed = Pilot.objects.get(matches__job=failed)
    alive = factories.make_pilot(vo=done.vo)
    Pilot.objects.filter(pk=alive.pk).update(submitted_at=OLD)
    young = factories.make_pilot(vo=done.vo)
    Pilot.objects.filter(pk=young.pk).update(status=PilotStatus.DONE, ended_at=NOW)
    other = factories.make_pilot(vo=factories.make_vo())
    Pilot.objects.filter(pk=other.pk).update(status=PilotStatus.DONE, submitted_at=OLD, ended_at=OLD)
    permit(done.vo, failed.vo)
    for pilot in Pilot.objects.all():
        PilotLogPart.objects.create(log=PilotLog.objects.create(pilot=pilot, changed_at=OLD), offset=0, text="x")
        PilotSecret.objects.create(pilot=pilot, digest=bytes([pilot.pk % 256]) * 32, expires_at=OLD)
    assert remove() == 1
    assert {*Pilot.objects.all()} == {ran_failed, alive, young, other}
    assert PilotLogPart.objects.count() == PilotSecret.objects.count() == 4


def test_the_log_of_the_admin_is_kept_for_ever_or_for_the_days_that_are_set(settings: Settings) -> None:
    for at in (OLD, NOW):
        entry = LogEntry.objects.create(user=make_user(), action_flag=1)
        LogEntry.objects.filter(pk=entry.pk).update(action_time=at)
    assert admin_log.remove_old(now=NOW) == 0
    settings.WMS_KEEP_ADMIN_LOG_DAYS = 100
    assert admin_log.remove_old(now=NOW) == 1
    assert LogEntry.objects.get().action_time == NOW
