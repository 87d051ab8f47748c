"""The data of a leased job: copies of input files, destination of output files, and credentials for both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import Record
from wms.wire.protocol import DOWNLOAD


@dataclass(frozen=True)
class InputCopy:
    """One copy of an input file."""

    url: str
    storage_element: str
    size_bytes: int | None
    #: ``adler32:…`` or ``sha256:…``; empty: unknown.
    checksum: str


@dataclass(frozen=True)
class DataFile:
    """One input file with its copies, the nearest first; there may be none."""

    lfn: str
    copies: tuple[InputCopy, ...]
    #: Whether it is a file of the input sandbox, which is fetched whatever the policy.
    is_of_sandbox: bool = False


@dataclass(frozen=True)
class OutputDestination:
    """The destination of output files: the file ``x`` is stored at ``<url><path>/x``, if the server agrees."""

    storage_element: str
    url: str
    path: str
    #: Bearer token for it; in memory only. Empty: none.
    token: str = field(default="", repr=False)


class Content(NamedTuple):
    """The content of a file."""

    size_bytes: int
    #: ``sha256:…``
    checksum: str


def content_of(chunks: Iterable[bytes]) -> Content:
    """Return the content of a file that consists of these parts."""
    digest, size_bytes = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size_bytes += len(chunk)
    return Content(size_bytes, f"sha256:{digest.hexdigest()}")


@dataclass(frozen=True)
class GrantedName:
    """The name that the server has reserved for an output file until the lease ends (ADR 72)."""

    #: As requested.
    lfn: str
    #: The name to store and register it under: *lfn*, or another if that is taken.
    stored_as: str
    #: Why it is another; empty: it is not.
    reason: str
    #: Name of this lease alone, for the bytes until all are there.
    upload: str
    #: Whether a file of this name may be replaced.
    replaces: bool
    #: Contents that earlier leases may have left under the name, and that may be replaced.
    earlier: tuple[Content, ...]
    #: Uploads that earlier leases may have left, to be removed.
    leftovers: tuple[str, ...]


@dataclass(frozen=True)
class JobData:
    """Input and output data of one job."""

    input_files: tuple[DataFile, ...] = ()
    policy: str = DOWNLOAD
    #: Names, patterns, or logical names (``LFN:…``).
    output_files: tuple[str, ...] = ()
    #: None: no file of the job goes to a storage element.
    destination: OutputDestination | None = None
    #: {storage element: bearer token}; in memory only, and not in the repr.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_data(answer: Record) -> JobData:
    """Return the job's data in the answer to a match.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    job = json_fields.record(answer.get("job"), "job")
    data = json_fields.optional_record(answer, "job_data")
    tokens = json_fields.optional_record(data, "credentials")
    return JobData(
        input_files=tuple(_input_file(each) for each in json_fields.records(data, "input_files")),
        policy=json_fields.text(job, "input_data_policy", DOWNLOAD),
        output_files=json_fields.names(job, "output_data"),
        destination=parse_place(data),
        credentials={name: json_fields.text(tokens, name) for name in tokens},
    )


def parse_place(data: Record) -> OutputDestination | None:
    """Return the destination of an answer, with the token for it; None: there is none.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    place = json_fields.optional_record(data, "destination")
    if not place:
        return None
    element = json_fields.text(place, "storage_element")
    return OutputDestination(
        storage_element=element,
        url=json_fields.text(place, "url"),
        path=json_fields.text(place, "path"),
        token=json_fields.text(json_fields.optional_record(data, "credentials"), element, ""),
    )


def parse_reserved(data: Record) -> GrantedName:
    """Return one name of the answer to a reservation.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    earlier = [
        Content(json_fields.whole(each, "size_bytes"), json_fields.text(each, "checksum"))
        for each in json_fields.records(data, "earlier")
    ]
    return GrantedName(
        lfn=json_fields.text(data, "lfn"),
        stored_as=json_fields.text(data, "stored_as"),
        reason=json_fields.text(data, "reason", ""),
        upload=json_fields.text(data, "upload"),
        replaces=data.get("replaces") is True,
        earlier=tuple(earlier),
        leftovers=json_fields.names(data, "leftovers"),
    )


def _input_file(data: Record) -> DataFile:
    nearest = (data,) if json_fields.text(data, "url", "") else ()
    copies = (*nearest, *json_fields.records(data, "other_copies"))
    return DataFile(
        lfn=json_fields.text(data, "lfn"),
        copies=tuple(map(_copy, copies)),
        is_of_sandbox=data.get("is_of_sandbox") is True,
    )


def _copy(data: Record) -> InputCopy:
    return InputCopy(
        url=json_fields.text(data, "url"),
        storage_element=json_fields.text(data, "storage_element", ""),
        size_bytes=None if data.get("size_bytes") is None else json_fields.whole(data, "size_bytes"),
        checksum=json_fields.text(data, "checksum", ""),
    )
