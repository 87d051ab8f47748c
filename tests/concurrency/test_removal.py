"""Removal of jobs beside changes of them, and killed at any point: no job is lost, and none is in two places."""

import os
import signal
import sys
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Final

import pytest
from django.db import connections, transaction
from pytest_django import Settings

from matching.services import job_archive, retention
from taskqueues.models import UsageCounter
from tests.database.matching.removing import OLD, broken, ended, permit, referring
from tests.database.matching.test_job_archive import in_files
from tests.factories import NOW, make_group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Accounting, ArchiveFile, Job, RemovalSweep
from wms.jobs.queries import changes
from wms.jobs.services import counting, transitions

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.django_db(transaction=True)

#: Files whose functions are counted.
_WATCHED: Final = frozenset({job_archive.__file__, retention.__file__})
#: Events between two kills.
_STEP: Final = 7


def _book() -> None:
    """Let permission be given for all jobs, and everything be counted."""
    Accounting.objects.update_or_create(pk=1, defaults={"seen": changes.now().seen, "began_at": OLD})
    UsageCounter.objects.update_or_create(pk=1, defaults={"counted_until": NOW})
    permit()
    counting.add_changes()
    RemovalSweep.objects.all().delete()


class _Killer:
    """Kills this process at its so many-th begin or end of a function of ours, or call of the operating system."""

    def __init__(self, event: int) -> None:
        self.left = event

    def __call__(self, frame: FrameType, what: str, called: object) -> None:
        if frame.f_code.co_filename not in _WATCHED:
            return
        is_ours = what in {"call", "return"} and not frame.f_code.co_name.startswith("<")
        if is_ours or (what in {"c_call", "c_return"} and getattr(called, "__module__", "") == "posix"):
            self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _run_and_kill_at(event: int) -> bool:
    """Remove in a process of its own, and return whether it was killed."""
    connections.close_all()
    child = os.fork()
    if child == 0:
        try:
            sys.setprofile(_Killer(event))
            retention.remove_ended(now=NOW)
        finally:
            sys.setprofile(None)
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_a_kill_at_any_point_loses_no_job_and_doubles_none(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "JOBS_TOGETHER", 2)
    group = make_group()
    was_killed, event = True, 1
    while was_killed:
        archive = tmp_path / f"archive{event}"
        settings.WMS_ARCHIVE_DIR = str(archive)
        ArchiveFile.objects.all().delete()
        ids = {ended(group=group, at=OLD).pk for _ in range(3)}
        _book()
        was_killed = _run_and_kill_at(event)
        left = set(Job.objects.values_list("pk", flat=True))
        archived = {pk for pk in ids if job_archive.archived(pk)}
        assert left | archived == ids, f"lost when killed at {event}"
        assert not left & archived, f"in two places when killed at {event}"
        assert not left & {*in_files(archive)}, f"in a file and in the database when killed at {event}"
        RemovalSweep.objects.update(rests_until=None)
        retention.remove_ended(now=NOW)
        assert in_files(archive) == sorted(ids), f"after the next run, killed at {event}"
        assert not Job.objects.exists()
        assert not list(archive.glob(f"*/*{job_archive.PART}"))
        event += _STEP
    assert event > 100
    counting.add_changes()
    assert referring() == {}
    assert broken() == []


def test_a_job_that_somebody_is_rescheduling_keeps_those_of_its_submission() -> None:
    failed = ended(JobStatus.FAILED)
    other = ended(JobStatus.DONE, submission=failed.submission)
    _book()
    removed: list[int] = []

    def remove_meanwhile() -> None:
        removed.append(retention.remove_ended(now=NOW))
        connections.close_all()

    with transaction.atomic():
        transitions.record([failed.pk], status=JobStatus.RESCHEDULED, source="alice", now=NOW)
        thread = Thread(target=remove_meanwhile)
        thread.start()
        thread.join()
    assert removed == [0]
    _book()
    assert retention.remove_ended(now=NOW) == 0
    assert {*Job.objects.values_list("pk", flat=True)} == {failed.pk, other.pk}
