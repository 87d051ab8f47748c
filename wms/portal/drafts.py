"""Drafts of submissions: one description, of which the form, the JDL and the JSON are three views."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from wms.jobs.domain.data import lfn_of_output
from wms.jobs.domain.description import CommonParts, InvalidDescriptionError
from wms.jobs.domain.fields import shown
from wms.jobs.domain.jdl import Json
from wms.jobs.domain.parametric import is_parametric, parse_parts
from wms.jobs.domain.parsing_budget import Allowance
from wms.jobs.domain.placeholders import has_parameter
from wms.jobs.domain.request import FORMS
from wms.jobs.domain.writing import as_jdl, as_json_text, without_defaults
from wms.kernel.names import did_you_mean
from wms.wire.protocol import SANDBOX_PREFIX

#: Texts of the form that are one line.
_LINES: Final = ("executable", "arguments", "job_name", "job_group", "container")
#: Lists that the form shows as names with commas between them.
NAME_LISTS: Final = (
    *("sites", "banned_sites", "platforms", "tags", "software"),
    *("output_sandbox", "input_data", "output_data"),
)


class KeptFile(NamedTuple):
    """A stored file that goes along with the jobs, as kept in a field of the form."""

    reference: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The description as far as the user has written it."""

    #: By the names of REST; ``input_sandbox`` has references only.
    description: Mapping[str, Json]
    #: Group to act in; None: the user's default.
    group: str | None = None
    files: Sequence[KeptFile] = ()


# ---- Files by name ---------------------------------------------------------------------------------------------------


def replaced(kept: Sequence[KeptFile], new: Sequence[KeptFile]) -> list[KeptFile]:
    """Return the kept files and the new ones; a new file replaces one of its name, as in a directory."""
    names = {file.name for file in new}
    return list(dict.fromkeys([*[file for file in kept if file.name not in names], *new]))


def with_references(description: Mapping[str, Json], files: Sequence[KeptFile]) -> dict[str, Json]:
    """Return the description with references for the names of files, and with all *files* in its input sandbox.

    In a list of jobs, only the files that a job names go along with it.

    Raises:
        InvalidDescriptionError: a name is that of none of the files.
    """
    jobs = description.get("jobs")
    if isinstance(jobs, list):
        named = [
            {**_with_named(job, files, further=()), **files_of_jobs(job, files)} if isinstance(job, Mapping) else job
            for job in jobs
        ]
        return {**description, "jobs": named}
    return _with_named(description, files, further=[file.reference for file in files])


def _with_named(
    description: Mapping[str, Json], files: Sequence[KeptFile], *, further: Sequence[str]
) -> dict[str, Json]:
    entries = description.get("input_sandbox", ())
    if not isinstance(entries, list | tuple):
        return dict(description)  # refused by the checks of the description
    later = _named_later(description)
    named = [entry if entry in later else _reference_of(entry, files) for entry in entries]
    references = list(dict.fromkeys([*named, *further]))
    return {**description, "input_sandbox": references} if references else dict(description)


def _named_later(description: Mapping[str, Json]) -> list[Json]:
    """Return the entries of the input sandbox that are names of files only in the jobs of the description."""
    entries = description.get("input_sandbox")
    names = entries if isinstance(entries, list | tuple) and is_parametric(description) else ()
    return [entry for entry in names if has_parameter(entry)]


def files_of_jobs(description: Mapping[str, Json], files: Sequence[KeptFile]) -> dict[str, Json]:
    """Return the field ``files`` of a description, if names of files in it are known only in its jobs."""
    return {"files": {file.name: file.reference for file in files}} if _named_later(description) else {}


def _reference_of(entry: Json, files: Sequence[KeptFile]) -> Json:
    if not isinstance(entry, str) or lfn_of_output(entry) or entry.startswith(SANDBOX_PREFIX):
        return entry
    # As in DIRAC, where a name may be the path of a local file.
    name = entry.rpartition("/")[2]
    for file in files:
        if file.name == name:
            return file.reference
    hint = did_you_mean(name, [file.name for file in files]) or " Choose it below, or drop it on the page."
    raise InvalidDescriptionError({"input_sandbox": [f"No file {shown(entry)} goes along with this form.{hint}"]})


def with_names(draft: Draft) -> dict[str, Json]:
    """Return the description of the draft with the names of its files for their references, where these are unique."""
    names = [file.name for file in draft.files]
    name_of = {file.reference: file.name for file in draft.files if names.count(file.name) == 1}
    entries = draft.description.get("input_sandbox", ())
    if not isinstance(entries, list | tuple) or not entries:
        return dict(draft.description)
    return {**draft.description, "input_sandbox": [name_of.get(str(entry), entry) for entry in entries]}


def is_blank(draft: Draft) -> bool:
    """Return whether nothing is described: the form always has a CPU time, and files may be there before all else."""
    return without_defaults(draft.description).keys() <= {"cpu_time_s", "input_sandbox"}


# ---- The three views -------------------------------------------------------------------------------------------------


def checked(draft: Draft) -> Draft:
    """Return the draft if its fields are right, as far as that is known without the database.

    An executable may be missing: the draft may be half done.

    Raises:
        InvalidDescriptionError, InvalidSubmissionError: as for a submission.
    """
    if any(form in draft.description for form in FORMS):
        sentence = "A list of jobs, or a text inside JSON, has only this view; describe one job to change to another."
        raise InvalidDescriptionError({"description": [sentence]})
    files = {file.name: file.reference for file in draft.files}
    parse_parts({"executable": "x", **draft.description}, Allowance(), CommonParts(), files=files)
    return draft


def jdl_of(draft: Draft) -> str:
    """Return the draft as JDL.

    Raises:
        InvalidDescriptionError: JDL cannot express it.
    """
    text = as_jdl(with_names(draft), group=draft.group)
    if text is None:
        sentence = "JDL cannot express this description, for example because of a name in it; use JSON."
        raise InvalidDescriptionError({"description": [sentence]})
    return text


def json_of(draft: Draft) -> str:
    """Return the draft as JSON."""
    return as_json_text(with_names(draft), group=draft.group)


def form_of(draft: Draft, *, fields: Sequence[str]) -> dict[str, object]:
    """Return the initial values of the form; what it has no field for is in ``others``.

    Args:
        draft: a checked one.
        fields: fields of a description that the form has under the same names.
    """
    others = without_defaults(draft.description)
    initial: dict[str, object] = {}
    kept = {file.reference for file in draft.files}
    entries = others.pop("input_sandbox", [])
    further = [entry for entry in entries if entry not in kept] if isinstance(entries, list | tuple) else entries
    arguments = others.get("arguments")
    if isinstance(arguments, list):
        others["arguments"] = shlex.join(map(str, arguments))
    for name in fields:
        if name in others and _fits_the_form(name, others[name]):
            initial[name] = others.pop(name)
    initial |= _parameters_of(others)
    if further:
        others["input_sandbox"] = further
    return {**initial, "others": as_text(others), "group": draft.group}


def as_text(others: Mapping[str, Json]) -> str:
    """Return the fields that have no place in the form as JSON; empty: there are none."""
    text = as_json_text(others)
    return "" if text == "{}" else text


def _fits_the_form(name: str, value: Json) -> bool:
    if name in _LINES:
        return isinstance(value, str) and value == value.strip() and not _is_long(value)
    if name in NAME_LISTS and isinstance(value, list | tuple):
        return all(isinstance(each, str) and each == each.strip() and not _is_long(each, ",") for each in value)
    return isinstance(value, int)


def _is_long(text: str, *separators: str) -> bool:
    """Return whether a text is not one line, or contains a separator."""
    return text.splitlines() not in ([], [text]) or any(separator in text for separator in separators)


def _parameters_of(others: dict[str, Json]) -> dict[str, object]:
    """Take simple parameters out of *others*, and return the initial values of their fields."""
    parameters = others.get("parameters")
    if not isinstance(parameters, Mapping):
        return {}
    values, count = parameters.get("values"), parameters.get("count")
    if isinstance(values, list) and all(_is_line(value) for value in values):
        del others["parameters"]
        return {"values": values}
    if isinstance(count, int) and len(parameters) == 1:
        del others["parameters"]
        return {"count": count}
    return {}


def _is_line(value: Json) -> bool:
    text = str(value)
    return isinstance(value, str | int | float) and bool(text) and text == text.strip() and not _is_long(text)
