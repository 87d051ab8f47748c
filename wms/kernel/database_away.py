"""Errors that mean that the database server is away: stopped, starting, or not reachable."""

from typing import Final

from django.db.utils import OperationalError

#: Beginnings of PostgreSQL's codes: exceptions of the connection, and interventions of its operator.
_CODES: Final = ("08", "57P")
#: Seconds after which a client may try again: a restart takes about as long.
RETRY_AFTER_S: Final = 10


def is_database_away(error: BaseException | None) -> bool:
    """Return whether an error of Django's says that the database server is away, and not that a statement failed."""
    if not isinstance(error, OperationalError):
        return False
    code = getattr(error.__cause__, "sqlstate", None)
    # Without a code the server has said nothing.
    return code is None or code.startswith(_CODES)
