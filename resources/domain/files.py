"""Logical files: how they are named, what is told of a copy, and where a job that reads several of them may run."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import is_normalized, normalize
from urllib.parse import quote

from wms.kernel.errors import RejectedError

MAX_LFN: Final = 255
MAX_SIZE_BYTES: Final = 2**63 - 1
#: What one request may register or remove: its transaction lasts less than a second.
MAX_REPLICAS: Final = 10_000
MAX_FAULTS: Final = 20
LFN_PREFIX: Final = "LFN:"

#: Where a storage element is: the logical name comes after it, and whoever reads a file may read this.
STORAGE_URL: Final = re.compile(r"(?:file://(?:localhost)?|[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+)(?:/[^\s?#]*)?\Z")
STORAGE_URL_HINT: Final = "use a URL such as https://…/path, without user and password, ? and #"
#: What opens it: sent in a header, so that a line's end from a file of secrets would break the request.
BEARER: Final = re.compile(r"\A(?! )[ -~]*[!-~]\Z")
BEARER_HINT: Final = "use printable ASCII, without blanks around it and ends of lines"

_CHECKSUM: Final = re.compile(r"adler32:[0-9a-f]{8}|sha256:[0-9a-f]{64}")
_SHOWN: Final = 80


class ReplicasError(RejectedError):
    """Replicas cannot be registered or removed as they were given; ``errors`` says for each why."""

    code = "invalid_replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReplica:
    """One copy of a file as somebody told of it; the storage element is known by its name only."""

    lfn: str
    #: Empty, when replicas are removed: at every one.
    storage_element: str
    #: None: not told.
    size_bytes: int | None = None
    #: Empty: not told.
    checksum: str = ""


def canonical_lfn(lfn: str) -> str:
    """Return the name under which a file that somebody asks for is known: in NFC, and without DIRAC's ``LFN:``."""
    return normalize("NFC", without_prefix(lfn))


def without_prefix(lfn: str) -> str:
    """Return the name without the ``LFN:`` that may stand before it."""
    return lfn[len(LFN_PREFIX) :] if lfn[: len(LFN_PREFIX)].upper() == LFN_PREFIX else lfn


def lfn_problem(lfn: str) -> str:
    """Return what a logical file name must be and *lfn* is not, or an empty string."""
    if not lfn.startswith("/") or lfn.endswith("/"):
        return "the absolute path of a file, such as /lhcb/data/run1.raw"
    if len(lfn) > MAX_LFN:
        return f"at most {MAX_LFN} characters long, not {len(lfn)}"
    if not lfn.isprintable():
        return "free of control characters"
    if not is_normalized("NFC", lfn):
        # Not silently another name: the URLs of the file are made of this one.
        return "in Unicode's composed form (NFC), so that one name is spelled in one way; rename the file"
    if ("//" in lfn or "/." in lfn) and not {"", ".", ".."}.isdisjoint(lfn[1:].split("/")):
        return 'free of empty parts and of "." and ".."'
    return ""


def checksum_problem(checksum: str) -> str:
    """Return what a checksum must be and this one is not, or an empty string."""
    if _CHECKSUM.fullmatch(checksum):
        return ""
    return '"adler32:" and 8, or "sha256:" and 64 lower-case hexadecimal digits'


def url_of(storage_url: str, lfn: str) -> str:
    """Return where a storage element keeps a file: its own URL with the logical name after it."""
    return storage_url.rstrip("/") + quote(lfn)


def vo_of(lfn: str) -> str:
    """Return the name of the VO to which a file belongs when none is named: the first part of its path."""
    return lfn[1:].partition("/")[0]


def is_below(lfn: str, directory: str) -> bool:
    """Return whether the file lies in *directory*, or deeper."""
    return lfn.startswith(f"{directory.rstrip('/')}/")


def sites_with_all(
    files: Iterable[str], *, holders: Mapping[str, frozenset[int]], sites_of: Mapping[int, frozenset[str]]
) -> tuple[str, ...]:
    """Return, sorted, the sites at which every one of the files has a copy (PIL §2.2).

    Args:
        files: logical names; at least one.
        holders: {file: ids of the storage elements with a copy}; a file that is not there has none.
        sites_of: {id of a storage element: names of the sites that it belongs to}.
    """
    left: frozenset[str] | None = None
    # Ten thousand files of one production lie on the same few storage elements: each set of those is looked at once.
    for elements in {holders.get(file, frozenset()) for file in files}:
        there = frozenset(site for element in elements for site in sites_of.get(element, ()))
        left = there if left is None else left & there
        if not left:
            return ()
    return tuple(sorted(left or ()))


def parse_replicas(entries: object, *, removing: bool = False) -> list[GivenReplica]:
    """Return the replicas in a request's list, each of which is an object.

    Args:
        entries: as JSON gives them.
        removing: a storage element may be left out, and nothing else may be said.

    Raises:
        ReplicasError: with the first faults, by place: ``replicas.3.lfn``.
    """
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_REPLICAS:
        given = f"{len(entries)} of them" if isinstance(entries, list) else shown(entries)
        raise refused({"replicas": [f"replicas must be a list of 1 to {MAX_REPLICAS} objects, not {given}."]})
    errors: dict[str, list[str]] = {}
    found = []
    for number, entry in enumerate(entries):
        faults = _faults(entry, removing=removing)
        errors |= {f"replicas.{number}{'.' if name else ''}{name}": [fault] for name, fault in faults.items()}
        if len(errors) >= MAX_FAULTS:
            break
        if not errors and isinstance(entry, Mapping):
            found.append(
                GivenReplica(
                    lfn=without_prefix(entry["lfn"]),
                    storage_element=entry.get("storage_element") or "",
                    size_bytes=entry.get("size_bytes"),
                    checksum=entry.get("checksum") or "",
                )
            )
    if not errors:
        errors = _repeated(found)
    if errors:
        raise refused(errors)
    return found


def refused(errors: Mapping[str, Sequence[str]]) -> ReplicasError:
    """Return the error whose sentence is the first of *errors*."""
    sentences = [sentence for of_field in errors.values() for sentence in of_field]
    more = f" ({len(sentences) - 1} more in errors.)" if len(sentences) > 1 else ""
    return ReplicasError(f"{sentences[0]}{more}", errors=errors)


def shown(value: object) -> str:
    """Return *value* as a sentence names it: short and printable."""
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    text = "".join(each if each.isprintable() else "?" for each in text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def size_problem(size_bytes: object) -> str:
    """Return what a size must be and this one is not, or an empty string."""
    if type(size_bytes) is int and 0 <= size_bytes <= MAX_SIZE_BYTES:
        return ""
    return "a whole number of bytes, 0 or more"


def _faults(entry: object, *, removing: bool) -> dict[str, str]:
    """Return {field: sentence}; the name of the whole entry is empty."""
    if not isinstance(entry, Mapping):
        return {"": f"A replica must be an object with lfn and storage_element, not {shown(entry)}."}
    known: Collection[str] = ("lfn", "storage_element") if removing else ("lfn", *_OPTIONAL)
    faults = {
        str(name)[:64]: f"There is no field {shown(name)}; use {', '.join(known)}." for name in entry.keys() - known
    }
    lfn, element = entry.get("lfn"), entry.get("storage_element")
    problem = lfn_problem(without_prefix(lfn)) if isinstance(lfn, str) else "a string, the logical name of the file"
    if problem:
        faults["lfn"] = f"lfn must be {problem}; this is {shown(lfn)}."
    if not isinstance(element, str) and not (removing and element is None):
        faults["storage_element"] = "storage_element must be a string, the name of a storage element."
    if not removing:
        faults |= _faults_of_content(entry)
    return faults


_OPTIONAL: Final = ("storage_element", "size_bytes", "checksum")


def _faults_of_content(entry: Mapping[str, object]) -> dict[str, str]:
    size, checksum = entry.get("size_bytes"), entry.get("checksum")
    faults = {}
    if size is not None and (problem := size_problem(size)):
        faults["size_bytes"] = f"size_bytes must be {problem}, not {shown(size)}."
    if checksum not in (None, ""):
        problem = checksum_problem(checksum) if isinstance(checksum, str) else "a string"
        if problem:
            faults["checksum"] = f"checksum must be {problem}, not {shown(checksum)}."
    return faults


def _repeated(replicas: Iterable[GivenReplica]) -> dict[str, list[str]]:
    """Return an error for each replica that the list told of before; which of the two would count."""
    first: dict[tuple[str, str], int] = {}
    errors: dict[str, list[str]] = {}
    for number, replica in enumerate(replicas):
        earlier = first.setdefault((replica.lfn, replica.storage_element), number)
        if earlier != number and len(errors) < MAX_FAULTS:
            errors[f"replicas.{number}"] = [f"This replica is number {earlier} of the list already; keep one of them."]
    return errors
