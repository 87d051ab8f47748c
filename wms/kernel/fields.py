"""Fields of models, and the validator of names."""

import re
import zlib

from django.core.validators import RegexValidator
from django.db.models import BigIntegerField, Func, TextField


def compressed(text: str) -> bytes:
    """Return the text as CompressedTextField stores it."""
    return zlib.compress(text.encode())


def decompressed(stored: bytes) -> str:
    """Return the text that CompressedTextField has stored."""
    return zlib.decompress(stored).decode()


class CompressedTextField(TextField):  # type: ignore[type-arg]  # generic only in the stubs
    """A text that is stored compressed (zlib), for texts by which nobody searches.

    Lines of an output become a quarter. PostgreSQL itself compresses only rows of more than two kilobytes.
    """

    def get_internal_type(self) -> str:
        """Return the field whose type of column this one has."""
        return "BinaryField"

    def from_db_value(self, value: bytes | None, _expression: object, _connection: object) -> str | None:
        """Return the text."""
        return None if value is None else decompressed(value)

    def get_db_prep_value(self, value: str | None, connection: object, prepared: bool = False) -> bytes | None:
        """Return the compressed bytes."""
        return None if value is None else compressed(value)


class CurrentTransaction(Func):
    """The number of the transaction that writes the row, which never wraps around, as a bigint.

    PostgreSQL's own type (xid8) has no operators for summaries of ranges of pages (BRIN).
    """

    template = "(pg_current_xact_id()::text::bigint)"
    arity = 0
    output_field = BigIntegerField()


#: Names of sites, CEs, queues, groups and VOs: no blanks, so that they fit into URLs, logs and lists.
NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*\Z")
valid_name = RegexValidator(
    NAME_PATTERN, "Use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _."
)
