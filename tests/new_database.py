"""``python -m tests.new_database`` writes wms/stack/new_database.sql, which makes the tables of a new database.

It starts a PostgreSQL of its own, applies all migrations there, and writes down what they have made.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.pace import wait_for, within
from wms.stack.binaries import find_postgres
from wms.stack.servers import POSTGRES_STOP_SIGNAL, PostgresServer, environment_of_server

PROJECT: Final = Path(__file__).parents[1]
#: Django's own command, without the script.
BY_MIGRATIONS: Final = """
import django; django.setup()
from django.core.management import call_command
from django.core.management.commands.migrate import Command
call_command(Command(), verbosity=0)
"""
FIRST_LINE: Final = """
import django; django.setup()
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from wms.stack.new_database import first_line
print(first_line(MigrationLoader(connection).disk_migrations), end="")
"""
#: Rows that differ from server to server: the times of migrations, and numbers of transactions.
_OF_SERVER: Final = ("django_migrations", "taskqueues_taskqueuechange")
#: Comments of pg_dump, its commands for psql, and settings, all of them defaults but the two of _BEGIN.
_NOT_WRITTEN: Final = re.compile(
    r"^(--.*|\\(un)?restrict .*|SET [a-z_]+ = [^ ]+;|SELECT pg_catalog\.set_config.*)\n", re.MULTILINE
)
_BEGIN: Final = """\
-- Written by `python -m tests.new_database` from what all migrations make (ADR 69); never edited.
SELECT pg_catalog.set_config('search_path', '', true);
SET LOCAL check_function_bodies = false;
"""
_END: Final = "RESET search_path;\n"


class Database:
    """A database of a PostgreSQL that was started for it.

    Args:
        server: that runs.
        name: of the database, which is made.
    """

    def __init__(self, server: PostgresServer, name: str) -> None:
        server.create_database(name)
        self._server, self._url = server, server.url(name)

    def python(self, program: str) -> str:
        """Run a program of Python with the settings of the project for this database; return what it prints."""
        return self._run([sys.executable, "-W", "ignore::RuntimeWarning", "-c", program])

    def migrate(self) -> None:
        """Run ``manage.py migrate``."""
        self._run([sys.executable, "manage.py", "migrate", "--verbosity", "0"])

    def tables(self) -> str:
        """Return the SQL that makes the tables."""
        return self._dumped("--schema-only")

    def tables_and_rows(self) -> str:
        """Return the SQL that makes the tables and their rows, but for those that differ from server to server."""
        left_out = [f"--exclude-table-data=public.{table}{end}" for table in _OF_SERVER for end in ("", "_id_seq")]
        return self._dumped("--inserts", *left_out)

    def _dumped(self, *options: str) -> str:
        program = str(self._server.programs.directory / "pg_dump")
        written = self._run([program, "--no-owner", "--no-privileges", *options, self._url])
        return re.sub(r"\n{3,}", "\n\n", _NOT_WRITTEN.sub("", written)).lstrip("\n")

    def _run(self, command: list[str]) -> str:
        variables = {"WMS_DATABASE_URL": self._url, "WMS_EMBEDDED": "1", "DJANGO_SETTINGS_MODULE": "wms.settings"}
        return subprocess.run(
            command,
            cwd=PROJECT,
            env=environment_of_server() | variables,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=within(120),
        ).stdout


@contextmanager
def own_server() -> Iterator[PostgresServer]:
    """Run a PostgreSQL in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="wms-tables-", dir="/tmp") as name:  # a socket's path must be short
        directory = Path(name)
        server = PostgresServer(
            programs=find_postgres(), data=directory / "postgres", sockets=directory, durable=False, max_connections=20
        )
        server.create()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                server.command(), env=environment_of_server(), stdout=log, stderr=log, start_new_session=True
            )
        try:
            wait_for(server.is_ready, 30)
            yield server
        finally:
            os.kill(process.pid, POSTGRES_STOP_SIGNAL)
            process.wait(timeout=within(30))


def script_of(database: Database) -> str:
    """Return the script for a database in which all migrations were applied."""
    first_line = database.python(FIRST_LINE)
    return f"{first_line}{_BEGIN}\n{database.tables()}{_END}"


def main() -> None:
    """Write the script."""
    with own_server() as server:
        database = Database(server, "wms")
        database.python(BY_MIGRATIONS)
        (PROJECT / "wms" / "stack" / "new_database.sql").write_text(script_of(database), encoding="utf-8")


if __name__ == "__main__":
    main()
