"""Downtimes as GOCDB announces them: the XML of its method ``get_downtime``, read with bounds and without entities."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final
from xml.parsers import expat

from wms.kernel.errors import RejectedError

#: Bytes of a document, its downtimes, levels of elements, and characters of a field.
MAX_BYTES: Final = 5_000_000
MAX_DOWNTIMES: Final = 20_000
_MAX_DEPTH: Final = 10
_MAX_TEXT: Final = 2_000
_MAX_ID: Final = 128
_MAX_REASON: Final = 255
_LONGEST: Final = timedelta(days=3650)
#: Unreadable downtimes that are named.
_MOST_NAMED: Final = 20
#: Types of services that run jobs, in lower case; another type, such as that of a storage element, closes nothing.
COMPUTING: Final = frozenset(
    {
        *("ce", "arc-ce", "cream-ce", "htcondor-ce", "globus-gram5", "qcg.computing"),
        *("org.nordugrid.arex", "org.opensciencegrid.htcondorce", "unicore6.targetsystemfactory"),
    }
)
#: Until the year 5138; a longer number is no time.
_SECONDS: Final = re.compile("[0-9]{1,11}", re.ASCII)
_FIELDS: Final = frozenset(
    {
        *("PRIMARY_KEY", "HOSTNAME", "HOSTED_BY", "SERVICE_TYPE", "SEVERITY"),
        *("START_DATE", "END_DATE", "DESCRIPTION"),
    }
)


class AnnouncementError(RejectedError):
    """The document is not an answer of GOCDB's method get_downtime."""

    code = "bad_gocdb_document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """One downtime of one service."""

    external_id: str
    site: str
    #: Empty: of the whole site.
    host: str
    #: Empty: not given.
    service_type: str
    is_outage: bool
    begins_at: datetime
    ends_at: datetime
    reason: str

    @property
    def may_run_jobs(self) -> bool:
        """Return whether its service runs jobs, as far as its type says."""
        return not self.service_type or self.service_type.casefold() in COMPUTING


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcements:
    """The downtimes of a document, and those that could not be read."""

    downtimes: Sequence[Announced]
    #: In words.
    unreadable: Sequence[str] = ()
    unreadable_ids: Collection[str] = ()


@dataclass(slots=True)
class _Reader:
    """Collects the direct fields of each element DOWNTIME."""

    downtimes: list[Announced] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    unreadable_ids: set[str] = field(default_factory=set)
    _path: list[str] = field(default_factory=list)
    _values: dict[str, str] = field(default_factory=dict)

    def begin(self, name: str, attributes: Mapping[str, str]) -> None:
        self._path.append(name)
        if len(self._path) == 1 and name != "results":
            raise AnnouncementError(f"The document begins with <{name[:64]}>, not with <results> as GOCDB's do.")
        if len(self._path) > _MAX_DEPTH:
            raise AnnouncementError(f"The document has more than {_MAX_DEPTH} levels of elements.")
        if self._path == ["results", "DOWNTIME"]:
            self._values = {"PRIMARY_KEY": attributes.get("PRIMARY_KEY") or attributes.get("ID", "")}
        elif self._field() in _FIELDS:
            self._values[name] = ""

    def text(self, text: str) -> None:
        name = self._field()
        if name in _FIELDS and len(self._values[name]) < _MAX_TEXT:
            self._values[name] += text

    def end(self, _name: str) -> None:
        if self._path == ["results", "DOWNTIME"]:
            if len(self.downtimes) + len(self.unreadable) == MAX_DOWNTIMES:
                raise AnnouncementError(f"The document has more than {MAX_DOWNTIMES:,} downtimes.")
            self._read({name: value.strip() for name, value in self._values.items()})
        self._path.pop()

    def _field(self) -> str:
        return self._path[2] if len(self._path) == 3 and self._path[:2] == ["results", "DOWNTIME"] else ""

    def _read(self, values: Mapping[str, str]) -> None:
        external_id = values["PRIMARY_KEY"][:_MAX_ID]
        try:
            self.downtimes.append(_announced(external_id, values))
        except ValueError as error:
            self.unreadable_ids.add(external_id)
            self.unreadable.append(f"downtime {_one_line(external_id) or '(without a key)'}: {error}")


def parse(document: bytes | str) -> Announcements:
    """Return the downtimes of a document; what is wrong with single ones is said beside.

    Raises:
        AnnouncementError: it is too large, no XML, has a document type or entities, or is no answer of GOCDB.
    """
    content = document.encode() if isinstance(document, str) else document
    if len(content) > MAX_BYTES:
        raise AnnouncementError(f"The document has more than {MAX_BYTES:,} bytes.")
    reader = _Reader()
    # A text has been decoded already, whatever encoding its first line names.
    parser = expat.ParserCreate("UTF-8" if isinstance(document, str) else None)
    parser.StartDoctypeDeclHandler = _refuse_declaration
    parser.EntityDeclHandler = _refuse_declaration
    parser.StartElementHandler, parser.EndElementHandler = reader.begin, reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(content, True)  # noqa: FBT003 - takes no names
    except expat.ExpatError as error:
        raise AnnouncementError(f"The document is not well-formed XML: {error}.") from error
    except (LookupError, UnicodeError, ValueError) as error:
        raise AnnouncementError("The document has an encoding that is not known here; use UTF-8.") from error
    return Announcements(
        downtimes=reader.downtimes,
        unreadable=reader.unreadable[:_MOST_NAMED],
        unreadable_ids=frozenset(reader.unreadable_ids),
    )


def _refuse_declaration(*_declared: object) -> None:
    raise AnnouncementError("The document declares a document type or entities, which GOCDB's do not; it is not read.")


def _announced(external_id: str, values: Mapping[str, str]) -> Announced:
    """Return one downtime.

    Raises:
        ValueError: with what is wrong, in words.
    """
    if not external_id:
        raise ValueError("it has no key")
    begins_at, ends_at = (_time_of(values.get(name, ""), name) for name in ("START_DATE", "END_DATE"))
    if ends_at <= begins_at:
        raise ValueError("it does not end after its begin")
    if ends_at - begins_at > _LONGEST:
        raise ValueError("it is longer than ten years")
    return Announced(
        external_id=external_id,
        site=values.get("HOSTED_BY", ""),
        host=values.get("HOSTNAME", ""),
        service_type=values.get("SERVICE_TYPE", ""),
        is_outage=values.get("SEVERITY", "").casefold() == "outage",
        begins_at=begins_at,
        ends_at=ends_at,
        reason=_one_line(values.get("DESCRIPTION", ""))[:_MAX_REASON].rstrip() or "announced in GOCDB",
    )


def _time_of(text: str, name: str) -> datetime:
    if _SECONDS.fullmatch(text) is None:
        raise ValueError(f"its {name} is not a time in seconds since 1970")
    return datetime.fromtimestamp(int(text), tz=UTC)


def _one_line(text: str) -> str:
    """Return a text in one line, without characters that steer a terminal."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
