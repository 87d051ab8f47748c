"""The pytest plugin that starts PostgreSQL and Valkey once for all workers, before Django's settings are imported.

It is named in ``addopts`` (``-p tests.servers``). The controller of xdist starts the servers and its workers inherit
the environment; servers named in ``WMS_DATABASE_URL`` and ``WMS_REDIS_URL`` are used instead.
"""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final

import pytest

from pilots.agent.node.inspection import usable_processors
from tests.pace import Deadline, within
from wms.stack.binaries import find_postgres, find_valkey
from wms.stack.guard import Guard
from wms.stack.servers import (
    POSTGRES_STOP_SIGNAL,
    PostgresServer,
    ValkeyServer,
    environment_of_server,
)

_READY_WITHIN_S = 30.0
#: The variable with the address of the database of which PostgreSQL makes copies, if the tests started the server.
TEMPLATE: Final = "WMS_TESTS_TEMPLATE"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Start the servers; a wrapper, because pytest-django imports the settings in the first ordinary call."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        directory = Path(tempfile.mkdtemp(prefix="wms-tests-", dir="/tmp"))  # a socket's path must be short
        guard = Guard(paths=[directory])  # removes it also when this process is killed
        early_config.add_cleanup(guard.finish)
        os.environ.setdefault("WMS_DATA_DIR", str(directory))
        os.environ.setdefault("WMS_EMBEDDED", "1")
        _start_database(early_config, guard, directory)
        _start_redis(early_config, guard, directory)
    return (yield)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Start a worker for each processor that the tests may use; xdist would count those of the machine.

    With slow tests there are half as many more: for a third of the time these wait for what they have started.
    """
    processors = usable_processors()
    return processors if config.option.markexpr == "not slow" else max(1, processors * 3 // 2)


def _start_database(config: pytest.Config, guard: Guard, directory: Path) -> None:
    if "WMS_DATABASE_URL" in os.environ:
        return
    postgres = PostgresServer(
        programs=find_postgres(), data=directory / "postgres", sockets=directory, durable=False, max_connections=400
    )
    postgres.create()
    _start(config, guard, postgres.command(), ready=postgres.is_ready, log=directory / "postgres.log")
    os.environ["WMS_DATABASE_URL"] = postgres.url("wms")
    os.environ[TEMPLATE] = postgres.url("template1")


def _start_redis(config: pytest.Config, guard: Guard, directory: Path) -> None:
    if "WMS_REDIS_URL" in os.environ:
        return
    valkey = ValkeyServer(program=find_valkey(), sockets=directory)
    _start(config, guard, valkey.command(), ready=valkey.is_ready, log=directory / "valkey.log")
    os.environ["WMS_REDIS_URL"] = valkey.url()


def _start(
    config: pytest.Config, guard: Guard, command: Sequence[str], *, ready: Callable[[], bool], log: Path
) -> None:
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            env=environment_of_server() | guard.environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    config.add_cleanup(lambda: _stop(server))
    deadline = Deadline(_READY_WITHIN_S)
    while not ready():
        if server.poll() is not None or deadline.has_passed():
            raise pytest.UsageError(f"{command[-1]} did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.02)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(POSTGRES_STOP_SIGNAL)  # Valkey takes it as well
    try:
        server.wait(timeout=within(20))
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
