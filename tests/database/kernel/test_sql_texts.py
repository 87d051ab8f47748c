"""The functions, triggers and views of the database are those of ``<app>/sql/*.sql``, whatever it was migrated from."""

import re

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from wms.kernel.sql_texts import InstallTexts, digest_of, texts_of

APPS = sorted(config.label for config in apps.get_app_configs() if texts_of(config.label))


def installing(app_label: str) -> dict[str, InstallTexts]:
    """Return the operations that install the texts of an app, by migration."""
    return {
        name: operation
        for (app, name), migration in sorted(MigrationLoader(None).disk_migrations.items())
        for operation in migration.operations
        if app == app_label and isinstance(operation, InstallTexts)
    }


@pytest.mark.parametrize("app", APPS)
def test_one_migration_of_an_app_installs_its_present_texts(app: str) -> None:
    found = installing(app)
    names = ", ".join(found)
    assert len(found) == 1, f"{app}: {names} install texts: keep InstallTexts only in the newest (ADR 50)."
    (operation,) = found.values()
    digest = digest_of(texts_of(app))
    assert operation.digest == digest, (
        f"The SQL texts of {app} have changed since {names}: write a migration with "
        f"InstallTexts({app!r}, digest={digest!r}), and take it out of the other; wms/kernel/sql_texts.py says how."
    )


def test_a_changed_comment_keeps_the_digest() -> None:
    assert digest_of(["SELECT 1 -- one\n", "+ 1;"]) == digest_of(["SELECT\n    1 + 1;"]) != digest_of(["SELECT 1 + 2;"])


@pytest.mark.django_db
@pytest.mark.parametrize("app", APPS)
def test_installing_the_texts_of_an_app_again_changes_nothing(app: str) -> None:
    """No other migration has replaced any, and no other app, column or constraint needs what is dropped."""
    before = installed()
    (operation,) = installing(app).values()
    with connection.schema_editor() as editor:
        operation.database_forwards(app, editor, ProjectState(), ProjectState())
    assert installed() == before


@pytest.mark.django_db
def test_everything_installed_has_a_text() -> None:
    texts = "\n".join(text for app in APPS for text in texts_of(app))
    created = re.findall(r"^CREATE (?:OR REPLACE )?(?:CONSTRAINT )?(FUNCTION|TRIGGER|VIEW) (\w+)", texts, re.MULTILINE)
    assert {(kind, name) for kind, name, _ in installed() if kind in {"FUNCTION", "TRIGGER", "VIEW"}} == set(created)


@pytest.mark.django_db
def test_the_bodies_of_all_functions_are_valid() -> None:
    """They are not checked when they are installed, because one may call another that is installed later."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT count(CASE lanname WHEN 'sql' THEN fmgr_sql_validator(its.oid)::text
                                      ELSE plpgsql_validator(its.oid)::text END)
              FROM pg_proc AS its JOIN pg_language AS language ON language.oid = prolang
             WHERE proname LIKE 'wms\\_%' AND lanname IN ('sql', 'plpgsql')
        """)


def installed() -> set[tuple[str, ...]]:
    """Return kind, name and definition of everything that is installed, or may depend on it."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT 'FUNCTION', proname, pg_get_functiondef(oid) FROM pg_proc WHERE proname LIKE 'wms\\_%'
            UNION ALL
            SELECT 'TRIGGER', tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
            UNION ALL
            SELECT 'VIEW', viewname, definition FROM pg_views WHERE schemaname = current_schema()
            UNION ALL
            SELECT 'constraint', conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'
            UNION ALL
            SELECT 'default', adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef
            UNION ALL
            SELECT 'comment', objoid::regprocedure::text, description FROM pg_description
             WHERE classoid = 'pg_proc'::regclass AND objoid::regprocedure::text LIKE 'wms\\_%'
        """)
        return set(cursor.fetchall())
