"""Placeholders in descriptions (ADR 79).

In the fields LATE of any job ``%j`` becomes the id of the job when it is stored, and ``%%j`` becomes ``%j``; all
other percent signs stand for themselves. In jobs of a parametric description these are replaced, in LATE and EARLY:

| written | becomes |
|---|---|
| ``%s`` | the value of the sequence without a name |
| ``%(name)s`` | the value of that sequence |
| ``%n`` | the number of the job, from 0, with as many digits as the largest number has |
| ``%j`` | the job's id, in LATE only |
| ``%%`` | one percent sign |

Any other percent sign stands for itself. ``%j`` is refused in EARLY: these fields choose the task queue of the job, or
are looked up, before it has an id. ``parametric.expand`` finishes EARLY, and in LATE it leaves ``%j`` and what
writes percent signs as they are; ``substitute_job_id`` resolves both and must be called exactly once.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from wms.jobs.domain.description import (
    OWN_TEXTS,
    DescriptionParts,
    InvalidDescriptionError,
    JobDescription,
    as_json,
    described,
)
from wms.jobs.domain.description import parse as parse_description
from wms.jobs.domain.description_checks import MAX_ARGUMENTS_BYTES, MAX_OUTPUT_PATH
from wms.jobs.domain.fields import MAX_NAME, MAX_NUMBER
from wms.wire.amounts import AMOUNTS

#: Fields that may contain the id of the job.
LATE: Final = (
    *("executable", "arguments", "job_name", "job_group", "std_output", "std_error"),
    *("output_sandbox", "output_data", "output_path", "environment"),
)
#: Whole numbers, of which a placeholder may be the whole value.
NUMBERS: Final = ("cpu_time_s", "priority", "stalled_s", *[amount.name for amount in AMOUNTS])
#: Fields that are needed before the job has its id.
EARLY: Final = (
    *("input_data", "input_sandbox", "output_se", "sites", "banned_sites", "grid_ces", "grid_middlewares"),
    *("platforms", "tags", "software", "pilot_types", "submit_pools", "job_type", "setup", "container"),
    *NUMBERS,
)
#: Fields with names of files, in which an unknown placeholder is probably a mistake.
FILE_NAMES: Final = (
    *("executable", "std_output", "std_error", "output_sandbox", "output_data", "output_path", "input_data"),
)
_EARLY: Final = frozenset(EARLY)
_ID: Final = re.compile(r"%%?j")
_PLACEHOLDER: Final = re.compile(r"%(?:[nsj]|\([^()%]*\)s)")
_ID_OR_PERCENT: Final = re.compile(r"%[%j]")
#: Sentences on unknown placeholders in a field.
_MOST_UNKNOWN: Final = 3
#: Not the percent-encoded characters of an address.
_UNKNOWN: Final = re.compile(r"%(?![0-9A-Fa-f]{2})[A-Za-z]|%\([^()%]{0,64}\)[A-Za-z]|_PARAM_")
_KNOWN_IN_PARAMETRIC: Final = re.compile(r"%(?:[%nsj]|\([^()%]*\)s)")


def texts_in(value: object) -> list[str]:
    """Return the texts in a field of a description; what is none is left out."""
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return [part for part in parts if isinstance(part, str)]


def is_placeholder(value: object) -> bool:
    """Return whether the value is a placeholder and nothing else."""
    return isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None


def has_parameter(value: object) -> bool:
    """Return whether the text of a parametric description differs between its jobs."""
    return isinstance(value, str) and any(sign not in {"%%", "%j"} for sign in _KNOWN_IN_PARAMETRIC.findall(value))


def literal(text: str) -> str:
    """Return a text that is replaced by *text* in a job that is not parametric."""
    return text.replace("%j", "%%j")


def with_literal_ids(description: Mapping[str, object]) -> dict[str, object]:
    """Return the description of a stored job as one that makes the same job again, if it is not parametric."""
    return {
        name: _mapped(value, literal) if name in LATE or name in _EARLY else value
        for name, value in description.items()
    }


def finished_early(description: dict[str, object]) -> dict[str, object]:
    """Return the description of a job that is not parametric, with ``%%j`` of EARLY resolved.

    Raises:
        InvalidDescriptionError: a field of EARLY has ``%j``.
    """
    # Names of fields are few; their values are rarely searched.
    for field in _EARLY.intersection(description):
        value = description[field]
        if type(value) is not int and any("%j" in text for text in texts_in(value)):
            refuse_id(field, value, pattern=_ID)
            description = {**description, field: _mapped(value, lambda text: text.replace("%%j", "%j"))}
    return description


def refuse_id(field: str, value: object, *, pattern: re.Pattern[str] = _ID_OR_PERCENT) -> None:
    """Refuse ``%j`` in a field of EARLY; *pattern* also finds what only looks so.

    Raises:
        InvalidDescriptionError: it is there.
    """
    if any("%j" in pattern.findall(text) for text in texts_in(value)):
        sentence = (
            f"%j cannot be in {field}, which decides where the job waits or is looked up before the job has its id. "
            "In parametric jobs write %n or %s; %%j stands for %j itself."
        )
        raise InvalidDescriptionError({field: [sentence]})


def _mapped(value: object, function: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return function(value)
    if isinstance(value, Mapping):
        return {name: function(text) if isinstance(text, str) else text for name, text in value.items()}
    if isinstance(value, list | tuple):
        return [function(text) if isinstance(text, str) else text for text in value]
    return value


# ---- The id of the job -----------------------------------------------------------------------------------------------


class JobIds:
    """Puts the ids of jobs into the descriptions of one request; each common part is searched once."""

    def __init__(self) -> None:
        #: {``id()`` of a common part: (that part, which is kept alive, whether it has a sign)}, by parametric or not.
        self._searched: tuple[dict[int, tuple[JobDescription, bool]], ...] = ({}, {})

    def put(self, job: DescriptionParts, job_id: int, *, parametric: bool) -> DescriptionParts:
        """Return the description as ``substitute_job_id`` does; the common part is kept if nothing in it changes."""
        sign = "%" if parametric else "%j"
        searched = self._searched[parametric].get(id(job.common))
        if searched is None:
            searched = job.common, has_id(job.common, sign=sign)
            self._searched[parametric][id(job.common)] = searched
        if searched[1]:
            return described(substitute_job_id(job.whole, job_id, parametric=parametric))
        if sign not in job.arguments and sign not in job.job_name:
            return job
        resolved = partial(_resolved, job_id=job_id, parametric=parametric)
        return DescriptionParts(job.common, resolved(job.job_name), resolved(job.arguments))


def has_id(common: JobDescription, *, sign: str = "%j") -> bool:
    """Return whether the common part of descriptions has ``%j``, or another sign, in one of its texts."""
    return any(sign in text for text in _common_texts_of(common))


def substitute_job_id(description: JobDescription, job_id: int, *, parametric: bool) -> JobDescription:
    """Return the description of a job with ``%j``, and with what stands for percent signs, resolved.

    Return the same object if there is nothing to resolve.
    """
    if not any("%" in text for text in _texts_of(description)):
        return description
    resolved = partial(_resolved, job_id=job_id, parametric=parametric)
    finished = replace(
        description,
        executable=resolved(description.executable),
        arguments=resolved(description.arguments),
        job_name=resolved(description.job_name),
        job_group=resolved(description.job_group),
        std_output=resolved(description.std_output),
        std_error=resolved(description.std_error),
        output_sandbox=tuple(map(resolved, description.output_sandbox)),
        output_data=tuple(map(resolved, description.output_data)),
        output_path=description.output_path and resolved(description.output_path),
        environment=tuple([(name, resolved(value)) for name, value in description.environment]),
    )
    return description if finished == description else finished


def _resolved(text: str, job_id: int, *, parametric: bool) -> str:
    if parametric:
        return _ID_OR_PERCENT.sub(lambda match: "%" if match[0] == "%%" else str(job_id), text)
    return _ID.sub(lambda match: "%j" if match[0] == "%%j" else str(job_id), text)


def _common_lines_of(job: JobDescription) -> list[str]:
    """Return the texts of LATE that must be one line, without the name."""
    lines = (job.executable, job.job_group, job.std_output, job.std_error)
    return [*lines, *job.output_sandbox, *job.output_data, job.output_path or ""]


def _common_texts_of(job: JobDescription) -> list[str]:
    return [*_common_lines_of(job), *[value for _, value in job.environment]]


def _texts_of(job: JobDescription) -> list[str]:
    return [*_common_texts_of(job), job.job_name, job.arguments]


def refuse_too_long_with_id(job: DescriptionParts, *, parametric: bool = True) -> None:
    """Validate a job once more if the longest job id could make one of its texts too long.

    Raises:
        InvalidDescriptionError: it does.
    """
    if not any("%" in text for text in (job.job_name, job.arguments, *_common_texts_of(job.common))):
        return
    finished = substitute_job_id(job.whole, MAX_NUMBER, parametric=parametric)
    characters = sum(map(len, _texts_of(finished)))
    too_long = len(finished.output_path or "") > MAX_OUTPUT_PATH
    longest_line = max(map(len, [*_common_lines_of(finished), finished.job_name]))
    if too_long or longest_line > MAX_NAME or characters > MAX_ARGUMENTS_BYTES // 4:
        parse_description(as_json(finished))


# ---- Warnings --------------------------------------------------------------------------------------------------------


def id_warning(job: DescriptionParts) -> str:
    """Return the sentence on the replacements in a job that is not parametric; empty: there are none."""
    fields = [name for name in LATE if any("%j" in _ID.findall(text) for text in _late_texts(job, name))]
    words = " and ".join(filter(None, [", ".join(fields[:-1]), *fields[-1:]]))
    return f"%j is replaced by the id of the job, in {words}; for %j as it stands, write %%j." if fields else ""


def _late_texts(job: DescriptionParts, field: str) -> Iterable[str]:
    if field in OWN_TEXTS:
        return (str(getattr(job, field)),)
    value = getattr(job.common, field)
    return [text for _, text in value] if field == "environment" else texts_in(value)


def unknown_placeholders(description: Mapping[str, object], *, parametric: bool) -> Iterator[str]:
    """Yield sentences on what looks like a placeholder in names of files, and is none.

    Args:
        description: as it is written, before anything is replaced.
        parametric: whether it has parameters.
    """
    known = _KNOWN_IN_PARAMETRIC if parametric else _ID
    for field in FILE_NAMES:
        found = {sign for text in texts_in(description.get(field)) for sign in _UNKNOWN.findall(known.sub(" ", text))}
        for sign in sorted(found)[:_MOST_UNKNOWN]:
            yield f"{sign} in {field} is not replaced: {_cure_of(sign, parametric=parametric)}"


def _cure_of(sign: str, *, parametric: bool) -> str:
    if sign == "_PARAM_":
        return "it is gLite's word for %s; write %s" + ("." if parametric else ", and Parameters.")
    if parametric:
        return "there is no such placeholder; write %% for a percent sign."
    return "the job is not parametric, so it is a part of the name."
