"""Sequences of parametric descriptions: the values that ``parameters`` gives each job.

``parameters`` is one sequence of values, or has several by name, of equal length; the name "" is that of ``%s`` beside
named ones. A sequence is a list (``{"values": […]}``) or is counted (``{"count", "start", "step", "factor"}``): the
first value is *start* (0) and each next one is the value before times *factor* (1) plus *step* (1), as in DIRAC. A
value in a list may be a list itself, of which the entries take the place of one entry of a list.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.fields import MAX_NUMBER, shown
from wms.kernel.names import did_you_mean

MAX_PARAMETRIC_JOBS: Final = 10_000
MAX_SEQUENCES: Final = 100
#: Values of all sequences together; a text of 4 kB could name a million.
MAX_VALUES: Final = 250_000

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_COUNTED: Final = ("count", "start", "step", "factor")


class ValuesOfJobs(NamedTuple):
    """The values of a sequence, one for each job; their percent signs are doubled."""

    #: Of values that are lists, their entries with commas between them.
    texts: list[str]
    #: The entries of each value; None: none of the values is a list.
    lists: list[list[str]] | None = None


def sequences_of(parameters: object) -> dict[str, ValuesOfJobs]:
    """Return the values of each sequence, by name ("" without a name); all of one length.

    Raises:
        InvalidDescriptionError: the parameters are wrong.
    """
    if not isinstance(parameters, Mapping) or not parameters:
        hint = 'Write {"values": [1, 2]}, {"count": 10, "start": 0, "step": 1, "factor": 1} or {"name": …}.'
        raise _refused(f"parameters must be an object, not {shown(parameters)}. {hint}" if parameters else hint)
    if not all(isinstance(form, Mapping) for form in parameters.values()):
        return {"": _texts(parameters, of="parameters")}
    if len(parameters) > MAX_SEQUENCES:
        raise _refused(f"parameters must have at most {MAX_SEQUENCES} sequences, not {len(parameters)}.")
    sequences: dict[str, ValuesOfJobs] = {}
    entries = 0
    for name, form in parameters.items():
        is_unnamed = name == "" and len(parameters) > 1
        if not isinstance(name, str) or not (is_unnamed or _NAME.fullmatch(name)):
            raise _refused(f"{shown(name)} is not a valid sequence name: letters, digits, _ and dots, at most 64.")
        sequences[name] = values = _texts(form, of=f"The sequence {name}" if name else "The sequence without a name")
        entries += sum(map(len, values.lists or ()))
        # All sequences must have the same length.
        if (most := max(len(values.texts) * len(parameters), entries)) > MAX_VALUES:
            raise _refused(f"parameters must have at most {MAX_VALUES} values in all, not {most}.")
    if len({len(values.texts) for values in sequences.values()}) > 1:
        lengths = ", ".join(f"{name or '(no name)'}: {len(values.texts)}" for name, values in sequences.items())
        raise _refused(f"All sequences of parameters must have the same number of values; these have {lengths}."[:1000])
    return sequences


def _texts(form: Mapping[str, object], *, of: str) -> ValuesOfJobs:
    allowed = ("values",) if "values" in form else _COUNTED
    for part in form:
        if part not in allowed:
            hint = "" if len(allowed) == 1 else did_you_mean(str(part)[:64], ("values", *_COUNTED))
            beside = ' beside "values"' if len(allowed) == 1 else ""
            raise _refused(f"{of}: {shown(part)} is not allowed{beside}.{hint}")
    values = form.get("values") if "values" in form else _counted(form, of=of)
    if not isinstance(values, list | tuple):
        raise _refused(f"{of}: values must be a list, not {shown(values)}.")
    if not 1 <= len(values) <= MAX_PARAMETRIC_JOBS:
        raise _refused(f"{of}: values must be 1 to {MAX_PARAMETRIC_JOBS}, not {len(values)}.")
    if not any(isinstance(value, list | tuple) for value in values):
        return ValuesOfJobs(_listed(values, of=of))
    lists = [_listed(value if isinstance(value, list | tuple) else [value], of=of) for value in values]
    return ValuesOfJobs([",".join(entries) for entries in lists], lists)


def _listed(values: list[object] | tuple[object, ...], *, of: str) -> list[str]:
    texts: list[str] = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, str):
            texts.append(value.replace("%", "%%"))
        else:
            texts.append(str(_number(value, what=f"{of}: value {number} must be a string or a number")))
    return texts


def _counted(form: Mapping[str, object], *, of: str) -> list[int | float]:
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
    values = [value]
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
