"""The agent as one file: reproducible, identifiable, and readable by everybody."""

import hashlib
import io
import os
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from zipfile import ZipFile

import pytest
from django.http import HttpResponse
from rest_framework.test import APIRequestFactory

import wms.wire
from pilots.agent_package import agent_package
from pilots.api.agent import AgentView


def _fetch(**headers: str) -> HttpResponse:
    answer = AgentView.as_view()(APIRequestFactory().get("/api/v1/pilots/agent.pyz", headers=headers))
    assert isinstance(answer, HttpResponse)
    return answer


def test_builds_of_the_agent_are_reproducible() -> None:
    first = agent_package()
    agent_package.cache_clear()
    os.utime(Path(__file__).parents[3] / "pilots" / "agent" / "__main__.py")

    again = agent_package()

    assert again == first
    assert first.sha256 == hashlib.sha256(first.content).hexdigest()


def test_it_holds_the_agent_the_wire_and_nothing_else() -> None:
    with ZipFile(io.BytesIO(agent_package().content)) as archive:
        names = archive.namelist()
        empty = {name for name in names if not archive.read(name)}

    assert agent_package().content.startswith(b"#!/usr/bin/env python3\n")
    assert names == sorted(names)
    parts = {f"pilots/agent/{part}" for part in ("base", "data", "job", "node", "pilot", "server")}
    wire = {f"wms/wire/{file.name}" for file in Path(wms.wire.__path__[0]).glob("*.py")}
    assert {name for name in names if name.startswith("wms/")} == {"wms/__init__.py", *wire}
    assert "wms/__init__.py" in empty
    assert {name.rpartition("/")[0] for name in names} == {
        "",
        "pilots",
        "pilots/agent",
        *parts,
        "wms",
        "wms/wire",
    }
    assert all(name.endswith(".py") for name in names)


def test_the_agent_imports_nothing_but_the_standard_library_and_what_it_holds(tmp_path: Path) -> None:
    program = tmp_path / "agent.pyz"
    program.write_bytes(agent_package().content)
    told = (
        "import sys; sys.path[:0] = [sys.argv[1]]; import pilots.agent.__main__;"
        "print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    )

    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", told, program], capture_output=True, text=True, check=True
    )

    assert set(ended.stdout.split()) == {"__main__", "pilots", "wms"}


def test_the_agent_is_public() -> None:
    answer = _fetch(Accept="application/x-nonsense")

    assert answer.status_code == HTTPStatus.OK
    assert answer.content == agent_package().content
    assert answer["X-Agent-SHA256"] == agent_package().sha256
    assert answer["Content-Type"] == "application/zip"


@pytest.mark.parametrize("given", ['"{tag}"', 'W/"{tag}"', '"other", "{tag}"', "*"])
def test_an_unchanged_agent_is_304(given: str) -> None:
    answer = _fetch(**{"If-None-Match": given.format(tag=agent_package().sha256)})

    assert answer.status_code == HTTPStatus.NOT_MODIFIED
    assert answer.content == b""
    assert answer["ETag"] == f'"{agent_package().sha256}"'
