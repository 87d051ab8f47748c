"""Parametric descriptions: one description of many jobs.

``parameters`` contains the values of the jobs (``sequences``), which take the place of placeholders in the description
(``placeholders``); job number i gets value i of each sequence. Requirements and names of variables are not changed.
"""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.description import CommonParts, DescriptionParts, InvalidDescriptionError, JobDescription
from wms.jobs.domain.fields import shown
from wms.jobs.domain.parsing_budget import Allowance
from wms.jobs.domain.placeholders import (
    EARLY,
    LATE,
    NUMBERS,
    finished_early,
    refuse_id,
    refuse_too_long_with_id,
    texts_in,
)
from wms.jobs.domain.sequences import ValuesOfJobs, sequences_of
from wms.kernel.names import did_you_mean

#: Fields in which placeholders are replaced.
TEMPLATES: Final = (*LATE, *EARLY)

_DIRECTIVE: Final = re.compile(r"%(%|n|j|s|\([^()%]*\)s)")
#: A list of texts, which the program gets with commas between them.
_READ_BY_PROGRAM: Final = frozenset({"arguments", "environment"})
_MOST_DIGITS: Final = 18
_OVERHEAD: Final = 64  # bytes of a Python string beside its characters
_SHARED_OVERHEAD: Final = 8  # of a text that all jobs share: quotes and commas when it is stored
_DIRECTIVE_OVERHEAD: Final = 64  # of each replacement, which takes time even if it produces no text


def is_parametric(data: Mapping[str, object]) -> bool:
    """Return whether *data* describes many jobs: it has ``parameters`` that are not null."""
    return data.get("parameters") is not None


def parse_all(data: Mapping[str, object]) -> list[JobDescription]:
    """Return the valid descriptions of all jobs in *data*, a whole request; one if it is not parametric.

    If it is parametric, they stay valid with any job id.

    Raises:
        InvalidDescriptionError: with the faults of the first wrong job.
        InvalidSubmissionError: too many jobs for one request.
    """
    return [job.whole for job in parse_parts(data, Allowance(), CommonParts())]


def parse_parts(
    data: Mapping[str, object],
    allowance: Allowance,
    parts: CommonParts,
    *,
    files: Mapping[str, str] = MappingProxyType({}),
) -> list[DescriptionParts]:
    """Return the descriptions of ``parse_all`` in parts.

    Args:
        data: the description.
        allowance: the remaining budget of the request.
        parts: those of other jobs of the request.
        files: {name in the input sandbox of a job: reference of the uploaded file}.

    Raises:
        InvalidDescriptionError, InvalidSubmissionError: as ``parse_all``.
    """
    result: list[DescriptionParts] = []
    for number, single in enumerate(expand(data, allowance)):
        if files:
            single["input_sandbox"] = _with_references(single.get("input_sandbox", []), files)
        try:
            if is_parametric(data):
                job = parts.parse(single)
                refuse_too_long_with_id(job)
            else:
                job = parts.parse(single, finish=finished_early)
        except InvalidDescriptionError as error:
            if number == 0:
                raise
            place = f" (In job number {number} of this parametric description.)"
            errors = {field: [text + place for text in texts] for field, texts in error.errors.items()}
            raise InvalidDescriptionError(errors) from error
        result.append(job)
    return result


def _with_references(entries: object, files: Mapping[str, str]) -> object:
    """Return the entries of an input sandbox with references for names of uploaded files, each once."""
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) for entry in entries):
        return entries  # refused by the checks of the description
    return list(dict.fromkeys([files.get(entry, entry) for entry in entries]))


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
    sequences = sequences_of(data["parameters"])
    count = len(next(iter(sequences.values())).texts)
    allowance.take_jobs(count)
    expansion = _Expansion(sequences, count=count, allowance=allowance)
    varying = [field for field in TEMPLATES if expansion.has_directive(field, single.get(field))]
    shared = [value for field, value in single.items() if field not in varying]
    allowance.take_expanded(count * sum(map(_shared_characters, shared)))
    return [
        single | {field: expansion.rendered(field, single[field], number) for field in varying}
        for number in range(count)
    ]


class _Expansion:
    """Renders the texts of one description for each job number, and counts their characters."""

    def __init__(self, sequences: Mapping[str, ValuesOfJobs], *, count: int, allowance: Allowance) -> None:
        self._sequences = sequences
        self._numbers = [str(number).zfill(len(str(count - 1))) for number in range(count)]
        self._templates: dict[str, tuple[str | list[str], ...]] = {}
        #: {entry of a list: the entries that take its place}.
        self._spliced: dict[str, list[list[str]]] = {}
        #: Characters of all texts of a sequence, by its ``id()``; self._sequences or self._numbers keeps the object
        #: alive.
        self._lengths: dict[int, int] = {}
        self._allowance = allowance

    def has_directive(self, field: str, value: object) -> bool:
        """Parse every text in *value*, and return whether one of them differs between jobs, or from what is written.

        If so, all rendered texts are counted before the first is rendered: they could be half a gigabyte.
        """
        varies = False
        characters = 0
        if field in EARLY:
            refuse_id(field, value)
        for text in texts_in(value):
            if isinstance(value, list | tuple) and (lists := self._lists_of(text)) is not None:
                self._spliced[text] = lists
                varies = True
                characters += sum([len(entry) + _OVERHEAD for entries in lists for entry in entries])
                continue
            self._templates[text] = self._template(field, text)
            varies = varies or len(self._templates[text]) > 1 or (field in EARLY and "%%" in text)
            characters += self._characters(text)
        if varies:
            self._allowance.take_expanded(characters)
        return varies

    def _lists_of(self, text: str) -> list[list[str]] | None:
        """Return the values of the sequence that is all of *text*, if they are lists."""
        directive = _DIRECTIVE.fullmatch(text)
        values = None if directive is None else self._sequences.get(directive[1][1:-2])
        return None if values is None or directive is None or directive[1] in {"%", "n", "j"} else values.lists

    def rendered(self, field: str, value: object, number: int) -> object:
        """Return *value* for job *number*; the checks of the description handle values that are not texts."""
        text_of = partial(self._finished if field in EARLY else self._text, number=number)
        if isinstance(value, str):
            text = text_of(value)
            is_number = field in NUMBERS and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
            return int(text) if is_number else text
        if isinstance(value, Mapping):
            return {name: text_of(item) if isinstance(item, str) else item for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [each for item in value for each in self._entries(field, item, number)]
        return value

    def _entries(self, field: str, item: object, number: int) -> Iterable[object]:
        if not isinstance(item, str):
            return (item,)
        if item in self._spliced:
            entries = self._spliced[item][number]
            return [entry.replace("%%", "%") for entry in entries] if field in EARLY else entries
        return (self._finished(item, number=number) if field in EARLY else self._text(item, number=number),)

    def _finished(self, text: str, *, number: int) -> str:
        return self._text(text, number=number).replace("%%", "%")

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
            if self._sequences[name].lists is not None and field not in _READ_BY_PROGRAM:
                sentence = f"The values of %{directive} are lists, so it must be a whole entry of a list, not a part."
                raise InvalidDescriptionError({field: [sentence]})
            return self._sequences[name].texts
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

    def _text(self, text: str, *, number: int) -> str:
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
