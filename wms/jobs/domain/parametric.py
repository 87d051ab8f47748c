"""Parametric descriptions: one description of many jobs.

``parameters`` contains one sequence of values, or several named ones of equal length; job number i gets value i of
each. A sequence is a list (``{"values": […]}``) or is counted (``{"count", "start", "step", "factor"}``): the first
value is *start* (0) and each next one is the value before times *factor* (1) plus *step* (1), as in DIRAC.
In the fields of TEMPLATES, and only in parametric descriptions, these are replaced:

| written | becomes |
|---|---|
| ``%s`` | the value of the sequence without a name |
| ``%(name)s`` | the value of that sequence |
| ``%n`` | the number of the job, from 0, with as many digits as the largest number has |
| ``%j`` | the job's id, known only when the job is stored |
| ``%%`` | one percent sign |

Any other percent sign stands for itself. The replacement has two stages. ``expand`` leaves ``%j`` and ``%%`` as they
are (and doubles percent signs in values); ``substitute_job_id`` resolves both and must be called exactly once, for jobs
of parametric descriptions only. Other fields, such as sites, numbers, requirements and names of variables and
sandboxes, are not changed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from wms.jobs.domain.description import (
    CommonParts,
    DescriptionParts,
    InvalidDescriptionError,
    JobDescription,
    as_json,
    described,
)
from wms.jobs.domain.description import parse as parse_description
from wms.jobs.domain.description_checks import MAX_ARGUMENTS_BYTES, MAX_OUTPUT_PATH
from wms.jobs.domain.fields import MAX_NAME, MAX_NUMBER, shown
from wms.jobs.domain.parsing_budget import Allowance
from wms.kernel.names import did_you_mean

MAX_PARAMETRIC_JOBS: Final = 10_000
MAX_SEQUENCES: Final = 100
#: Values of all sequences together; a text of 4 kB could name a million.
MAX_VALUES: Final = 250_000
TEMPLATES: Final = (
    "executable",
    "arguments",
    "job_name",
    "job_group",
    "std_output",
    "std_error",
    "input_data",
    "output_sandbox",
    "output_data",
    "output_path",
    "environment",
)

Value: TypeAlias = str | int | float

_DIRECTIVE: Final = re.compile(r"%(%|n|j|s|\([^()%]*\)s)")
_LATE: Final = re.compile(r"%([%j])")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_COUNTED: Final = ("count", "start", "step", "factor")
_OVERHEAD: Final = 64  # bytes of a Python string beside its characters
_SHARED_OVERHEAD: Final = 8  # of a text that all jobs share: quotes and commas when it is stored
_DIRECTIVE_OVERHEAD: Final = 64  # of each replacement, which takes time even if it produces no text


def is_parametric(data: Mapping[str, object]) -> bool:
    """Return whether *data* describes many jobs: it has ``parameters`` that are not null."""
    return data.get("parameters") is not None


def parse_all(data: Mapping[str, object]) -> list[JobDescription]:
    """Return the valid descriptions of all jobs in *data*, a whole request; one if it is not parametric.

    They stay valid after ``substitute_job_id`` with any job id.

    Raises:
        InvalidDescriptionError: with the faults of the first wrong job.
        InvalidSubmissionError: too many jobs for one request.
    """
    return [job.whole for job in parse_parts(data, Allowance(), CommonParts())]


def parse_parts(data: Mapping[str, object], allowance: Allowance, parts: CommonParts) -> list[DescriptionParts]:
    """Return the descriptions of ``parse_all`` in parts, of which *parts* has those of other jobs of the request."""
    result: list[DescriptionParts] = []
    for number, single in enumerate(expand(data, allowance)):
        try:
            job = parts.parse(single)
            if is_parametric(data):
                _refuse_too_long_with_id(job)
        except InvalidDescriptionError as error:
            if number == 0:
                raise
            place = f" (In job number {number} of this parametric description.)"
            errors = {field: [text + place for text in texts] for field, texts in error.errors.items()}
            raise InvalidDescriptionError(errors) from error
        result.append(job)
    return result


def expand(data: Mapping[str, object], allowance: Allowance | None = None) -> list[dict[str, object]]:
    """Return the descriptions of the single jobs, without ``parameters`` and not validated yet, in order.

    A description without ``parameters`` is returned unchanged, with its percent signs.

    Args:
        data: the description.
        allowance: the remaining budget of the request.

    Raises:
        InvalidDescriptionError: the parameters are wrong, or a text names an unknown sequence.
        InvalidSubmissionError: too many jobs for one request.
    """
    allowance = allowance or Allowance()
    single = dict(data)
    single.pop("parameters", None)
    if not is_parametric(data):
        allowance.take_jobs(1)
        return [single]
    sequences = _sequences(data["parameters"])
    count = len(next(iter(sequences.values())))
    allowance.take_jobs(count)
    expansion = _Expansion(sequences, count=count, allowance=allowance)
    varying = [field for field in TEMPLATES if expansion.has_directive(field, single.get(field))]
    shared = [value for field, value in single.items() if field not in varying]
    allowance.take_expanded(count * sum(map(_shared_characters, shared)))
    return [single | {field: expansion.rendered(single[field], number) for field in varying} for number in range(count)]


def substitute_in_parts(job: DescriptionParts, job_id: int) -> DescriptionParts:
    """Return the description as ``substitute_job_id`` does; the common part is kept if nothing in it changes."""
    if not _has_directive(job):
        return job
    if any("%" in text for text in _common_texts_of(job.common)):
        return described(substitute_job_id(job.whole, job_id))
    return DescriptionParts(job.common, _resolved(job.job_name, job_id), _resolved(job.arguments, job_id))


def substitute_job_id(description: JobDescription, job_id: int) -> JobDescription:
    """Return the description of a job from a parametric description, with ``%j`` and ``%%`` resolved.

    Return the same object if there is nothing to resolve.
    """
    if not any("%" in text for text in _texts_of(description)):
        return description
    resolved = partial(_resolved, job_id=job_id)
    finished = replace(
        description,
        executable=resolved(description.executable),
        arguments=resolved(description.arguments),
        job_name=resolved(description.job_name),
        job_group=resolved(description.job_group),
        std_output=resolved(description.std_output),
        std_error=resolved(description.std_error),
        input_data=tuple(map(resolved, description.input_data)),
        output_sandbox=tuple(map(resolved, description.output_sandbox)),
        output_data=tuple(map(resolved, description.output_data)),
        output_path=description.output_path and resolved(description.output_path),
        environment=tuple([(name, resolved(value)) for name, value in description.environment]),
    )
    return description if finished == description else finished


def _resolved(text: str, job_id: int) -> str:
    return _LATE.sub(lambda match: "%" if match[1] == "%" else str(job_id), text)


def _has_directive(job: DescriptionParts) -> bool:
    return "%" in job.job_name or "%" in job.arguments or any("%" in text for text in _common_texts_of(job.common))


def _common_lines_of(job: JobDescription) -> list[str]:
    """Return the texts of TEMPLATES that must be one line, without the name."""
    lines = (job.executable, job.job_group, job.std_output, job.std_error)
    return [*lines, *job.input_data, *job.output_sandbox, *job.output_data, job.output_path or ""]


def _common_texts_of(job: JobDescription) -> list[str]:
    return [*_common_lines_of(job), *[value for _, value in job.environment]]


def _texts_of(job: JobDescription) -> list[str]:
    return [*_common_texts_of(job), job.job_name, job.arguments]


def _refuse_too_long_with_id(job: DescriptionParts) -> None:
    """Validate a job once more if the longest job id could make one of its texts too long."""
    if not _has_directive(job):
        return
    finished = substitute_job_id(job.whole, MAX_NUMBER)
    characters = sum(map(len, _texts_of(finished)))
    too_long = len(finished.output_path or "") > MAX_OUTPUT_PATH
    longest_line = max(map(len, [*_common_lines_of(finished), finished.job_name]))
    if too_long or longest_line > MAX_NAME or characters > MAX_ARGUMENTS_BYTES // 4:
        parse_description(as_json(finished))


class _Expansion:
    """Renders the texts of one description for each job number, and counts their characters."""

    def __init__(self, sequences: Mapping[str, list[str]], *, count: int, allowance: Allowance) -> None:
        self._sequences = sequences
        self._numbers = [str(number).zfill(len(str(count - 1))) for number in range(count)]
        self._templates: dict[str, tuple[str | list[str], ...]] = {}
        #: Characters of all texts of a sequence, by its ``id()``; self._sequences or self._numbers keeps the object
        #: alive.
        self._lengths: dict[int, int] = {}
        self._allowance = allowance

    def has_directive(self, field: str, value: object) -> bool:
        """Parse every text in *value*, and return whether one of them differs between jobs.

        If so, all rendered texts are counted before the first is rendered: they could be half a gigabyte.
        """
        texts = [value] if isinstance(value, str) else value.values() if isinstance(value, Mapping) else value
        if not isinstance(texts, Iterable):
            return False
        varies = False
        characters = 0
        for text in texts:
            if isinstance(text, str):
                self._templates[text] = self._template(field, text)
                varies = varies or len(self._templates[text]) > 1
                characters += self._characters(text)
        if varies:
            self._allowance.take_expanded(characters)
        return varies

    def rendered(self, value: object, number: int) -> object:
        """Return *value* for job *number*; the checks of the description handle values that are not texts."""
        if isinstance(value, str):
            return self._text(value, number)
        if isinstance(value, Mapping):
            return {
                name: self.rendered(item, number) if isinstance(item, str) else item for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._text(item, number) if isinstance(item, str) else item for item in value]
        return value

    def _template(self, field: str, text: str) -> tuple[str | list[str], ...]:
        """Return the fixed parts of *text* and, between them, the texts of all jobs."""
        parts: list[str | list[str]] = []
        begin = 0
        for match in _DIRECTIVE.finditer(text):
            directive = match[1]
            if directive in {"%", "j"}:
                continue
            parts += [text[begin : match.start()], self._texts_of(field, directive)]
            begin = match.end()
        return (*parts, text[begin:])

    def _texts_of(self, field: str, directive: str) -> list[str]:
        if directive == "n":
            return self._numbers
        name = directive[1:-2]
        if name in self._sequences:
            return self._sequences[name]
        if name:
            names = [sequence for sequence in self._sequences if sequence]
            hint = did_you_mean(name[:64], names) if names else " Write %s: the sequence has no name."
            sentence = f"There is no sequence {shown(name)} in parameters.{hint}"
        else:
            sentence = f"The sequences have names; write %({next(iter(self._sequences))})s instead of %{directive}."
        raise InvalidDescriptionError({field: [f"{sentence} (A percent sign itself is written %%.)"]})

    def _characters(self, text: str) -> int:
        """Return the characters of the text in all jobs together."""
        count = len(self._numbers)
        characters = count * _replacements(text)
        for part in self._templates[text]:
            if isinstance(part, str):
                characters += count * len(part)
                continue
            if id(part) not in self._lengths:
                self._lengths[id(part)] = sum(map(len, part))
            characters += self._lengths[id(part)]
        return characters + count * _OVERHEAD

    def _text(self, text: str, number: int) -> str:
        return "".join([part if isinstance(part, str) else part[number] for part in self._templates[text]])


def _replacements(text: str) -> int:
    """Return the cost of the replacements in *text*, of both stages, for one job."""
    return text.count("%") * _DIRECTIVE_OVERHEAD


def _shared_characters(value: object) -> int:
    """Return the approximate stored size of *value*; iterative, because values may be nested very deep."""
    size = 0
    parts = [value]
    while parts:
        part = parts.pop()
        size += _SHARED_OVERHEAD
        if isinstance(part, str):
            size += len(part) + _replacements(part)
        elif isinstance(part, Mapping):
            parts += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            parts += part
    return size


def _sequences(parameters: object) -> dict[str, list[str]]:
    """Return the values of each sequence as texts, by name ("" without a name); all of one length."""
    if not isinstance(parameters, Mapping) or not parameters:
        hint = 'Write {"values": [1, 2]}, {"count": 10, "start": 0, "step": 1, "factor": 1} or {"name": …}.'
        raise _refused(f"parameters must be an object, not {shown(parameters)}. {hint}" if parameters else hint)
    if not all(isinstance(form, Mapping) for form in parameters.values()):
        return {"": _texts(parameters, of="parameters")}
    if len(parameters) > MAX_SEQUENCES:
        raise _refused(f"parameters must have at most {MAX_SEQUENCES} sequences, not {len(parameters)}.")
    sequences: dict[str, list[str]] = {}
    for name, form in parameters.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _refused(f"{shown(name)} is not a valid sequence name: letters, digits, _ and dots, at most 64.")
        sequences[name] = _texts(form, of=f"The sequence {name}")
        # All sequences must have the same length.
        if (values := len(sequences[name]) * len(parameters)) > MAX_VALUES:
            raise _refused(f"parameters must have at most {MAX_VALUES} values in all, not {values}.")
    if len({len(texts) for texts in sequences.values()}) > 1:
        lengths = ", ".join(f"{name}: {len(texts)}" for name, texts in sequences.items())
        raise _refused(f"All sequences of parameters must have the same number of values; these have {lengths}."[:1000])
    return sequences


def _texts(form: Mapping[str, object], *, of: str) -> list[str]:
    allowed = ("values",) if "values" in form else _COUNTED
    for part in form:
        if part not in allowed:
            hint = "" if len(allowed) == 1 else did_you_mean(str(part)[:64], ("values", *_COUNTED))
            beside = ' beside "values"' if len(allowed) == 1 else ""
            raise _refused(f"{of}: {shown(part)} is not allowed{beside}.{hint}")
    values = _listed(form["values"], of=of) if "values" in form else _counted(form, of=of)
    return [value.replace("%", "%%") if isinstance(value, str) else str(value) for value in values]


def _listed(values: object, *, of: str) -> list[Value]:
    if not isinstance(values, list | tuple):
        raise _refused(f"{of}: values must be a list, not {shown(values)}.")
    if not 1 <= len(values) <= MAX_PARAMETRIC_JOBS:
        raise _refused(f"{of}: values must be 1 to {MAX_PARAMETRIC_JOBS}, not {len(values)}.")
    listed: list[Value] = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, str):
            listed.append(value)
        else:
            listed.append(_number(value, what=f"{of}: value {number} must be a string or a number"))
    return listed


def _counted(form: Mapping[str, object], *, of: str) -> list[Value]:
    count = form.get("count")
    if type(count) is not int or not 1 <= count <= MAX_PARAMETRIC_JOBS:
        got = shown(count) if "count" in form else "nothing"
        raise _refused(f"{of}: count must be a whole number from 1 to {MAX_PARAMETRIC_JOBS}, not {got}.")
    start, step, factor = (
        _number(form.get(part, default), what=f"{of}: {part} must be a number")
        for part, default in (("start", 0), ("step", 1), ("factor", 1))
    )
    # If one of them is a real, all values are, also the first (as in DIRAC).
    value: int | float = start + 0 * step + 0 * factor
    values: list[Value] = [value]
    for number in range(1, count):
        value = _number(value * factor + step, what=f"{of}: with this step and factor value {number} must be a number")
        values.append(value)
    return values


def _number(value: object, *, what: str) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER:
        return value
    raise _refused(f"{what} between -{MAX_NUMBER} and {MAX_NUMBER}, not {shown(value)}.")


def _refused(sentence: str) -> InvalidDescriptionError:
    return InvalidDescriptionError({"parameters": [sentence]})
