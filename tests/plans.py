"""Plans of the statements that a function executes, those of functions and triggers of the database included."""

import re
from collections.abc import Callable

from django.db import DatabaseError, connection, transaction
from django.db.backends.utils import CursorWrapper
from psycopg import errors

_SETTINGS = {
    "log_min_duration": "0",
    "log_nested_statements": "on",
    "log_format": "json",
    # To this client, whose handler of notices reads it; not to the log.
    "log_level": "notice",
}


class PlansUnknownError(Exception):
    """The server does not report plans to this user."""


def indexes_used(function: Callable[[], object], *, no_table_is_small: bool = False) -> frozenset[str]:
    """Return the names of the indexes that occur in the plans of all statements that *function* executes.

    What it writes is undone. The server reports each plan as it was executed (its module auto_explain).

    Args:
        function: with statements of Django's connection.
        no_table_is_small: plans as if no table could be read as a whole: for tables that have few rows.
    """
    texts: list[str] = []

    def note(notice: errors.Diagnostic) -> None:
        texts.append(notice.message_primary or "")

    undone = transaction.atomic()
    # As of a test: outermost transactions may begin in it.
    undone._from_testcase = True  # type: ignore[attr-defined]  # not in the stubs
    with undone, connection.cursor() as cursor:
        _load(cursor)
        cursor.execute("DISCARD PLANS")  # of prepared statements
        for name, value in _SETTINGS.items():
            cursor.execute(f"SET LOCAL auto_explain.{name} = '{value}'")
        cursor.execute(f"SET LOCAL enable_seqscan = {'off' if no_table_is_small else 'on'}")
        connection.connection.add_notice_handler(note)
        try:
            function()
            cursor.execute("SELECT 1")  # a prepared statement ends, and is reported, when the next one begins
        finally:
            connection.connection.remove_notice_handler(note)
            transaction.set_rollback(True)
    return frozenset(name for text in texts for name in re.findall(r'"Index Name": "(\w+)"', text))


def _load(cursor: CursorWrapper) -> None:
    try:
        cursor.execute("LOAD 'auto_explain'")
    except DatabaseError as error:
        raise PlansUnknownError("This test needs a server with auto_explain, and a user who may load it.") from error
