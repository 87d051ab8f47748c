"""The mark of the highest ids: a database that was set back gives no id again, and matching pauses."""

import json
import stat
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from pytest_django import Settings

from tests.factories import make_job, make_vo
from wms.accounts.models import VO
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.kernel.trusted_paths import UntrustedPathError
from wms.operations import id_marks
from wms.operations.id_marks import STEP, keep, mark_file
from wms.operations.models import IdMark

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def directory(settings: Settings, tmp_path: Path) -> Path:
    settings.WMS_ID_MARK_DIR = str(tmp_path / "marks")
    return tmp_path / "marks"


def file() -> Path:
    return mark_file(IdMark.objects.get().database)


def content() -> dict[str, Any]:
    mark: dict[str, Any] = json.loads(file().read_bytes())
    return mark


def set_back(row: IdMark) -> None:
    """Let the database be as it was when it had this row, but for its sequences, which are higher than they were."""
    IdMark.objects.update(versions=row.versions)


def test_the_mark_says_which_ids_were_given() -> None:
    job = make_job()
    assert not keep().raised
    assert content()["given"]["jobs_job_id_seq"] == job.pk
    assert stat.S_IMODE(file().stat().st_mode) == 0o600
    assert stat.S_IMODE(file().parent.stat().st_mode) == 0o700

    written = file().read_bytes()
    assert not keep().raised
    assert file().read_bytes() == written  # an idle system writes nothing

    another = make_job()
    keep()
    assert content()["given"]["jobs_job_id_seq"] == another.pk


def test_a_database_that_was_set_back_goes_on_beyond_the_mark_and_pauses(settings: Settings) -> None:
    vo = make_vo(name="lhcb")
    keep()
    before = IdMark.objects.get()
    lost = [make_job().pk for _ in range(3)]
    keep()
    unmarked = make_job().pk  # after the last writing
    set_back(before)
    Job.objects.all().delete()

    kept = keep()
    assert kept.was_set_back
    assert kept.raised["jobs_job_id_seq"] == lost[-1] + STEP
    assert make_job().pk == lost[-1] + STEP + 1 > unmarked
    vo.refresh_from_db()
    assert vo.paused_until is not None
    left_s = (vo.paused_until - database_now()).total_seconds()
    assert settings.WMS_LEASE_S - 60 < left_s <= settings.WMS_LEASE_S
    assert "the database was restored" in vo.why_paused(database_now())

    VO.objects.update(paused_until=None)
    assert not keep().was_set_back  # once
    vo.refresh_from_db()
    assert vo.paused_until is None


def test_a_process_that_is_killed_before_it_writes_the_file_is_no_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    keep()
    written = file().read_bytes()

    def killed(*_arguments: object) -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        make_job()
        with monkeypatch.context() as patch:
            patch.setattr(id_marks, "write_private", killed)
            with pytest.raises(KeyboardInterrupt):
                keep()
        assert file().read_bytes() == written
    kept = keep()
    assert not kept.was_set_back
    assert not kept.raised


def test_another_machine_has_a_file_of_its_own(settings: Settings, directory: Path) -> None:
    for machine in ("one", "two", "one", "two", "one"):
        settings.WMS_ID_MARK_DIR = str(directory / machine)
        make_job()
        assert not keep().was_set_back


def test_a_server_that_recovered_to_an_earlier_moment_goes_on_beyond_the_mark() -> None:
    job = make_job()
    keep()
    change_mark(timeline=content()["timeline"] + 1)
    kept = keep()
    assert not kept.was_set_back  # a standby that took over has lost nothing
    assert kept.raised["jobs_job_id_seq"] == job.pk + STEP
    assert not keep().raised


def change_mark(**changed: object) -> None:
    file().write_text(json.dumps({**content(), **changed}))


def test_a_mark_of_others_is_not_read_and_changes_nothing() -> None:
    keep()
    file().chmod(0o666)
    with pytest.raises(UntrustedPathError):
        keep()


@pytest.mark.parametrize("text", ["", "{", "{}", '{"file": 1}'])
def test_at_the_start_a_mark_that_cannot_be_read_is_refused(text: str) -> None:
    keep()
    before: Mapping[str, object] = IdMark.objects.values().get()
    file().write_text(text)
    with pytest.raises(CommandError, match="WMS_ID_MARK_DIR"):
        call_command("migrate", "--keep-id-mark", verbosity=0)
    assert file().read_text() == text
    assert IdMark.objects.values().get() == before


def test_there_is_one_row() -> None:
    IdMark.objects.create()
    with pytest.raises(IntegrityError, match="id_mark_has_one_row"), transaction.atomic():
        IdMark.objects.create(pk=2)


def test_at_the_start_a_restore_is_said() -> None:
    make_vo()
    keep()
    before = IdMark.objects.get()
    make_job()
    keep()
    set_back(before)
    said = StringIO()
    call_command("migrate", "--keep-id-mark", verbosity=0, stderr=said)
    assert "matching is paused for" in said.getvalue()
