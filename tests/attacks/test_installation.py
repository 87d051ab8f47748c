"""Commands that install and upgrade, run in and below directories that other accounts can write to."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.docs.fences import PROJECT, titled
from tests.pace import within
from tests.programs import needed

#: A project that runs code of an attacker when uv looks at it, and counts the clone as its own.
TRAP = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "trap"
dynamic = ["version"]
[tool.uv.workspace]
members = ["clone", "clone/wms/client"]
"""


def test_uv_in_a_clone_runs_nothing_of_the_directories_above(tmp_path: Path) -> None:
    needed("uv")
    clone = tmp_path / "clone"
    for name in ("pyproject.toml", "uv.lock", "wms/wire/version.py", "wms/client/pyproject.toml"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, clone / name)
    (tmp_path / "pyproject.toml").write_text(TRAP)
    (tmp_path / "backend.py").write_text("open('trace', 'w')")
    (tmp_path / "uv.toml").write_text('index-url = "http://127.0.0.1:9/"')
    for directory in (clone, clone / "wms" / "client"):
        words = ["uv", "lock", "--offline", "--cache-dir", str(tmp_path / "cache")]
        done = subprocess.run(words, cwd=directory, capture_output=True, text=True, timeout=within(60), check=False)
        assert not (tmp_path / "trace").exists(), done.stderr
        if directory == clone:
            assert done.returncode == 0, done.stderr


def test_the_check_of_a_node_imports_nothing_from_the_current_directory(tmp_path: Path) -> None:
    for name in ("ssl", "ctypes", "urllib"):
        (tmp_path / f"{name}.py").write_text("open('trace', 'w')")
    words = ["sh", "-c", titled("sites.md", "check-node.sh"), "check-node.sh", "http://127.0.0.1:9"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=within(60), check=False)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("page", ["operators.md", "sites.md"])
def test_no_command_for_operators_and_sites_imports_from_the_current_directory(page: str) -> None:
    """`python -m` and `-c` look there first, unless they are told not to."""
    commands = re.findall(r"python[\d.]* (?:-\w )*-[mc] \S+", (PROJECT / "docs" / page).read_text(encoding="utf-8"))
    assert commands != []
    assert [command for command in commands if not {"-I", "-P"} & {*command.split()}] == []
