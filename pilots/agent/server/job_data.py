"""The data of a leased job: copies of input files, destination of output files, and credentials for both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """The destination of output files: the file ``x`` is stored at ``<url><path>/x``."""

    storage_element: str
    url: str
    path: str


@dataclass(frozen=True)
class JobData:
    """Input and output data of one job."""

    input_files: tuple[DataFile, ...] = ()
    policy: str = DOWNLOAD
    #: Names, patterns, or logical names (``LFN:…``).
    output_files: tuple[str, ...] = ()
    output: OutputDestination | None = None
    #: {storage element: bearer token}; in memory only, and not in the repr.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


def parse_data(answer: Record) -> JobData:
    """Return the job's data in the answer to a match.

    Raises:
        MalformedAnswerError: a field is missing or has a wrong type.
    """
    job = json_fields.record(answer.get("job"), "job")
    data = json_fields.optional_record(answer, "job_data")
    place = json_fields.optional_record(data, "output")
    tokens = json_fields.optional_record(data, "credentials")
    return JobData(
        input_files=tuple(_input_file(each) for each in json_fields.records(data, "input_files")),
        policy=json_fields.text(job, "input_data_policy", DOWNLOAD),
        output_files=json_fields.names(job, "output_data"),
        output=_place(place) if place else None,
        credentials={name: json_fields.text(tokens, name) for name in tokens},
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


def _place(data: Record) -> OutputDestination:
    return OutputDestination(
        storage_element=json_fields.text(data, "storage_element"),
        url=json_fields.text(data, "url"),
        path=json_fields.text(data, "path"),
    )
