"""Log lines: an event and its facts, as text with ``key=value`` or as JSON; each record is one line without secrets."""

import json
import logging
import re
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from functools import lru_cache
from pathlib import PurePath
from types import TracebackType
from typing import Final, TypeAlias
from uuid import UUID

from pythonjsonlogger.msgspec import MsgspecFormatter

from wms.kernel.callers import current_command, current_request_id

#: Written in place of a secret.
MASK: Final = "[masked]"
#: Characters: longer texts are cut, as facts are names, ids and states.
MAX_TEXT: Final = 200
#: Items of a list, or names of an object, that are shown.
MAX_ITEMS: Final = 50
_SECRET_NAME: Final = re.compile(
    r"passw|secret|token|credential|authorization|cookie|csrf|session|private(?!_fraction)|(^|_)key($|_)"
)
_SECRET_TEXT: Final = re.compile(
    r"""
      wms[a-z]{1,8}_[\w.\-]{8,}                   # tokens and secrets of this system; wms_… are functions in SQL
    | \beyJ[\w\-]{8,}(?:\.[\w\-]*)*               # JSON Web Tokens
    | \bgAAAA[\w\-]{20,}=*                        # what wms.kernel.secrets has encrypted
    | \b(?:bearer|basic)\s+[\w.~+/\-]{8,}=*       # the header Authorization
    | -----BEGIN[^-]*-----.*                      # keys and certificates
    | \b(?:argon2|pbkdf2_|scrypt|bcrypt|md5\$)\S* # hashes of passwords
    | (?<=://)[^/@\s]{1,200}:[^/@\s]{0,200}(?=@)  # user:password@ of a URL
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
#: Of which a text with such a secret has one.
_SIGNS: Final = ("wms", "eyj", "gaaaa", "bearer", "basic", "-----begin", *("argon2", "pbkdf2_", "crypt", "md5$"), "://")
_SHORTEST_RANDOM_TEXT: Final = 32
#: A random text, not a name: 32 characters or more with letters of both cases and digits.
_RANDOM_TEXT: Final = re.compile(r"(?<![\w\-])(?=[\w\-]*[a-z])(?=[\w\-]*[A-Z])(?=[\w\-]*[0-9])[A-Za-z0-9_\-]{32,}")
#: Characters of a traceback, of which the last ones are shown: the supervisor cuts a line of JSON at 64 kB.
_LONGEST_TRACEBACK: Final = 16_000
#: The fact that says how many equal lines were left out (``wms.kernel.log_stream``).
LEFT_OUT: Final = "left_out"
#: A text that needs no quotes.
_PLAIN: Final = re.compile(r"[^ =\"']+")
#: Attributes of a record without any ``extra``.
OF_EVERY_RECORD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class Ids(tuple[int, ...]):
    """Ids of rows as one fact, all of which a line has: as text ``job=1 job=2``, in JSON ``"job": [1, 2]``."""

    __slots__ = ()


#: Of an error in a record.
ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
Fact = str | int | float | bool | None | list["Fact"] | dict[str, "Fact"] | Ids


def safe_facts(facts: Mapping[str, object]) -> dict[str, Fact]:
    """Return *facts* as JSON: short, and without secrets.

    A text under a name such as ``password`` or ``token`` is always masked; under any name, so are tokens, keys, hashes
    of passwords and passwords in URLs. Numbers are shown under any name (``token_id``).
    """
    return {str(name): _safe(str(name), value) for name, value in list(facts.items())[:MAX_ITEMS]}


def safe_text(text: str) -> str:
    """Return *text* without secrets, control characters and unstorable characters, cut to MAX_TEXT characters."""
    return _shown(text[: 4 * MAX_TEXT])


@lru_cache(maxsize=2000)
def _shown(text: str) -> str:
    printable = escaped(masked(text))
    return printable if len(printable) <= MAX_TEXT else f"{printable[: MAX_TEXT - 1]}…"


def escaped(text: str) -> str:
    r"""Return *text* with every character that is not printable written as ``\\n``, ``\\x1b`` or ``\\u202e``.

    That covers line breaks, which could forge a second line, and escape sequences of terminals.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _safe(name: str, value: object) -> Fact:
    if isinstance(value, bool | int | float | Ids) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(inner): _safe(f"{name}_{inner}", each) for inner, each in list(value.items())[:MAX_ITEMS]}
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | memoryview):
        items = sorted(map(str, value)) if isinstance(value, set | frozenset) else list(value)
        return [_safe(name, each) for each in items[:MAX_ITEMS]]
    if _is_of_secret(name) or not isinstance(value, str | UUID | date | PurePath):
        return MASK
    if isinstance(value, UUID):
        return str(value)
    return safe_text(value.isoformat() if isinstance(value, date | datetime) else str(value))


@lru_cache(maxsize=1000)
def _is_of_secret(name: str) -> bool:
    return _SECRET_NAME.search(name.lower()) is not None


class ShownAtTerminal(logging.Filter):
    """Leaves out changes of the security log while a command runs at a terminal: each is a row already.

    Refusals are warnings, and are shown. Servers and their threads show all, as does a command whose standard error is
    a file or a pipe.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is shown."""
        is_change = record.name == "wms.accounts.security_log" and record.levelno < logging.WARNING
        return not (is_change and current_command.get() and sys.stderr.isatty())


def masked(text: str) -> str:
    """Return *text* without secrets, in its full length."""
    # The expressions take as long as all else of a line, and few texts need them.
    lower = text.lower()
    if any(sign in lower for sign in _SIGNS):
        text = _SECRET_TEXT.sub(MASK, text)
    return _RANDOM_TEXT.sub(MASK, text) if len(text) >= _SHORTEST_RANDOM_TEXT else text


class _Facts:
    """The facts of a line: the ``extra`` of our own loggers, and the id of the request that is being answered.

    NB: the ``extra`` of other packages is left out: it holds whole requests and arguments of tasks.
    """

    def __init__(self, ours: Collection[str]) -> None:
        self._ours = frozenset(ours)

    def of(self, record: logging.LogRecord) -> dict[str, Fact]:
        """Return the facts, without secrets."""
        extra: dict[str, object] = {}
        if record.name.partition(".")[0] in self._ours:
            extra = {name: value for name, value in vars(record).items() if name not in OF_EVERY_RECORD}
        if left_out := getattr(record, LEFT_OUT, 0):
            extra[LEFT_OUT] = left_out
        if request_id := current_request_id.get():
            extra["request"] = request_id
        return safe_facts(extra)


class LineWithFacts(logging.Formatter):
    """A line of text: time, level, logger, message, and the facts.

    Args:
        ours: packages whose ``extra`` is shown.
    """

    def __init__(self, fmt: str | None = None, *, ours: Collection[str] = ()) -> None:
        super().__init__(fmt)
        self._facts = _Facts(ours)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's
        """Return the line, without a traceback."""
        record.message = masked(record.message)
        line = escaped(super().formatMessage(record))
        return " ".join([line, *(_written(name, value) for name, value in self._facts.of(record).items())])

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802 - the library's
        """Return the traceback, indented so that no line of it looks like a record."""
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the library's
        """Return a stack, indented likewise."""
        return _indented(stack_info)


class JsonLine(MsgspecFormatter):
    """A line of JSON: ``time`` (ISO 8601), ``level``, ``logger``, ``event``, the facts, and ``error`` (a traceback).

    Args:
        ours: packages whose ``extra`` is shown.
    """

    def __init__(self, *, ours: Collection[str] = ()) -> None:
        super().__init__()
        self._facts = _Facts(ours)

    def add_fields(
        self, log_data: dict[str, object], record: logging.LogRecord, message_dict: Mapping[str, object]
    ) -> None:
        """Write the fields of the line into *log_data*."""
        own = {
            "time": datetime.fromtimestamp(record.created, tz=UTC),
            "level": record.levelname,
            "logger": record.name,
            "event": masked(record.message),
        }
        if error := message_dict.get("exc_info") or message_dict.get("stack_info"):
            own["error"] = masked(str(error)[-_LONGEST_TRACEBACK:])
        # No fact replaces any of these.
        log_data.update(own | self._facts.of(record) | own)


def _indented(text: str) -> str:
    lines = masked(text[-_LONGEST_TRACEBACK:]).splitlines()
    return "\n".join(f"    {escaped(line)}" for line in lines)


def _written(name: str, value: Fact) -> str:
    if isinstance(value, Ids):
        return " ".join([f"{name}={each}" for each in value])
    if isinstance(value, str):
        return f"{name}={value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)}"
    return f"{name}={json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
