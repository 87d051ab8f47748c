"""The functions, triggers and views of the database, whose only texts are ``<app>/sql/*.sql`` (ADR 50).

To change one:

1. Edit its text.
2. Write a migration of the app with the operation ``InstallTexts("app", digest="...")``, and take this operation out
   of the migration that had it until then, whose text is gone. ``tests/database/kernel/test_sql_texts.py`` says the
   digest.
   The migration drops what the texts no longer have, by ``RunSQL``.

Comments may be changed without a migration.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from django.apps import apps
from django.db.migrations import RunSQL

_CREATED = re.compile(r"^CREATE (VIEW|TYPE|FUNCTION) (\w+)", re.MULTILINE)


def texts_of(app_label: str) -> list[str]:
    """Return the texts of an app, by the names of their files."""
    directory = Path(apps.get_app_config(app_label).path) / "sql"
    return [path.read_text(encoding="utf-8") for path in sorted(directory.glob("*.sql"))]


def digest_of(texts: Sequence[str]) -> str:
    """Return the SHA-256 of texts without their comments and white space."""
    return sha256("".join(re.sub(r"--[^\n]*|\s+", "", text) for text in texts).encode()).hexdigest()


class InstallTexts(RunSQL):
    """Install all texts of an app; what they create is dropped first, with the triggers that call it.

    ``CREATE OR REPLACE`` drops nothing: for functions that a column or constraint of a table calls.
    To go back leaves everything, because the migration before needs it too.

    Args:
        app_label: the app.
        digest: of the texts (:func:`digest_of`), which no migration contains.
    """

    def __init__(self, app_label: str, *, digest: str) -> None:
        self.digest = digest
        texts = texts_of(app_label)
        created = [found for text in texts for found in _CREATED.findall(text)]
        drops = [f"DROP {kind} IF EXISTS {name} CASCADE" for kind, name in created]
        # A function may call one that is created later.
        unchecked, checked = (f"SET LOCAL check_function_bodies = {value}" for value in ("off", "on"))
        super().__init__([*drops, unchecked, *texts, checked], RunSQL.noop)
