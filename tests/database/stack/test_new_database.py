"""A new database is made by a script, and is the one that all migrations make."""

import re

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from tests.new_database import BY_MIGRATIONS, Database, own_server, script_of
from wms.stack import new_database
from wms.stack.new_database import SCRIPT, make_tables

APPLIED = """
import django; django.setup()
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
print(sorted(MigrationRecorder(connection).applied_migrations()))
"""


def test_the_script_makes_what_the_migrations_make() -> None:
    with own_server() as server:
        by_migrations, by_script = Database(server, "by_migrations"), Database(server, "by_script")
        by_migrations.python(BY_MIGRATIONS)
        is_written = SCRIPT.read_text(encoding="utf-8") == script_of(by_migrations)
        assert is_written, "run: uv run python -m tests.new_database"
        by_script.migrate()
        assert _plain(by_script.tables_and_rows()) == _plain(by_migrations.tables_and_rows())
        assert by_script.python(APPLIED) == by_migrations.python(APPLIED)


def _plain(dump: str) -> str:
    """Return SQL without parentheses and casts of texts, which PostgreSQL places otherwise when it reads it again."""
    return re.sub(r"[()]|::(text|character varying)\b(\[\])?", "", dump)


@pytest.mark.django_db
class TestTables:
    """Databases in which nothing is made."""

    def test_there_are_tables_already(self) -> None:
        before = len(MigrationRecorder(connection).applied_migrations())
        assert not make_tables()
        assert len(MigrationRecorder(connection).applied_migrations()) == before

    def test_tables_are_made_in_another_schema(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA elsewhere; SET LOCAL search_path = elsewhere")
            assert not make_tables()
            assert connection.introspection.table_names(cursor) == []

    def test_the_script_is_for_other_migrations(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection.introspection, "table_names", lambda _cursor: [])
        monkeypatch.setattr(new_database, "first_line", lambda _migrations: "-- Migrations: others\n")
        assert not make_tables()
