"""Logical files: their names, the data of a replica, and the sites where a job with several input files may run."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import is_normalized, normalize
from urllib.parse import quote

from wms.kernel.errors import RejectedError
from wms.wire.protocol import LFN_PREFIX, MAX_LFN

MAX_SIZE_BYTES: Final = 2**63 - 1
#: Replicas in one request, whose transaction then takes less than a second.
MAX_REPLICAS: Final = 10_000
MAX_FAULTS: Final = 20

#: URL of a storage element. Logical names are appended to it, and readers of files may see it.
STORAGE_URL: Final = re.compile(r"(?:file://(?:localhost)?|[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+)(?:/[^\s?#]*)?\Z")
STORAGE_URL_HINT: Final = "use a URL such as https://…/path, without user and password, ? and #"
#: Credential of a storage element. It is sent in a header, so a line break would break the request.
BEARER: Final = re.compile(r"\A(?! )[ -~]*[!-~]\Z")
BEARER_HINT: Final = "use printable ASCII, without blanks around it and ends of lines"

#: Of the last part of names to which a lease stores the bytes of its output first (ADR 72).
UPLOAD_PREFIX: Final = ".wms-"

_CHECKSUM: Final = re.compile(r"adler32:[0-9a-f]{8}|sha256:[0-9a-f]{64}")
_SHOWN: Final = 80


class ReplicasError(RejectedError):
    """Replicas cannot be registered or removed as requested; ``errors`` has the reason for each."""

    code = "invalid_replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenReplica:
    """One replica in a request; the storage element is given by name."""

    lfn: str
    #: Empty in a removal: all storage elements.
    storage_element: str
    #: None: not given.
    size_bytes: int | None = None
    #: Empty: not given.
    checksum: str = ""


def canonical_lfn(lfn: str) -> str:
    """Return the logical name of a requested file in its stored form: in NFC, without DIRAC's ``LFN:``."""
    return normalize("NFC", without_prefix(lfn))


def without_prefix(lfn: str) -> str:
    """Return the name without a leading ``LFN:``."""
    return lfn[len(LFN_PREFIX) :] if lfn[: len(LFN_PREFIX)].upper() == LFN_PREFIX else lfn


def lfn_problem(lfn: str) -> str:
    """Return what a logical file name must be, if *lfn* is not; else an empty string."""
    if not lfn.startswith("/") or lfn.endswith("/"):
        return "the absolute path of a file, such as /lhcb/data/run1.raw"
    if len(lfn) > MAX_LFN:
        return f"at most {MAX_LFN} characters long, not {len(lfn)}"
    if not lfn.isprintable():
        return "free of control characters"
    if not is_normalized("NFC", lfn):
        # NB: not normalised here, because the file's URLs contain the name as given.
        return "in Unicode's composed form (NFC), so that one name is spelled in one way; rename the file"
    return _problem_of_parts(lfn[1:].split("/")) if "//" in lfn or "/." in lfn else ""


def _problem_of_parts(parts: Sequence[str]) -> str:
    if not {"", ".", ".."}.isdisjoint(parts):
        return 'free of empty parts and of "." and ".."'
    if any(part.startswith(UPLOAD_PREFIX) for part in parts):
        return f"free of parts that begin with {UPLOAD_PREFIX}, as unfinished uploads of jobs do"
    return ""


def checksum_problem(checksum: str) -> str:
    """Return what a checksum must be, if this one is not; else an empty string."""
    if _CHECKSUM.fullmatch(checksum):
        return ""
    return '"adler32:" and 8, or "sha256:" and 64 lower-case hexadecimal digits'


def url_of(storage_url: str, lfn: str) -> str:
    """Return the URL of a file: the storage element's URL with the logical name appended."""
    return storage_url.rstrip("/") + quote(lfn)


def vo_of(lfn: str) -> str:
    """Return the name of the VO that owns a file by default: the first part of its path."""
    return lfn[1:].partition("/")[0]


def is_below(lfn: str, directory: str) -> bool:
    """Return whether the file is in *directory*, or deeper."""
    return lfn.startswith(f"{directory.rstrip('/')}/")


def sites_with_all(
    files: Iterable[str], *, holders: Mapping[str, frozenset[int]], sites_of: Mapping[int, frozenset[str]]
) -> tuple[str, ...]:
    """Return, sorted, the sites with a replica of every one of the files (PIL §2.2).

    Args:
        files: logical names; at least one.
        holders: {file: ids of the storage elements with a replica}; files without replica are missing.
        sites_of: {id of a storage element: names of its sites}.
    """
    left: frozenset[str] | None = None
    # Ten thousand files of one production are on the same few storage elements: each distinct set is checked once.
    for elements in {holders.get(file, frozenset()) for file in files}:
        there = frozenset(site for element in elements for site in sites_of.get(element, ()))
        left = there if left is None else left & there
        if not left:
            return ()
    return tuple(sorted(left or ()))


def parse_replicas(entries: object, *, removing: bool = False) -> list[GivenReplica]:
    """Return the replicas in a request's list of objects.

    Args:
        entries: JSON value.
        removing: the storage element is optional, and size and checksum are not allowed.

    Raises:
        ReplicasError: with the first faults, by position: ``replicas.3.lfn``.
    """
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_REPLICAS:
        got = f"{len(entries)} of them" if isinstance(entries, list) else shown(entries)
        raise refused({"replicas": [f"replicas must be a list of 1 to {MAX_REPLICAS} objects, not {got}."]})
    errors: dict[str, list[str]] = {}
    replicas = []
    for number, entry in enumerate(entries):
        faults = _faults(entry, removing=removing)
        errors |= {f"replicas.{number}{'.' if name else ''}{name}": [fault] for name, fault in faults.items()}
        if len(errors) >= MAX_FAULTS:
            break
        if not errors and isinstance(entry, Mapping):
            replicas.append(
                GivenReplica(
                    lfn=without_prefix(entry["lfn"]),
                    storage_element=entry.get("storage_element") or "",
                    size_bytes=entry.get("size_bytes"),
                    checksum=entry.get("checksum") or "",
                )
            )
    if not errors:
        errors = _repeated(replicas)
    if errors:
        raise refused(errors)
    return replicas


def refused(errors: Mapping[str, Sequence[str]]) -> ReplicasError:
    """Return the error whose sentence is the first of *errors*."""
    sentences = [sentence for of_field in errors.values() for sentence in of_field]
    more = f" ({len(sentences) - 1} more in errors.)" if len(sentences) > 1 else ""
    return ReplicasError(f"{sentences[0]}{more}", errors=errors)


def shown(value: object) -> str:
    """Return *value* as a short, printable text for a sentence."""
    text = repr(value) if not isinstance(value, str) else f'"{value}"'
    text = "".join(each if each.isprintable() else "?" for each in text[: _SHOWN + 1])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def size_problem(size_bytes: object) -> str:
    """Return what a size must be, if this one is not; else an empty string."""
    if type(size_bytes) is int and 0 <= size_bytes <= MAX_SIZE_BYTES:
        return ""
    return "a whole number of bytes, 0 or more"


def _faults(entry: object, *, removing: bool) -> dict[str, str]:
    """Return {field: sentence}; a fault of the whole entry has an empty field."""
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
    """Return an error for each replica that is in the list twice, because it is unclear which one counts."""
    first: dict[tuple[str, str], int] = {}
    errors: dict[str, list[str]] = {}
    for number, replica in enumerate(replicas):
        earlier = first.setdefault((replica.lfn, replica.storage_element), number)
        if earlier != number and len(errors) < MAX_FAULTS:
            errors[f"replicas.{number}"] = [f"This replica is number {earlier} of the list already; keep one of them."]
    return errors
