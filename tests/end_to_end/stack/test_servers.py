"""The embedded servers as processes, under the user of the tests and, if that is root, in both of root's ways."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.pace import wait_for, within
from tests.unit.stack.test_guard import has_ended
from wms.stack import servers
from wms.stack.binaries import find_postgres, find_valkey
from wms.stack.guard import Guard
from wms.stack.launch import NOBODY, ProcessUser
from wms.stack.servers import PostgresServer, ServerNotMadeError, ValkeyServer

#: Without root there is one way; where root may not make user namespaces, `identity_for_postgres` says so.
WAYS = sorted({servers.identity_for_postgres(), ProcessUser.NOBODY if os.geteuid() == 0 else ProcessUser.SAME})


@pytest.fixture
def sockets(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir(mode=0o700)
    return directory


@pytest.fixture
def postgres(tmp_path: Path, sockets: Path) -> PostgresServer:
    return PostgresServer(programs=find_postgres(), data=tmp_path / "postgres", sockets=sockets, durable=False)


@contextmanager
def running(command: Sequence[str], *, ready: Callable[[], bool]) -> "Iterator[subprocess.Popen[bytes]]":
    guard = Guard(grace_s=1)
    server = subprocess.Popen(
        command, env=servers.environment_of_server() | guard.environment, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(lambda: ready() or server.poll() is not None, 30)
        assert server.poll() is None
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=within(20))
        guard.finish()


def as_(way: ProcessUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "identity_for_postgres", lambda: way)


@pytest.mark.parametrize("way", WAYS)
def test_postgres_is_made_started_and_stopped(
    way: ProcessUser, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_(way, monkeypatch)
    postgres.create()

    with running(postgres.command(), ready=postgres.is_ready) as server:
        postgres.create_database("wms")
        postgres.create_database("wms")
        with psycopg.connect(postgres.url("wms")) as connection:
            row = connection.execute("SELECT current_database(), current_setting('listen_addresses')").fetchone()

    assert row == ("wms", "")
    assert server.returncode == 0
    assert not postgres.is_ready()


@pytest.mark.root
def test_a_cluster_made_as_root_runs_in_both_modes_of_root(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in (ProcessUser.NOBODY, *WAYS):
        as_(way, monkeypatch)
        postgres.create()
        with running(postgres.command(), ready=postgres.is_ready):
            assert postgres.data.stat().st_uid == (NOBODY if way is ProcessUser.NOBODY else 0)


def test_the_pid_file_of_a_killed_server_does_not_prevent_the_next_start(postgres: PostgresServer) -> None:
    postgres.create()
    # The number belongs to a process that lives and is no PostgreSQL.
    (postgres.data / "postmaster.pid").write_text(f"{os.getppid()}\n{postgres.data}\n")

    postgres.create()

    with running(postgres.command(), ready=postgres.is_ready):
        pass


def test_a_cluster_of_another_version_is_one_sentence(postgres: PostgresServer) -> None:
    postgres.create()
    (postgres.data / "PG_VERSION").write_text("14\n")

    with pytest.raises(ServerNotMadeError, match="was made by PostgreSQL 14, and this is"):
        postgres.create()


def test_an_incomplete_cluster_is_made_anew(postgres: PostgresServer) -> None:
    unfinished = postgres.data.with_name("postgres.unfinished")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").touch()

    postgres.create()

    assert not unfinished.exists()
    assert (postgres.data / "PG_VERSION").read_text().strip() == str(postgres.programs.version)


def test_the_embedded_database_has_fsync_on(postgres: PostgresServer, sockets: Path) -> None:
    lasting = PostgresServer(programs=postgres.programs, data=postgres.data, sockets=sockets)

    assert not any("fsync" in word or "synchronous_commit" in word for word in lasting.command())


def test_valkey_is_started_and_stopped(sockets: Path) -> None:
    valkey = ValkeyServer(program=find_valkey(), sockets=sockets)

    with running(valkey.command(), ready=valkey.is_ready) as server:
        assert valkey.url() == f"redis+socket://{sockets}/valkey.sock"

    assert server.returncode == 0
    assert not valkey.is_ready()


def test_a_program_of_the_operator_in_the_directory_of_the_cluster_is_not_ended(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_STRAYS_WITHIN_S", 0.0)
    postgres.create()
    with subprocess.Popen(["sleep", "60"], cwd=postgres.data) as program:
        postgres.create()
        try:
            assert program.poll() is None
        finally:
            program.kill()


def test_the_lock_file_stays_while_a_process_of_the_cluster_does_not_end(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_STRAYS_WITHIN_S", "_KILLED_WITHIN_S"):
        monkeypatch.setattr(servers, name, 0.0)
    monkeypatch.setattr(servers, "_kill", lambda number, *, data: None)
    postgres.create()
    lock = postgres.data / "postmaster.pid"
    with running(postgres.command(), ready=postgres.is_ready):
        postgres.create()
        assert lock.exists()


def test_postgres_is_started_again_though_a_stopped_backend_holds_its_memory(postgres: PostgresServer) -> None:
    postgres.create()
    with running(postgres.command(), ready=postgres.is_ready) as server:
        postgres.create_database("wms")
        with psycopg.connect(postgres.url("wms")) as connection:
            backend = psutil.Process(connection.info.backend_pid)
            backend.suspend()
            server.kill()
            server.wait()

            postgres.end_strays()

    wait_for(lambda: has_ended(backend), 10)  # its memory goes a moment before its number
    with running(postgres.command(), ready=postgres.is_ready):
        psycopg.connect(postgres.url("wms")).close()
