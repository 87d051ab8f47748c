"""GET /api/v1/client/wms.pyz: the command line as one file."""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from tests.factories import make_user
from wms.wire.version import __version__

ADDRESS = "/api/v1/client/wms.pyz"


@pytest.mark.django_db(transaction=True)
def test_the_file_that_a_server_offers_is_the_command_line(live_server: LiveServer, tmp_path: Path) -> None:
    make_user(username="alice", password="secret")
    answer = APIClient().get(ADDRESS, headers={"Accept": "application/x-nonsense"})
    assert answer["X-Client-SHA256"] == sha256(answer.content).hexdigest()
    assert 'filename="wms.pyz"' in answer["Content-Disposition"]
    program = tmp_path / "wms.pyz"
    program.write_bytes(answer.content)

    def wms(*arguments: str, typed: str = "") -> str:
        # Without the packages of this environment: the file has all that it needs.
        command = [sys.executable, "-I", "-S", str(program), *arguments]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        return subprocess.run(
            command, cwd=tmp_path, env=environment, input=typed, capture_output=True, text=True, check=True
        ).stdout

    assert wms("--version") == f"wms {__version__}\n"
    assert "Logged in" in wms("login", "--server", live_server.url, "--user", "alice", typed="secret\n")
    assert "alice" in wms("whoami")


@pytest.mark.django_db
def test_a_client_that_has_the_file_does_not_fetch_it_again() -> None:
    first = APIClient().get(ADDRESS)
    again = APIClient().get(ADDRESS, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
