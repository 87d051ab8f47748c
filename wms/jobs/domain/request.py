"""The body of a submission: one description, a JDL or CFG text, or a list of these (docs/rest.md, Submission)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from resources.domain.classad import ClassAdError
from wms.jobs.domain import parametric
from wms.jobs.domain.attribute_reader import DescribedJob
from wms.jobs.domain.canaries import parsed_canary
from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.description import (
    KNOWN_FIELDS,
    CommonParts,
    DescriptionParts,
    InvalidDescriptionError,
    JobDescription,
)
from wms.jobs.domain.fields import shown
from wms.jobs.domain.jdl import parse_jdl
from wms.jobs.domain.parsing_budget import MAX_JOBS, MAX_WRONG_DESCRIPTIONS, Allowance, InvalidSubmissionError
from wms.jobs.domain.placeholders import unknown_placeholders
from wms.kernel.errors import RejectedError
from wms.kernel.names import composed, did_you_mean

#: Parsing of a list stops after so many wrong fields.
MAX_WRONG_FIELDS: Final = 100
#: Characters of all JDL and CFG texts of a list: parsing takes about 35 ms per 64 kB at worst.
MAX_TEXT_CHARACTERS: Final = 4 * 1024 * 1024
#: Field of a description, in any form, with the references of uploaded files by name: of those whose names are known
#: only when placeholders are replaced.
FILES: Final = "files"
MAX_FILES: Final = 1000
#: Fields of the request beside a description.
ENVELOPE: Final = ("group", "request_id", "strict", "canary")
#: {field: parser of the text in it, which replaces the other fields}.
TEXT_FORMS: Final[Mapping[str, Callable[[str], DescribedJob]]] = MappingProxyType({"jdl": parse_jdl, "cfg": parse_cfg})
FORMS: Final = (*TEXT_FORMS, "jobs")

Errors = dict[str, list[str]]


class RequestedJob(NamedTuple):
    """One job of a request."""

    described: DescriptionParts
    #: Prefix of its field names in errors: "" or ``jobs.3.``.
    path: str
    #: Whether it is of a parametric description, in which percent signs are written twice (``placeholders``).
    parametric: bool

    @property
    def common(self) -> JobDescription:
        """Its description, except for the fields OWN_TEXTS."""
        return self.described.common


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionIn:
    """One request to submit jobs."""

    jobs: Sequence[RequestedJob]
    #: Group to act in; None: the user's default or only one.
    group: str | None
    request_id: UUID | None
    #: SHA-256 of the body, independent of the order of names; empty without a request id.
    digest: bytes
    #: {warning about a JDL or CFG text: positions of its jobs}; no positions: it concerns all jobs.
    warnings: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Whether jobs that surely fail when they start are refused, instead of warned of.
    strict: bool = False
    #: Positions of the jobs that run first, while the others are Held; empty: all wait at once.
    canaries: Sequence[int] = ()
    #: Whether one job for each site where they may run is to be a canary; which, is not decided here.
    canary_at_each_site: bool = False
    #: Ids of the jobs in whose places these are; empty: they retry none.
    predecessors: Sequence[int] = ()

    @property
    def has_held_jobs(self) -> bool:
        """Return whether some of its jobs are to be Held until others are Done."""
        return self.canary_at_each_site or 0 < len(self.canaries) < len(self.jobs)


class _Read(NamedTuple):
    """The descriptions of a request, of one job or of a list, as they were read."""

    jobs: list[RequestedJob]
    #: Groups that it names.
    groups: set[str]
    warnings: Mapping[str, Sequence[int]]


def parse_submission(body: object) -> SubmissionIn:
    """Return the request in *body*, a JSON value; at most 10,000 jobs in all.

    Raises:
        InvalidSubmissionError: the body, group, request id or list is wrong, or exceeds the Allowance.
        InvalidDescriptionError: with the errors of the jobs; those of a list have names like ``jobs.3.executable``, and
            ``jobs`` counts descriptions not parsed after too many errors.
        InvalidJdlError, InvalidCfgError: the only description is a text that cannot be parsed.
    """
    if not isinstance(body, Mapping):
        raise _invalid("body", f"Send an object, a job description, not {shown(body)}.")
    content = {name: value for name, value in body.items() if name not in ENVELOPE}
    request_id = _request_id(body.get("request_id"))
    strict = body.get("strict", False)
    if not isinstance(strict, bool):
        raise _invalid("strict", f"strict must be true or false, not {shown(strict)}.")
    try:
        canaries, at_each_site = parsed_canary(body.get("canary"))
    except ValueError as error:
        raise _invalid("canary", str(error)) from error
    if "jobs" in content:
        _refuse_beside("jobs", content)
        read = _list(content["jobs"])
    else:
        read = _single(content, path="", allowance=Allowance(), parts=CommonParts())
    return SubmissionIn(
        jobs=read.jobs,
        group=one_group(body.get("group"), read.groups),
        request_id=request_id,
        digest=b"" if request_id is None else _digest(body),
        warnings=read.warnings,
        strict=strict,
        canaries=range(min(canaries, len(read.jobs))),
        canary_at_each_site=at_each_site,
    )


def _list(entries: object) -> _Read:
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_JOBS:
        got = f"{len(entries)} of them" if isinstance(entries, list) else shown(entries)
        raise _invalid("jobs", f"jobs must be a list of 1 to {MAX_JOBS} descriptions, not {got}.")
    _refuse_too_much_text(entries)
    jobs: list[RequestedJob] = []
    groups: set[str] = set()
    warnings: dict[str, list[int]] = {}
    errors: Errors = {}
    wrong = 0
    allowance, parts = Allowance(), CommonParts()
    for position, entry in enumerate(entries):
        try:
            read = _entry(entry, path=f"jobs.{position}.", allowance=allowance, parts=parts)
        except InvalidSubmissionError:
            raise
        except RejectedError as error:
            errors |= {f"jobs.{position}.{field}": sentences for field, sentences in error.errors.items()}
            wrong += 1
            if wrong >= MAX_WRONG_DESCRIPTIONS or len(errors) >= MAX_WRONG_FIELDS:
                if left := len(entries) - position - 1:
                    errors["jobs"] = [f"Too many errors: the last {left} descriptions were not checked."]
                break
            continue
        groups |= read.groups
        for sentence in read.warnings:
            warnings.setdefault(sentence, []).extend(range(len(jobs), len(jobs) + len(read.jobs)))
        jobs += read.jobs
    if errors:
        raise InvalidDescriptionError(errors)
    return _Read(jobs, groups, warnings)


def _refuse_too_much_text(entries: Sequence[object]) -> None:
    texts = [entry.get(form) for entry in entries if isinstance(entry, Mapping) for form in TEXT_FORMS]
    if sum(len(text) for text in texts if isinstance(text, str)) > MAX_TEXT_CHARACTERS:
        most = f"at most {MAX_TEXT_CHARACTERS // 2**20} MB of JDL and CFG in all"
        raise _invalid("jobs", f"One request has {most}; submit them in several requests, or as parametric jobs.")


def _entry(entry: object, *, path: str, allowance: Allowance, parts: CommonParts) -> _Read:
    if not isinstance(entry, Mapping):
        raise InvalidDescriptionError({"description": [f"A description must be an object, not {shown(entry)}."]})
    return _single(entry, path=path, allowance=allowance, parts=parts)


def _single(content: Mapping[str, object], *, path: str, allowance: Allowance, parts: CommonParts) -> _Read:
    """Parse one description, in JDL, CFG or JSON, and the group that it names."""
    groups: set[str] = set()
    warnings: Mapping[str, Sequence[int]] = {}
    files: Mapping[str, str] = {}
    if FILES in content:
        files = _files(content[FILES])
        content = {name: value for name, value in content.items() if name != FILES}
    for form, parse in TEXT_FORMS.items():
        if form in content:
            _refuse_beside(form, content)
            job = _read_text(form, content[form], parse)
            content, groups = job.description, set() if job.group is None else {job.group}
            warnings = dict.fromkeys(job.warnings, ())
            break
    is_parametric = parametric.is_parametric(content)
    described = parametric.parse_parts(content, allowance, parts, files=files)
    if is_parametric:
        # Of other jobs, the optimizers look at what is equal in all of them once.
        warnings = {**warnings, **dict.fromkeys(unknown_placeholders(content, parametric=True), ())}
    return _Read([RequestedJob(job, path, is_parametric) for job in described], groups, warnings)


def _files(value: object) -> Mapping[str, str]:
    """Return the references of uploaded files by the names that the jobs of a description give them."""
    if not isinstance(value, Mapping) or len(value) > MAX_FILES:
        raise InvalidDescriptionError({FILES: [f"files must be an object of at most {MAX_FILES} names of files."]})
    for name, reference in value.items():
        if not isinstance(reference, str):
            sentence = f'The file {shown(name)} must be the name of a sandbox, "sha256:…", not {shown(reference)}.'
            raise InvalidDescriptionError({FILES: [sentence]})
    return value


def _read_text(form: str, text: object, parse: Callable[[str], DescribedJob]) -> DescribedJob:
    if not isinstance(text, str):
        sentence = f"{form} must be a string, the text of the {form.upper()}, not {shown(text)}."
        raise InvalidDescriptionError({form: [sentence]})
    try:
        return parse(text)
    except ClassAdError as error:
        error.errors[form] = [error.detail]
        raise


def _refuse_beside(form: str, content: Mapping[str, object]) -> None:
    """Refuse other fields beside a list or a text."""
    errors: Errors = {}
    for name in content:
        if name in {form, *KNOWN_FIELDS, *FORMS}:
            continue
        hint = did_you_mean(str(name)[:64], (*ENVELOPE, *FORMS, *KNOWN_FIELDS))
        errors[str(name)[:64]] = [f"There is no field {shown(name)}.{hint}"]
    for name in content.keys() & {*KNOWN_FIELDS, *FORMS} - {form}:
        errors[name] = [f"{name} cannot be combined with {form}; put it into the description there."]
    if errors:
        raise InvalidDescriptionError(dict(list(errors.items())[:MAX_WRONG_FIELDS]))


def one_group(requested: object, named: Iterable[str]) -> str | None:
    """Return the one group to act in, named by the request or by OwnerGroup in a JDL; None: none is named.

    Raises:
        InvalidSubmissionError: several are named.
    """
    if requested is not None and (not isinstance(requested, str) or not requested):
        raise _invalid("group", f"group must be the name of a group, not {shown(requested)}.")
    groups = {composed(name) for name in (named if requested is None else [requested, *named])}
    if len(groups) > 1:
        names = ", ".join(shown(name) for name in sorted(groups)[:5])
        raise _invalid("group", f"One request acts in one group, but these are named: {names}.")
    return next(iter(groups), None)


def _request_id(value: object) -> UUID | None:
    if value is None:
        return None
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError as error:
        sentence = f"request_id must be a UUID such as 123e4567-e89b-42d3-a456-426614174000, not {shown(value)}."
        raise _invalid("request_id", sentence) from error


def _digest(body: Mapping[str, object]) -> bytes:
    return sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).digest()


def _invalid(field: str, sentence: str) -> InvalidSubmissionError:
    return InvalidSubmissionError(sentence, errors={field: [sentence]})
