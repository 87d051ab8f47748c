"""Both distributions: built, installed together into a bare environment, and used outside of the repository."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.installed import ENVIRONMENT, run
from tests.pace import wait_for, within
from tests.programs import needed
from wms.wire.version import __version__


def test_the_client_is_a_command_and_a_package(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "wms", "--version", cwd=tmp_path) == f"wms {__version__}\n"
    names = run(installed / "python", "-c", "import wms_client, wms.client; print(wms_client.Client)", cwd=tmp_path)
    assert names == "<class 'wms_client.client.Client'>\n"


@contextmanager
def running(command: list[str | Path], *, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=within(60))


def test_an_installed_server_finds_no_system_in_the_current_directory(installed: Path, tmp_path: Path) -> None:
    """It may be somebody else's, whose database would get the command."""
    with socket.create_server(("127.0.0.1", 0)) as database:
        (tmp_path / "var").mkdir()
        address = f"postgres://mallory@127.0.0.1:{database.getsockname()[1]}/wms?connect_timeout=5"
        (tmp_path / "var" / "environment").write_text(f"WMS_DATABASE_URL='{address}'\nWMS_EMBEDDED=1\n")
        command = [str(installed / "wms-server"), "token", "alice"]
        done = subprocess.run(
            command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=within(60), check=False
        )
        database.settimeout(0)
        with pytest.raises(BlockingIOError):
            database.accept()
    assert done.returncode != 0


def test_the_server_runs_from_its_wheel_in_an_empty_directory(installed: Path, tmp_path: Path) -> None:
    needed("curl")
    port = 20000 + os.getpid() % 20000
    with running([installed / "wms-server", "up", "--port", str(port)], cwd=tmp_path) as process:

        def answered(path: str) -> str:
            assert process.poll() is None, process.stdout.read() if process.stdout else ""
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=within(30)) as answer:
                    return str(answer.read().decode())
            except OSError:
                return ""

        wait_for(lambda: answered("/readyz") != "", 180)
        # Templates, static files, and the agent, which is packed from the installed modules.
        assert "<form" in answered("/accounts/login/")
        assert answered("/static/portal/portal.css")
        agent = tmp_path / "agent.pyz"
        run("curl", "-sf", "-o", agent, f"http://127.0.0.1:{port}/api/v1/pilots/agent.pyz", cwd=tmp_path)
        assert "usage" in run(sys.executable, agent, "--help", cwd=tmp_path)
    assert (tmp_path / "var" / "postgres").is_dir()
