"""Reader of the attributes of a description in JDL or CFG; each syntax fills in how values are read."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from resources.domain.classad import ClassAdError
from resources.domain.files import without_prefix
from wms.jobs.domain.fields import shown
from wms.jobs.domain.jdl_attributes import BY_NAME, JdlAttribute, Kind
from wms.jobs.domain.jdl_fields import (
    FRACTIONS,
    LISTS,
    NAME_FIELDS,
    POLICIES,
    TRUTHS,
    TYPES_OF_GLITE,
    amount_meant_by,
    decoded_value,
    number_in,
    remedy_of_unknown,
    whole_number_in,
)
from wms.jobs.domain.parameter_forms import ParameterForms
from wms.jobs.domain.placeholders import is_placeholder
from wms.wire.jdl_texts import local_path, names_in, trimmed
from wms.wire.protocol import LFN_PREFIX, WHOLE_NODE_TAG

Json = object

_SLASHES: Final = re.compile("//+")

#: Less memory than any job needs: DIRAC 9 counts it in gigabytes.
_GIGABYTES_MEANT: Final = 64
_ONE_NODE: Final = "a job runs on one node: write NumberOfProcessors, which are all on that node."
#: Warned of, of those.
_MOST_TAGS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedJob:
    """The JSON description from a text, and the group to act in (``OwnerGroup``), which is not part of it."""

    description: dict[str, Json]
    group: str | None
    #: Sentences on attributes that are ignored, or mean something else than in DIRAC.
    warnings: tuple[str, ...] = ()


class AttributeReader(ABC):
    """Turns attributes of either syntax into fields."""

    def __init__(self) -> None:
        self._description: dict[str, Json] = {}
        self._given_by: dict[str, str] = {}
        self._parameters = ParameterForms(self.constant, self.name_error)
        self._group: str | None = None
        self._warnings: list[str] = []
        #: {reason: attributes that are ignored for it}.
        self._ignored: dict[str, list[str]] = {}
        #: Tags that other attributes add.
        self._further_tags: list[str] = []
        #: Whether input data are fetched from any site (DisableDataScheduling).
        self._fetches_anywhere = False

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Return the attributes as written, each once, in their order."""

    @abstractmethod
    def constant(self, name: str) -> Json:
        """Return the value of the attribute, of any type; raise the error of ``value_error``."""

    @abstractmethod
    def text(self, name: str) -> str:
        """Return the value, a text."""

    @abstractmethod
    def strings(self, name: str) -> list[str]:
        """Return the value, a list of texts or a single text."""

    @abstractmethod
    def name_list(self, name: str) -> list[str]:
        """Return the value, a list of names or a text of several."""

    @abstractmethod
    def arguments(self, name: str) -> Json:
        """Return the value, a text or a list of words."""

    @abstractmethod
    def requirements(self, name: str) -> Json:
        """Return the value, a record of constants."""

    @abstractmethod
    def record(self, name: str) -> dict[str, Json] | None:
        """Return the value if it is a record, else None."""

    @abstractmethod
    def name_error(self, name: str, problem: str) -> ClassAdError:
        """Return an error at the attribute's name."""

    @abstractmethod
    def value_error(self, name: str, problem: str) -> ClassAdError:
        """Return an error at the attribute's value."""

    #: A list in this syntax, for hints.
    list_hint: ClassVar[str]

    def job(self) -> DescribedJob:
        """Return the description from all attributes."""
        for name in self.names():
            self._read(name)
        self._add_tags()
        self._move_input_data()
        if self._parameters:
            self._description["parameters"] = self._parameters.joined(self._warnings)
        self._decode_environment()
        self._compare_processors()
        self._compare_tags()
        ignored = [
            f"{in_words(names)} {'is' if len(names) == 1 else 'are'} ignored: {reason}"
            for reason, names in self._ignored.items()
        ]
        return DescribedJob(description=self._description, group=self._group, warnings=(*self._warnings, *ignored))

    def _read(self, name: str) -> None:
        first, _, sequence = name.partition(".")
        attribute = BY_NAME.get(first.lower())
        if attribute is None and self._only_names_its_sequence(name):
            self._ignored.setdefault("DIRAC writes the name of a sequence beside its values.", []).append(name)
            return
        if attribute is None or (sequence and attribute.kind not in {Kind.SEQUENCE, Kind.IGNORED}):
            raise self.name_error(name, f"There is no attribute `{name[:64]}`.{remedy_of_unknown(name[:64])}")
        if attribute.kind is Kind.REFUSED:
            raise self.name_error(name, f"`{name}` is not accepted: {attribute.sentence}")
        if attribute.kind is Kind.IGNORED:
            self._ignored.setdefault(attribute.sentence, []).append(name)
        elif attribute.kind is Kind.SEQUENCE:
            self._parameters.add(name, sequence=sequence, part=attribute.field)
        elif not attribute.field:
            self._read_without_field(attribute, name)
        elif stronger := self._stronger(attribute):
            self._warnings.append(f"{name} is ignored, because {stronger} is given too.")
        else:
            self._set(attribute, name)

    def _only_names_its_sequence(self, name: str) -> bool:
        """Return whether this is ``x = %(x)s`` beside ``Parameters.x``, as DIRAC's API writes it."""
        return f"parameters.{name}".lower() in map(str.lower, self.names()) and self.constant(name) == f"%({name})s"

    def _stronger(self, attribute: JdlAttribute) -> str:
        """Return the name of an attribute in whose presence this one is ignored; empty: none is there."""
        given = {name.lower(): name for name in self.names()} if attribute.yields_to else {}
        return next((given[other.lower()] for other in attribute.yields_to if other.lower() in given), "")

    def _set(self, attribute: JdlAttribute, name: str) -> None:
        value = self._field(attribute, name)
        other = self._given_by.setdefault(attribute.field, name)
        if other != name and value != self._description[attribute.field]:
            raise self.name_error(name, f"`{name}` and `{other}` mean the same; keep one of them.")
        self._description[attribute.field] = value
        if attribute.doubt:
            self._warnings.append(f"{name} {attribute.doubt}")
        if attribute.field == "memory_mb" and isinstance(value, int) and 0 < value < _GIGABYTES_MEANT:
            self._warnings.append(
                f"{name} = {value} means {value} megabytes here; DIRAC 9 counts gigabytes: for these, write "
                f"{name} = {value * 1000}."
            )

    def _read_without_field(self, attribute: JdlAttribute, name: str) -> None:
        if attribute.name == "OwnerGroup":
            self._group = self.text(name)
        elif attribute.name == "Type":
            self._read_type(name)
        elif attribute.name.startswith(WHOLE_NODE_TAG):
            self._read_whole_node(name)
        elif attribute.name == "DisableDataScheduling":
            self._fetches_anywhere = self._truth(name)
        else:
            self.number(name)  # compared with the processors at the end

    def _read_type(self, name: str) -> None:
        value = self.text(name)
        if value.lower() != "job":
            hint = "write Parameters for many jobs, or submit a list of jobs."
            raise self.value_error(name, f"{name} = {shown(value)} is not accepted: {hint}")
        self._ignored.setdefault("every description is of a job.", []).append(name)

    def _truth(self, name: str) -> bool:
        value = self.constant(name)
        truth = TRUTHS.get(str(value).strip().lower())
        if truth is None:
            raise self.value_error(name, f"`{name}` must be true or false, not {shown(value)}.")
        return truth

    def _read_whole_node(self, name: str) -> None:
        if self._truth(name):
            self._further_tags.append(WHOLE_NODE_TAG)
            self._warnings.append(
                f"{name} is read as the tag {WHOLE_NODE_TAG}: the job runs only in queues that offer it, with as many "
                "processors as NumberOfProcessors says (1 without it)."
            )

    def _field(self, attribute: JdlAttribute, name: str) -> Json:
        special: Mapping[str, Callable[[str], Json]] = {
            "arguments": self.arguments,
            "requirements": self.requirements,
            "environment": self._environment,
            "input_data": self._input_data,
            "input_sandbox": self._input_sandbox,
            "input_data_policy": self._policy,
            "job_type": self._job_type,
            "output_data": self._output_data,
            "output_path": self._output_path,
            "output_se": self._output_se,
            "overwrite": self._truth,
        }
        if attribute.field in special:
            return special[attribute.field](name)
        if attribute.kind is Kind.NUMBER:
            return placeholder if is_placeholder(placeholder := self.constant(name)) else self.number(name)
        if attribute.name in FRACTIONS:
            return self._fraction(name)
        if attribute.name in LISTS:
            return self.name_list(name) if attribute.field in NAME_FIELDS else self.strings(name)
        return self.text(name)

    def number(self, name: str) -> int:
        """Return the value, an integer."""
        number = whole_number_in(self.constant(name))
        if number is None:
            raise self.value_error(name, f"`{name}` must be an integer, such as 1.")
        return number

    def _fraction(self, name: str) -> float:
        number = number_in(self.constant(name))
        if number is None:
            raise self.value_error(name, f"`{name}` must be a number, such as 0.05.")
        return float(number)

    def _output_se(self, name: str) -> Json:
        """Return the first storage element; of several in one text, commas are between them, as in DIRAC."""
        return self._first_of(name, [element for text in self.strings(name) for element in names_in(text)] or [""])

    def _first_of(self, name: str, values: Sequence[Json]) -> Json:
        if len(values) > 1:
            self._warnings.append(f"{name}: of the list only {shown(values[0])} is used; a job has one.")
        return values[0]

    def _input_data(self, name: str) -> list[str]:
        return [self._canonical(name, without_prefix(lfn)) for lfn in self.strings(name)]

    def _output_data(self, name: str) -> list[str]:
        entries = self.strings(name)
        return [entry if without_prefix(entry) == entry else self._canonical(name, entry) for entry in entries]

    def _canonical(self, name: str, lfn: str) -> str:
        """Return a logical name without doubled slashes, as in DIRAC."""
        if "//" not in lfn:
            return lfn
        sentence = f"{name}: // in a logical name is read as one /."
        if sentence not in self._warnings:
            self._warnings.append(sentence)
        return _SLASHES.sub("/", lfn)

    def _input_sandbox(self, name: str) -> list[str]:
        """Return files of the user as they are named, and files of the catalogue with ``LFN:``."""
        entries = [local_path(entry) for entry in self.strings(name)]
        for entry in entries:
            if entry.startswith("SB:"):
                hint = "get its files with dirac-wms-job-get-input, and name them here instead."
                raise self.value_error(name, f"{shown(entry)} in `{name}` is a sandbox of a DIRAC server: {hint}")
        return [
            entry if (lfn := without_prefix(entry)) == entry else LFN_PREFIX + self._canonical(name, lfn)
            for entry in entries
        ]

    def _policy(self, name: str) -> str:
        value = self.text(name)
        return POLICIES.get(value.rpartition(".")[2].lower(), value)

    def _job_type(self, name: str) -> str:
        value = self.text(name)
        if value.lower() in TYPES_OF_GLITE:
            self._warnings.append(
                f"{name} = {shown(value)} is a word of gLite; here it is a type by which queues and limits select "
                f'jobs. Leave {name} out, or write "User".'
            )
        return value

    def _output_path(self, name: str) -> str:
        value = self.text(name)
        path = self._canonical(name, without_prefix(trimmed(value)))
        if value == without_prefix(value) and path.startswith("/"):
            self._warnings.append(
                f"{name} is an absolute logical directory here; in DIRAC it would be below the home directory of the "
                f"owner. Write {name} = {shown(LFN_PREFIX + path)} to be clear in both."
            )
        return path

    def _environment(self, name: str) -> Json:
        value = self.record(name)
        if value is not None:
            return {variable: str(content) if type(content) is int else content for variable, content in value.items()}
        environment: dict[str, str] = {}
        for assignment in self.strings(name):
            variable, separator, content = (part.strip() for part in assignment.partition("="))
            if not separator or variable in environment:
                hint = f"`{name}` must be a list of assignments, each variable once: {self.list_hint}"
                raise self.value_error(name, f"{hint}, or a record.")
            environment[variable] = content
        return environment

    def _add_tags(self) -> None:
        if self._further_tags:
            present = given if isinstance(given := self._description.get("tags"), list) else []
            self._description["tags"] = list(dict.fromkeys([*present, *self._further_tags]))

    def _move_input_data(self) -> None:
        """Let input data that need not be at the job's site be fetched like logical names of the input sandbox."""
        files = self._description.pop("input_data", None) if self._fetches_anywhere else None
        if isinstance(files, list):
            sandbox = self._description.get("input_sandbox", [])
            present = sandbox if isinstance(sandbox, list) else []
            self._description["input_sandbox"] = [*present, *[f"{LFN_PREFIX}{lfn}" for lfn in files]]
            self._warnings.append(
                f"With DisableDataScheduling the files of InputData are read as {LFN_PREFIX}… in InputSandbox: "
                "fetched from any site, they do not choose the site of the job."
            )

    def _decode_environment(self) -> None:
        """Decode percent-encoded values, as DIRAC does on the node."""
        names = [name for name in self.names() if name.lower() == "executionenvironment"]
        environment = self._description.get("environment")
        if not names or not isinstance(environment, dict):
            return
        is_parametric = bool(self._parameters)
        decoded = {name: decoded_value(value, parametric=is_parametric) for name, value in environment.items()}
        changed = [name for name, value in decoded.items() if value != environment[name]]
        if changed:
            self._description["environment"] = decoded
            self._warnings.append(
                f"Values of {names[0]} are percent-encoded, as DIRAC writes them: {changed[0]} is "
                f"{shown(decoded[changed[0]])}. For values as they stand, write Environment."
            )

    def _compare_processors(self) -> None:
        """Compare the numbers that only restrict the processors with those that the job gets."""
        processors = self._description.get("processors", 1)
        given = {name.lower(): name for name in self.names()}
        most, least = given.get("maxnumberofprocessors"), given.get("minnumberofprocessors")
        if most and least and self.number(least) > self.number(most):
            sentence = f"{least} {self.number(least)} is above {most} {self.number(most)}; correct one of them."
            raise self.value_error(least, sentence)
        if most and self.number(most) != processors:
            self._warnings.append(
                f"{most} is ignored: a job gets exactly as many processors as NumberOfProcessors says, here "
                f"{processors}."
            )
        for name in (given[other] for other in ("smpgranularity", "hostnumber", "nodenumber") if other in given):
            if name.lower() != "smpgranularity" or "processors" not in self._description:
                if self.number(name) != 1:
                    raise self.name_error(name, f"`{name}` is not accepted: {_ONE_NODE}")
            elif self.number(name) != processors:
                sentence = f"`{name}` differs from the {processors} processors of the job, which are all on one node; "
                raise self.value_error(name, f"{sentence}leave it out, or write {name} = {processors}.")

    def _compare_tags(self) -> None:
        """Warn of tags by which DIRAC means amounts, with regard to the amounts that the job requires."""
        tags = self._description.get("tags")
        meant = [(tag, amount) for tag in tags if (amount := amount_meant_by(tag))] if isinstance(tags, list) else []
        for tag, (name, least) in meant[:_MOST_TAGS]:
            required = self._description.get(BY_NAME[name.lower()].field)
            advice = f"To require an amount, write {name} = {least}."
            if isinstance(required, int) and required >= least:
                advice = f"Leave it out: {name} = {required} requires as much."
            sentence = f"The tag {shown(tag)} is compared as a name: the job runs only in queues that offer it."
            self._warnings.append(f"{sentence} {advice}")


def with_repeated(job: DescribedJob, repeated: Sequence[str]) -> DescribedJob:
    """Return the job with a warning of attributes that are given twice with one value."""
    warnings = [f"{name} is given twice with one value." for name in repeated]
    return replace(job, warnings=(*job.warnings, *warnings))


def in_words(names: Sequence[str]) -> str:
    """Return all of the names, with commas and "and" between them."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
