"""Lines of the log: the message, then its facts as ``key=value``; each record is one line, and none holds a secret."""

import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

#: In place of what must not be read.
MASK: Final = "[masked]"
#: A longer text is cut: facts are names, ids and states.
MAX_TEXT: Final = 200
#: So many items of a list, and names of an object, are shown.
MAX_ITEMS: Final = 50
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token|credential|authorization|cookie|csrf|session|private|(^|_)key($|_)"
)
_SECRET_TEXT: Final = re.compile(
    r"""
      wms[a-z]*_[\w.\-]{8,}                       # tokens and secrets of this system
    | \beyJ[\w\-]{8,}(?:\.[\w\-]*)*               # JSON Web Tokens
    | \bgAAAA[\w\-]{20,}=*                        # what wms.kernel.secrets has encrypted
    | \b(?:bearer|basic)\s+[\w.~+/\-]{8,}=*       # the header Authorization
    | -----BEGIN[^-]*-----.*                      # keys and certificates
    | \b(?:argon2|pbkdf2_|scrypt|bcrypt|md5\$)\S* # hashes of passwords
    | (?<=://)[^/@\s]+:[^/@\s]*(?=@)              # user:password@ of a URL
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
#: Nobody gives such a name to a thing: letters of both cases and digits, at random.
_RANDOM_TEXT: Final = re.compile(r"(?<![\w\-])(?=[\w\-]*[a-z])(?=[\w\-]*[A-Z])(?=[\w\-]*[0-9])[A-Za-z0-9_\-]{32,}")
#: What a record has without any ``extra``.
_OF_EVERY_RECORD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}

Fact = str | int | float | bool | None | list["Fact"] | dict[str, "Fact"]


def safe_facts(facts: Mapping[str, object]) -> dict[str, Fact]:
    """Return *facts* as JSON: short, and without secrets.

    A text under a name such as ``password`` or ``token`` is masked, whatever it is; elsewhere, what looks like a token,
    a key, a hash of a password or the password in a URL. Numbers are shown under any name (``token_id``).
    """
    return {str(name): _safe(str(name), value) for name, value in list(facts.items())[:MAX_ITEMS]}


def safe_text(text: str, *, longest: int = MAX_TEXT) -> str:
    """Return *text* without secrets and characters that move the cursor or cannot be stored, cut if it is long."""
    masked = _RANDOM_TEXT.sub(MASK, _SECRET_TEXT.sub(MASK, text[: 4 * longest]))
    printable = escaped(masked)
    return printable if len(printable) <= longest else f"{printable[: longest - 1]}…"


def escaped(text: str) -> str:
    r"""Return *text* with every character that is not printable written as ``\\n``, ``\\x1b`` or ``\\u202e``.

    Among them are line breaks, by which a name could forge a further line, and what terminals obey.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def changed_names(before: object, after: object) -> list[str] | None:
    """Return which names differ between two objects ("+a", "~b", "-c") or two lists; None: *after* is neither."""
    if isinstance(after, Mapping):
        old = before if isinstance(before, Mapping) else {}
        signs = {
            name: "~" if name in old and name in after else "+" if name in after else "-" for name in {*old, *after}
        }
        return [f"{sign}{name}" for name, sign in sorted(signs.items()) if sign != "~" or old[name] != after[name]]
    if isinstance(after, Iterable) and not isinstance(after, str | bytes):
        had = {str(each) for each in before} if isinstance(before, Iterable) and not isinstance(before, str) else set()
        has = {str(each) for each in after}
        return [*(f"+{each}" for each in sorted(has - had)), *(f"-{each}" for each in sorted(had - has))]
    return None


def _safe(name: str, value: object) -> Fact:
    if isinstance(value, bool | int | float) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(inner): _safe(f"{name}_{inner}", each) for inner, each in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | memoryview):
        items = sorted(map(str, value)) if isinstance(value, set | frozenset) else list(value)
        return [_safe(name, each) for each in items[:MAX_ITEMS]]
    if _SECRET_NAME.search(name.lower()) or not _is_plain(value):
        return MASK
    return safe_text(value.isoformat() if isinstance(value, date | datetime) else str(value))


def _is_plain(value: object) -> bool:
    return isinstance(value, str | UUID | date | PurePath)


class LineWithFacts(logging.Formatter):
    """A line: time, level, logger, message, and the facts that our loggers were given as ``extra``.

    NB: of the records of other packages the ``extra`` is left out: it holds whole requests, and arguments of tasks.

    Args:
        ours: the packages whose loggers' facts are shown.
    """

    def __init__(self, fmt: str | None = None, *, ours: Collection[str] = ()) -> None:
        super().__init__(fmt)
        self._ours = frozenset(ours)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's
        """Return the line, without a traceback."""
        line = escaped(super().formatMessage(record))
        if record.name.partition(".")[0] not in self._ours:
            return line
        extra = {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        return " ".join([line, *(f"{name}={_written(value)}" for name, value in safe_facts(extra).items())])

    def formatException(self, ei: Any) -> str:  # noqa: ANN401, N802 - the library's
        """Return the traceback, indented: no text of an exception can begin a line like a record."""
        return "\n".join(f"    {escaped(line)}" for line in super().formatException(ei).splitlines())


def _written(value: Fact) -> str:
    if isinstance(value, str):
        plain = value and not set(value) & set(" =\"'")
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
