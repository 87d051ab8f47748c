"""`manage.py configure` and `export_configuration`: their output and their refusals."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db.models.signals import pre_migrate

from tests.database.configuration.configuring import ENVIRON, EXAMPLE, counts

pytestmark = pytest.mark.django_db


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the example as a file, with its variables set."""
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "wms.yaml"
    path.write_text(EXAMPLE)
    return path


def run(*arguments: str) -> tuple[list[str], list[str]]:
    """Run a command; return its standard output and standard error."""
    out, err = StringIO(), StringIO()
    call_command(*arguments, stdout=out, stderr=err)
    return out.getvalue().splitlines(), err.getvalue().splitlines()


def test_a_dry_run_prints_the_difference_and_writes_nothing(example: Path) -> None:
    before = counts()
    out, err = run("configure", str(example), "--dry-run")
    assert out[:3] == ["+ vo lhcb", "+ group lhcb_user", "+ group lhcb_prod"]
    assert out[-1] == "dry run: nothing was changed"
    assert "+ queue LCG.CERN.ch/ce01.cern.ch/grid" in out
    assert err == []
    assert counts() == before


def test_the_command_reports_that_nothing_changes(example: Path) -> None:
    run("configure", str(example))
    assert run("configure", str(example))[0] == ["nothing to change"]


def test_the_commands_make_a_round_trip(example: Path, tmp_path: Path) -> None:
    run("configure", str(example))
    exported = tmp_path / "exported.yaml"
    exported.write_text("\n".join(run("export_configuration")[0]))
    assert run("configure", str(exported))[0] == ["nothing to change"]


def test_a_wrong_file_is_refused_before_the_tables_are_changed(tmp_path: Path) -> None:
    path = tmp_path / "wms.yaml"
    path.write_text("vos:\n- nam: x\n")
    migrated: list[object] = []

    def note(sender: object, **_facts: object) -> None:
        migrated.append(sender)

    pre_migrate.connect(note)
    try:
        with pytest.raises(CommandError, match="is not accepted; nothing was changed"):
            run("configure", str(path), "--migrate")
    finally:
        pre_migrate.disconnect(note)
    assert migrated == []


def test_the_command_lists_the_problems_by_line(tmp_path: Path) -> None:
    path = tmp_path / "wms.yaml"
    path.write_text("vos:\n- nam: x\n")
    with pytest.raises(CommandError) as refusal:
        run("configure", str(path))
    assert str(refusal.value) == (
        f"{path} is not accepted; nothing was changed. 3 problems:\n"
        "line 2: vos[0]: name is missing\n"
        "line 2: vos[0]: setup is missing\n"
        'line 2: vos[0].nam: unknown key. Did you mean "name"?'
    )


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file or directory"):
        run("configure", str(tmp_path / "none.yaml"))
    with pytest.raises(CommandError, match="cannot be read: Is a directory"):
        run("configure", str(tmp_path))
