"""A server with a local computing element, whose pilots run jobs, and the client installed from its wheel."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.end_to_end.stack.running import READY_WITHIN_S, environment, free_port, manage
from tests.pace import wait_for, within
from tests.programs import directory_of_agents, needed

ROOT = Path(__file__).resolve().parents[3]
PASSWORD = "secret"
#: Pilots at a time, each with one job: what two cores carry.
PILOTS = 6
CONFIGURATION: Mapping[str, Any] = {
    "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
    "groups": [{"name": "lhcb_user", "vo": "lhcb", "priority": 1000}],
    "users": [{"username": "alice", "password": PASSWORD, "groups": ["lhcb_user"], "default_group": "lhcb_user"}],
    "sites": [
        {
            "name": "LCG.CERN.ch",
            "vos": ["lhcb"],
            "ces": [
                {
                    "name": "ce01.cern.ch",
                    "type": "local",
                    "options": {"node_processors": PILOTS, "max_processes": PILOTS},
                    "queues": [
                        {
                            "name": "grid",
                            "cpu_time_s": 7200,
                            "wall_time_s": 7200,
                            "memory_mb": 4000,
                            "max_waiting_pilots": PILOTS,
                            "max_pilots": PILOTS,
                        }
                    ],
                }
            ],
        }
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledClient:
    """A bare virtual environment with the client from its wheel.

    Args:
        programs: directory of `wms` and `python`.
        packages: directory of the package `wms_client`.
    """

    programs: Path
    packages: Path


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a directory that the accounts of payloads can enter."""
    with directory_of_agents(tmp_path_factory.mktemp("physicist")) as made:
        yield made


@pytest.fixture(scope="module")
def installed(directory: Path) -> InstalledClient:
    needed("uv")
    bare = {name: value for name, value in environment().items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: str | Path) -> None:
        ended = subprocess.run(
            command, cwd=directory, env=bare, capture_output=True, text=True, timeout=within(300), check=False
        )
        assert ended.returncode == 0, ended.stderr

    run("uv", "build", "-q", "--wheel", ROOT / "wms" / "client", "-o", directory / "dist")
    run(sys.executable, "-m", "venv", directory / "venv")
    programs = directory / "venv" / "bin"
    # By its name and without the index, as a user would from the VO's own index.
    run(programs / "pip", "install", "-q", "--no-index", "--find-links", directory / "dist", "wms-client")
    (package,) = (directory / "venv").glob("lib/python*/site-packages/wms_client")
    return InstalledClient(programs=programs, packages=package.parent)


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[str]:
    """Yield the address of a running server, to whose queue directors send pilots."""
    file, log_file, data, port = directory / "wms.yaml", directory / "up.log", directory / "data", free_port()
    file.write_text(yaml.safe_dump(dict(CONFIGURATION)))
    options = ["--config", str(file), "--data-dir", str(data), "--port", str(port), "--web-workers", "1"]
    with log_file.open("wb") as log:
        up = subprocess.Popen(manage("up", *options), env=environment(), stdout=log, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: "The system is up at" in log_file.read_text() or up.poll() is not None, READY_WITHIN_S)
        assert up.poll() is None, log_file.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(timeout=within(60))
        # Pilots of a local computing element outlive the server.
        for process in processes_with(data):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def processes_with(data: Path) -> list[psutil.Process]:
    """Return the processes that name the directory in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and any(
                str(data) in word for word in [*process.cmdline(), *process.environ().values()]
            ):
                found.append(process)
    return found
