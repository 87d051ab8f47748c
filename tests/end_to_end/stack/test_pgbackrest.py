"""PostgreSQL recovered to a moment by pgBackRest, as the guide for operators says: no id is given again."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests.end_to_end.docs.fences import titled
from tests.end_to_end.stack.running import PROJECT, READY_WITHIN_S, environment, manage
from tests.pace import wait_for, within
from tests.programs import needed
from wms.operations.id_marks import STEP
from wms.stack.binaries import find_client, find_postgres
from wms.stack.guard import Guard
from wms.stack.servers import POSTGRES_STOP_SIGNAL, PostgresServer, environment_of_server

PAGE = "operators.md"
#: Makes a group and its member with the first job.
MAKE_JOB = """
import django; django.setup()
from tests.factories import make_job
from wms.accounts.models import Group, User
print(make_job(group=Group.objects.first(), owner=User.objects.first()).pk)
"""
#: Seconds by which moments in the log of changes are apart for certain.
APART_S = 1.5


@dataclass(kw_only=True)
class Cluster:
    """A cluster with the settings of the guide, and pgBackRest's own configuration."""

    directory: Path
    server: PostgresServer
    variables: dict[str, str]

    @contextmanager
    def running(self) -> Iterator[None]:
        process = subprocess.Popen(self.server.command(), env={**environment_of_server(), **self.variables})
        try:
            wait_for(self.server.is_ready, 60)
            yield
        finally:
            process.send_signal(POSTGRES_STOP_SIGNAL)
            process.wait(timeout=within(60))

    def run(self, command: list[str], **variables: str) -> str:
        """Return what a command prints; it must succeed."""
        ended = subprocess.run(
            command, env={**environment(), **self.variables, **variables}, cwd=PROJECT, capture_output=True, text=True,
            timeout=within(READY_WITHIN_S), check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return f"{ended.stdout}{ended.stderr}"

    def recipe(self, step: str, **variables: str) -> None:
        """Run the command of the guide that has this word."""
        (line,) = [line for line in titled(PAGE, "pgbackrest.sh").splitlines() if f" {step}" in line.partition("#")[0]]
        self.run(["sh", "-euc", line.partition("#")[0]], **variables)

    def make_job(self) -> int:
        return int(self.run([sys.executable, "-c", MAKE_JOB]).splitlines()[-1])

    def keep_mark(self) -> str:
        return self.run(manage("migrate", "--keep-id-mark", "--no-input", "--verbosity", "0"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    needed("pgbackrest")
    # Of the versions that the machine's pgBackRest knows: Debian's own.
    programs = find_postgres(environment={"WMS_PG_BINDIR": str(find_client("psql", at_least=15).path.parent)})
    sockets = Path(tempfile.mkdtemp(prefix="pgbackrest-", dir="/tmp"))
    server = PostgresServer(programs=programs, data=tmp_path / "main", sockets=sockets, durable=False)
    repository = tmp_path / "repository"
    repository.mkdir()
    server.create()
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write(titled(PAGE, "postgresql.conf"))
    configuration = titled(PAGE, "pgbackrest.conf").replace("/var/lib/pgbackrest", str(repository))
    (given,) = [line for line in configuration.splitlines() if line.startswith("pg1-path=")]
    (tmp_path / "pgbackrest.conf").write_text(configuration.replace(given, f"pg1-path={server.data}"))
    variables = {
        "PGBACKREST_CONFIG": str(tmp_path / "pgbackrest.conf"),
        "PGBACKREST_PG1_SOCKET_PATH": str(sockets),
        "PGBACKREST_PG1_USER": "postgres",
        "PGBACKREST_LOG_LEVEL_FILE": "off",
        "PGBACKREST_LOCK_PATH": str(tmp_path / "locks"),
        "PGBACKREST_SPOOL_PATH": str(tmp_path / "spool"),
        "WMS_DATABASE_URL": server.url("wms"),
        "WMS_DATA_DIR": str(tmp_path / "data"),
        "WMS_EMBEDDED": "1",
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "PATH": os.environ["PATH"],
    }
    guard = Guard(paths=[sockets])
    try:
        yield Cluster(directory=tmp_path, server=server, variables={**variables, **guard.environment})
    finally:
        guard.finish()


def test_a_database_recovered_to_a_moment_gives_no_id_again(cluster: Cluster) -> None:
    with cluster.running():
        cluster.server.create_database("wms")
        cluster.keep_mark()
        cluster.recipe("stanza-create")
        cluster.recipe("--type=full")
        kept = cluster.make_job()
        cluster.keep_mark()
        time.sleep(APART_S)
        with psycopg.connect(cluster.server.url("wms"), autocommit=True) as connection:
            ((moment,),) = connection.execute("SELECT now()::text").fetchall()
        time.sleep(APART_S)
        lost = cluster.make_job()
        cluster.keep_mark()
        with psycopg.connect(cluster.server.url("wms"), autocommit=True) as connection:
            connection.execute("SELECT pg_switch_wal()")
            wait_for(
                lambda: (
                    connection.execute(
                        "SELECT last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1) FROM pg_stat_archiver"
                    ).fetchone()
                    == (True,)
                ),
                60,
            )

    cluster.recipe("restore", MOMENT=moment)
    with cluster.running():
        with psycopg.connect(cluster.server.url("wms")) as connection:
            wait_for(lambda: connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,), 60)
            assert connection.execute("SELECT id FROM jobs_job").fetchall() == [(kept,)]
        assert "set back to an earlier state" in cluster.keep_mark()
        assert cluster.make_job() == lost + STEP + 1
        assert "set back" not in cluster.keep_mark()
