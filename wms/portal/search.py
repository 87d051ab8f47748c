"""The search box of the list of jobs: its grammar, the filters that a query means, and links to lists (pure)."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.names import composed, did_you_mean

#: {key of the search box: parameter of ``JobFilterSet``}, in the order in which queries are written.
KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "id",
        "name": "job_name",
        "status": "status",
        "site": "site",
        "host": "host",
        "since": "submitted_after",
        "before": "submitted_before",
        "exit": "exit_code",
        "reason": "minor_status",
        "cause": "cause",
        "group": "group",
        "owner": "owner",
        "submission": "job_group_id",
        "task-queue": "task_queue",
        "label": "job_group",
        "type": "job_type",
        "vo": "vo",
    }
)
#: Value of ``owner``: all jobs that the reader may see, not only the reader's own.
EVERYBODY: Final = "*"
#: PostgreSQL's largest id and integer.
_LARGEST_ID: Final = 2**63 - 1
_LARGEST_INTEGER: Final = 2**31 - 1
#: Characters of a query; the parameters of the filters have lower limits of their own.
LONGEST_QUERY: Final = 2000

_PARAMETERS: Final[Mapping[str, str]] = MappingProxyType({**{name: name for name in KEYS.values()}, **KEYS})
_KEY_OF: Final[Mapping[str, str]] = MappingProxyType({parameter: key for key, parameter in KEYS.items()})
_STATUSES: Final[Mapping[str, JobStatus]] = MappingProxyType({status.casefold(): status for status in JobStatus})
_WORD: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\S)+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_KEYED: Final = re.compile(r"([A-Za-z_-]+):(.*)", re.DOTALL)
_AGO: Final = re.compile(r"([0-9]{1,6})\s*([smhdw])", re.IGNORECASE)
_IDS: Final = re.compile(r"[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*")
_UNITS: Final[Mapping[str, timedelta]] = MappingProxyType(
    {
        "s": timedelta(seconds=1),
        "m": timedelta(minutes=1),
        "h": timedelta(hours=1),
        "d": timedelta(days=1),
        "w": timedelta(weeks=1),
    }
)


class _InvalidWordError(ValueError):
    """A word of a query has no meaning; the text is a sentence for its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The meaning of a query."""

    #: {parameter of ``JobFilterSet``: value}. An owner of EVERYBODY widens the list; without owner it is the reader's.
    filters: dict[str, str]
    #: The same as written: durations such as ``2d`` instead of times.
    words: dict[str, str]
    #: One sentence for each word that was left out.
    errors: tuple[str, ...] = ()
    #: The id, if the query is a bare number; None: it is not.
    job_id: int | None = None


def parse(text: str, *, now: datetime) -> Search:
    """Return the meaning of the query *text*; words without a meaning are errors, and the others still apply.

    Args:
        text: words, of which some have the form ``key:value``; values with blanks are in double quotes.
        now: the time from which durations such as ``2d`` are counted back.
    """
    text = composed(text[:LONGEST_QUERY]).strip()
    if _is_number(text) and int(text) <= _LARGEST_ID:
        return Search(filters={}, words={}, job_id=int(text))
    draft, bare = _Draft(now=now), []
    for word in _WORD.findall(text):
        keyed = _KEYED.fullmatch(word)
        if '"' in _QUOTED.sub("", word):
            draft.errors.append(f"A quotation mark is not closed: {_shown(word)} is left out.")
        elif keyed is None:
            bare.append(_unquoted(word))
        else:
            try:
                draft.add(keyed[1].lower(), _unquoted(keyed[2]))
            except _InvalidWordError as error:
                draft.errors.append(str(error))
    if bare and "job_name" in draft.filters:
        draft.errors.append(f'"{_shown(" ".join(bare))}" is left out, because the name is given by name: already.')
    elif bare:
        draft.set("job_name", _pattern_of(bare))
    return Search(filters=draft.filters, words=draft.words, errors=tuple(draft.errors))


def text_of(filters: Mapping[str, object]) -> str:
    """Return the query with this meaning.

    Args:
        filters: {key of the search box, or parameter of ``JobFilterSet``: value}. Values are texts, numbers, times, or
            several statuses; None and an empty or blank text mean no filter.

    Raises:
        KeyError: a name is unknown.
    """
    values = {_PARAMETERS[name]: _written(value) for name, value in filters.items()}
    return " ".join(
        f"{_KEY_OF[name]}:{_quoted(values[name])}" for name in KEYS.values() if values.get(name, "").strip()
    )


def query_of(filters: Mapping[str, object] = MappingProxyType({}), /, **more: object) -> str:
    """Return the query string, ``q=…``, of the list of jobs with these filters; arguments as of ``text_of``."""
    return urlencode({"q": text_of({**filters, **more})})


@dataclass(slots=True, kw_only=True)
class _Draft:
    """The words of a query that were read so far."""

    now: datetime
    filters: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def set(self, parameter: str, value: str, *, word: str = "") -> None:
        self.filters[parameter] = value
        self.words[parameter] = word or value

    def add(self, key: str, value: str) -> None:
        parameter = _PARAMETERS.get(key)
        if parameter is None:
            hint = did_you_mean(key[:32], KEYS) or f" The keys are {', '.join(KEYS)}."
            raise _InvalidWordError(f'There is no key "{_shown(key)}".{hint}')
        if not value.strip():
            raise _InvalidWordError(f"Write a value after {key}:, without a blank between them.")
        if parameter == "status":
            self._add_statuses(value)
        elif parameter in self.filters:
            raise _InvalidWordError(f"{key}:{_shown(value)} is left out, because {_KEY_OF[parameter]}: is given twice.")
        else:
            self.set(parameter, _READERS.get(parameter, _as_it_is)(value, self.now), word=value)

    def _add_statuses(self, value: str) -> None:
        """Add statuses; several words with statuses are one list."""
        statuses = self.filters.get("status", "").split(",")
        for name in map(str.strip, value.split(",")):
            if status := _STATUSES.get(name.casefold()):
                statuses.append(status)
            elif name:
                hint = did_you_mean(name[:32], JobStatus) or f" The statuses are {', '.join(JobStatus)}."
                self.errors.append(f'There is no status "{_shown(name)}".{hint}')
        if named := ",".join(filter(None, dict.fromkeys(statuses))):
            self.set("status", named)


def _as_it_is(value: str, _now: datetime) -> str:
    return value


def _id(value: str, _now: datetime, *, of: str = "job") -> str:
    if not _is_number(value) or int(value) > _LARGEST_ID:
        raise _InvalidWordError(f'The id of a {of} is a number, not "{_shown(value)}".')
    return str(int(value))


def _ids(value: str, _now: datetime) -> str:
    if not _IDS.fullmatch(value):
        raise _InvalidWordError(f'Ids of jobs are numbers and ranges, such as 69,75-80, not "{_shown(value)}".')
    return value


def _exit_code(value: str, _now: datetime) -> str:
    if not _is_number(value.removeprefix("-")) or abs(int(value)) > _LARGEST_INTEGER:
        raise _InvalidWordError(f'An exit code is a number such as 2, not "{_shown(value)}".')
    return str(int(value))


def _submission(value: str, _now: datetime) -> str:
    try:
        return str(UUID(value))
    except ValueError as error:
        sentence = f'The id of a submission is a UUID, not "{_shown(value)}". Enter a valid UUID.'
        raise _InvalidWordError(sentence) from error


def time_in(value: str, now: datetime) -> str:
    """Return a duration before *now*, or a date or time (of UTC, if it names no zone), in RFC 3339.

    Raises:
        ValueError: the text is none of them; with a sentence for its author.
    """
    try:
        if ago := _AGO.fullmatch(value):
            moment = now - int(ago[1]) * _UNITS[ago[2].lower()]
        else:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        sentence = f'"{_shown(value)}" is no time: write 12h, 2d, 2026-06-01 or 2026-06-01T12:00:00Z.'
        raise _InvalidWordError(sentence) from error


_READERS: Final[Mapping[str, Callable[[str, datetime], str]]] = MappingProxyType(
    {
        "id": _ids,
        "exit_code": _exit_code,
        "job_group_id": _submission,
        "task_queue": partial(_id, of="task queue"),
        "submitted_after": time_in,
        "submitted_before": time_in,
    }
)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20


def _pattern_of(words: list[str]) -> str:
    """Return the pattern of names with these words in this order; one with ``*`` is a pattern already."""
    if len(words) == 1 and "*" in words[0]:
        return words[0]
    return re.sub(r"\*+", "*", f"*{'*'.join(words)}*")


def _unquoted(word: str) -> str:
    return _QUOTED.sub(lambda quoted: _ESCAPED.sub(r"\1", quoted[1]), word)


def _quoted(value: str) -> str:
    if not re.search(r'[\s"]', value):
        return value
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(map(str, value)))
    return str(value)


def _shown(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
