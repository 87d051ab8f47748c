"""A command in a directory of another account, or with its name, reads nothing from it and runs none of its code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import quick_cases
from tests.end_to_end.stack.running import PROJECT, environment, imported_from, make_trap, manage, refused
from tests.pace import within

#: An account without a name.
MALLORY = 54_322


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Return a directory with modules of an attacker, each of which leaves a trace."""
    return make_trap(tmp_path / "trap")


def of_mallory(directory: Path) -> Path:
    """Make a data directory of another account, with the environment of a running system."""
    (directory / "beat").mkdir(parents=True)
    (directory / "environment").write_text("WMS_DATABASE_URL=postgres://mallory@127.0.0.1:9/wms\nWMS_EMBEDDED=1\n")
    (directory / "secret_key").write_text("a1" * 40)
    (directory / "beat" / "schedule").write_text("a pickle")
    for path in (directory, *directory.rglob("*")):
        os.chown(path, MALLORY, MALLORY)
    return directory


@pytest.mark.parametrize("command", quick_cases([["check"], ["token", "--help"], ["up", "--help"]], quick=1))
def test_commands_import_nothing_from_the_current_directory(command: list[str], trap: Path) -> None:
    variables = {**environment(), "WMS_EMBEDDED": "1"}
    done = subprocess.run(
        manage(*command), cwd=trap, env=variables, capture_output=True, text=True, timeout=within(60), check=False
    )
    assert done.returncode == 0, done.stderr
    assert imported_from(trap) == ""


@pytest.mark.parametrize("path", [".", "", "bin"])
def test_no_program_is_found_in_the_current_directory(path: str, trap: Path) -> None:
    for place in (trap, trap / "bin"):
        place.mkdir(exist_ok=True)
        for name in ("squeue", "valkey-server", "postgres"):
            (place / name).touch(mode=0o755)
    find = "import shutil, wms.settings; print(*map(shutil.which, ('squeue', 'valkey-server', 'postgres')))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", find],
        cwd=trap,
        env={**environment(), "PYTHONPATH": str(PROJECT), "PATH": f"{path}:/nowhere"},
        capture_output=True,
        text=True,
        timeout=within(60),
        check=False,
    )
    assert done.stdout == "None None None\n", done.stderr


@pytest.mark.root
def test_a_command_in_the_name_of_another_accounts_system_is_refused(tmp_path: Path) -> None:
    data = of_mallory(tmp_path / "var")
    done = subprocess.run(
        manage("token", "alice"),
        env={**environment(), "WMS_DATA_DIR": str(data)},
        capture_output=True,
        text=True,
        timeout=within(60),
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"CommandError: {data / 'environment'} is not used: {data} belongs to {MALLORY}. Run this command as {MALLORY}"
    )


@pytest.mark.root
@pytest.mark.parametrize("foreign", quick_cases(["", "beat/schedule", "secret_key", "beat", "environment"], quick=2))
def test_root_starts_no_system_in_what_belongs_to_another_account(foreign: str, tmp_path: Path) -> None:
    data = of_mallory(tmp_path / "data")
    for path in (data, *data.rglob("*")):
        if path != data / foreign:
            os.chown(path, 0, 0)
    sentence = refused(manage("up", "--data-dir", str(data)))
    assert f"belongs to {MALLORY}. Run this command as {MALLORY}, give the path to root by chown" in sentence


@pytest.mark.root
def test_a_configuration_file_of_another_account_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "wms.yaml").write_text("vos: [{name: lhcb, setup: LHCb-Production}]")
    os.chown(file, MALLORY, MALLORY)
    for command in (["up", "--config", str(file), "--data-dir", str(tmp_path / "data")], ["configure", str(file)]):
        assert f"{file} is not used: it belongs to {MALLORY}." in refused(["env", "WMS_EMBEDDED=1", *manage(*command)])
