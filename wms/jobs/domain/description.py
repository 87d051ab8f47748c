"""The description of one job: every field, checked as far as possible without the database."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from resources.domain.files import canonical_lfn, lfn_problem
from taskqueues.domain.definition import StatedRequirements
from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S
from wms.jobs.domain.data import canonical_output, output_problem
from wms.jobs.domain.fields import MAX_ENTRIES, FieldReader, Scalar, free_text_problem, scalar_problem, shown
from wms.kernel.errors import RejectedError
from wms.kernel.names import composed, composed_names, did_you_mean
from wms.wire.amounts import AMOUNTS, Amount
from wms.wire.protocol import API_V1, DOWNLOAD, IN_PLACE, SANDBOX_PREFIX

MAX_BYTES: Final = 64 * 1024
MAX_ARGUMENTS_BYTES: Final = 32 * 1024
MAX_PATH: Final = 1024
#: Shorter than other paths, because file names are appended.
MAX_OUTPUT_PATH: Final = 192
#: CPU time of a job that states none, in reference-core seconds per core.
DEFAULT_CPU_TIME_S: Final = 86_400
MAX_CPU_TIME_S: Final = 2**31 - 1
#: Least part of a core for the stall rule.
MIN_STALLED_CPU_FRACTION: Final = 0.001
#: Sources of images for container runtimes. Not "instance://", which names a running container of somebody else.
IMAGE_SOURCES: Final = ("docker://", "oras://", "library://", "https://", "http://")
MAX_PRIORITY: Final = 10
PILOT_TYPES: Final = frozenset({"private", "generic"})
#: Input data are copied into the job's directory, or read where they are.
DATA_POLICIES: Final = (DOWNLOAD, IN_PLACE)

RequirementValue: TypeAlias = Scalar | tuple[Scalar, ...]

_SANDBOX: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_UNKNOWN: Final = 10


class InvalidDescriptionError(RejectedError):
    """A job description is wrong; ``errors`` has sentences for each wrong field."""

    code = "invalid_description"

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        sentences = [sentence for of_field in errors.values() for sentence in of_field]
        more = f" ({len(sentences) - 1} more in errors.)" if len(sentences) > 1 else ""
        super().__init__(f"{sentences[0]}{more}", errors=errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDescription(StatedRequirements):
    """One job as its owner described it; hashable, and equal to ``parse(as_json(…))``.

    ``setup`` None is the VO's default; an empty list accepts anything; an amount of 0 is not limited. ``container`` is
    an image; empty: no container. ``environment`` and ``requirements`` are sorted pairs.
    ``parameters`` is not a field: ``parametric.expand`` turns a parametric description into those of single jobs.
    """

    executable: str
    arguments: str = ""
    job_name: str = ""
    job_group: str = ""
    job_type: str = "User"
    cpu_time_s: int = DEFAULT_CPU_TIME_S
    priority: int = 1
    setup: str | None = None
    #: Window of the stall rule in seconds; 0: no stall rule; None: that of the queue, the VO or the server.
    stalled_s: int | None = None
    #: CPU time per wall-clock time, as a part of one core, below which the job is stalled; None: as for stalled_s.
    stalled_cpu_fraction: float | None = None
    container: str = ""
    requirements: tuple[tuple[str, RequirementValue], ...] = ()
    input_sandbox: tuple[str, ...] = ()
    input_data: tuple[str, ...] = ()
    output_sandbox: tuple[str, ...] = ()
    output_data: tuple[str, ...] = ()
    #: One of DATA_POLICIES.
    input_data_policy: str = DOWNLOAD
    #: Storage element for output_data; None: one of the pilot's site.
    output_se: str | None = None
    #: Logical directory for output_data; None: ``data.output_directory``.
    output_path: str | None = None
    std_output: str = "std.out"
    std_error: str = "std.err"
    environment: tuple[tuple[str, str], ...] = ()


_OWN: Final = tuple(JobDescription.__annotations__)
#: In the order in which pages show them: what the job is, then what it requires.
FIELDS: Final = (*_OWN, *(field.name for field in fields(JobDescription) if field.name not in _OWN))
#: Fields that contain names; they are compared with names from elsewhere.
NAMES: Final = frozenset(
    {
        *("job_name", "job_group", "job_type", "setup", "output_se", "tags"),
        *("sites", "banned_sites", "grid_ces", "platforms", "pilot_types", "submit_pools", "grid_middlewares"),
    }
)
#: Fields that the row of each job has, so that jobs which differ in them share a stored description (ADR 57).
NOT_STORED: Final = ("job_name",)
KNOWN_FIELDS: Final = (*FIELDS, "parameters")
_KNOWN: Final = frozenset(KNOWN_FIELDS)
_values_of = attrgetter(*FIELDS)


def parse(data: Mapping[str, object]) -> JobDescription:
    """Return the description of one job from JSON; a missing field gets its default.

    Args:
        data: {field: value} as ``json.loads`` returns it. ``parameters`` must be expanded before (see parametric).

    Raises:
        InvalidDescriptionError: with all faults of all fields.
    """
    reader = FieldReader(data, names=NAMES)
    _refuse_unknown(data, reader)
    description = JobDescription(
        executable=_executable(data, reader),
        arguments=_arguments(data, reader),
        job_name=_job_name(reader),
        job_group=reader.text("job_group", "", empty=True),
        job_type=reader.text("job_type", "User"),
        cpu_time_s=reader.whole("cpu_time_s", DEFAULT_CPU_TIME_S, least=1, most=MAX_CPU_TIME_S, unit=" of seconds"),
        priority=reader.whole("priority", 1, least=0, most=MAX_PRIORITY),
        sites=_any_or_names("sites", reader),
        banned_sites=reader.names("banned_sites"),
        grid_ces=_any_or_names("grid_ces", reader),
        platforms=_any_or_names("platforms", reader),
        pilot_types=_pilot_types(reader),
        submit_pools=reader.names("submit_pools"),
        grid_middlewares=_any_or_names("grid_middlewares", reader),
        setup=None if data.get("setup") is None else reader.text("setup", ""),
        tags=reader.names("tags"),
        **{amount.name: _amount(amount, reader) for amount in AMOUNTS},
        stalled_s=_stalled_s(data, reader),
        stalled_cpu_fraction=reader.number(
            "stalled_cpu_fraction", least=MIN_STALLED_CPU_FRACTION, most=1.0, unit=" (part of one core)"
        ),
        container=_container(reader),
        requirements=_requirements(reader),
        software=reader.names("software"),
        input_sandbox=_input_sandbox(reader),
        input_data=tuple(map(canonical_lfn, reader.names("input_data"))),
        output_sandbox=_output_files("output_sandbox", reader),
        output_data=_output_data(reader),
        input_data_policy=_data_policy(reader),
        output_se=None if data.get("output_se") is None else reader.text("output_se", ""),
        output_path=_output_path(data, reader),
        std_output=_file_name("std_output", "std.out", reader),
        std_error=_file_name("std_error", "std.err", reader),
        environment=_environment(reader),
    )
    _compare_fields(description, data, reader)
    if not reader.errors:
        _refuse_too_large(description, reader)
    if reader.errors:
        raise InvalidDescriptionError(reader.errors)
    return description


class DescriptionParts(NamedTuple):
    """The description of one job in two parts: one that is mostly equal for all jobs of a request, and the rest.

    The parts keep what is done for each of ten thousand jobs small: ``common`` is one object for all jobs whose
    descriptions differ in OWN_TEXTS only.
    """

    #: With the texts of any of these jobs.
    common: JobDescription
    job_name: str
    arguments: str

    @property
    def whole(self) -> JobDescription:
        """The description of the job."""
        return replace(self.common, job_name=self.job_name, arguments=self.arguments)


#: Fields of ``DescriptionParts`` beside ``common``.
OWN_TEXTS: Final = DescriptionParts._fields[1:]


class CommonParts:
    """The parts that descriptions of one request have in common, each parsed once."""

    def __init__(self) -> None:
        #: {fields other than OWN_TEXTS, in a form that tells 1, 1.0 and True apart: (common part, its size)}.
        self._known: dict[bytes, tuple[JobDescription, int]] = {}

    def parse(self, data: Mapping[str, object]) -> DescriptionParts:
        """Return the description of one job, as ``parse`` does.

        Raises:
            InvalidDescriptionError: as there.
        """
        try:
            # In a fifth of the time of repr().
            key = msgspec.msgpack.encode({name: value for name, value in data.items() if name not in OWN_TEXTS})
        except (RecursionError, OverflowError, TypeError, UnicodeEncodeError):
            return described(parse(data))
        if key in self._known:
            common, size = self._known[key]
            reader = FieldReader(data, names=NAMES)
            name, arguments = _job_name(reader), _arguments(data, reader)
            # No character has more than twelve bytes as JSON.
            if not reader.errors and 2 * size + 12 * (len(name) + len(arguments)) <= MAX_BYTES:
                return DescriptionParts(common, name, arguments)
        parsed = parse(data)
        self._known[key] = parsed, len(msgspec.json.encode(parsed))
        return described(parsed)


def described(description: JobDescription) -> DescriptionParts:
    """Return the parts of a description."""
    return DescriptionParts(description, description.job_name, description.arguments)


def as_json(description: JobDescription) -> dict[str, object]:
    """Return every field of *description* as a JSON value; ``parse`` gives an equal description."""
    return msgspec.json.decode(msgspec.json.encode(_as_mapping(description)), type=dict[str, object])


def as_stored(description: JobDescription, *, setup: str | None) -> str:
    """Return what is stored of ``as_json``, as text: all but NOT_STORED, with *setup* in the place of the setup."""
    values = _as_mapping(description) | {"setup": setup}
    for name in NOT_STORED:
        del values[name]
    return msgspec.json.encode(values).decode()


def _as_mapping(description: JobDescription) -> dict[str, object]:
    # JSON encodes a tuple as a list; only the pairs need conversion.
    values = dict(zip(FIELDS, _values_of(description), strict=True))
    values["environment"] = dict(description.environment)
    values["requirements"] = dict(description.requirements)
    return values


def _refuse_unknown(data: Mapping[str, object], reader: FieldReader) -> None:
    unknown = [name for name in data if name not in _KNOWN]
    for name in unknown[:_MAX_UNKNOWN]:
        sentence = f"There is no field {shown(name)}.{did_you_mean(str(name)[:64], KNOWN_FIELDS)}"
        reader.fault(shown(name).strip('"'), sentence)
    if len(unknown) > _MAX_UNKNOWN:
        reader.fault("description", f"{len(unknown) - _MAX_UNKNOWN} more fields are unknown too.")
    if data.get("parameters") is not None:
        reader.fault("parameters", "parameters describe several jobs; only one is accepted here. Leave parameters out.")


def _amount(amount: Amount, reader: FieldReader) -> int:
    unit = f" of {amount.unit_name}" if amount.unit_name else ""
    return reader.whole(amount.name, amount.least, least=amount.least, most=amount.most, unit=unit)


def _executable(data: Mapping[str, object], reader: FieldReader) -> str:
    if "executable" not in data:
        reader.fault("executable", "executable is required: the program that the job runs.")
        return ""
    return reader.text("executable", "", most=MAX_PATH)


def _job_name(reader: FieldReader) -> str:
    return reader.text("job_name", "", empty=True)


def _arguments(data: Mapping[str, object], reader: FieldReader) -> str:
    """Read one string as the shell reads it, or a list of words, which are quoted for the shell."""
    value = data.get("arguments", "")
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        if sum(map(len, value)) > MAX_ARGUMENTS_BYTES:
            reader.fault("arguments", f"arguments must be at most {MAX_ARGUMENTS_BYTES} bytes long in all.")
            return ""
        value = shlex.join(value)
    if not isinstance(value, str):
        reader.fault("arguments", f"arguments must be a string or a list of strings, not {shown(value)}.")
        return ""
    problem = free_text_problem(value, most_bytes=MAX_ARGUMENTS_BYTES)
    if problem:
        reader.fault("arguments", f"arguments must be {problem}.")
        return ""
    return value


def _any_or_names(field: str, reader: FieldReader) -> tuple[str, ...]:
    """Read a list of names; DIRAC's "ANY" stands for the empty list."""
    names = reader.names(field)
    if not any(name.casefold() == "any" for name in names):
        return names
    if len(names) > 1:
        reader.fault(field, f'{field} must hold either "ANY" or names, not both.')
    return ()


def _pilot_types(reader: FieldReader) -> tuple[str, ...]:
    names = tuple([name.lower() for name in _any_or_names("pilot_types", reader)])
    for name in names:
        if name not in PILOT_TYPES:
            hint = did_you_mean(name, PILOT_TYPES)
            reader.fault("pilot_types", f'A pilot type is "private" or "generic", not {shown(name)}.{hint}')
    return names


def _stalled_s(data: Mapping[str, object], reader: FieldReader) -> int | None:
    if data.get("stalled_s") is None:
        return None
    seconds = reader.whole("stalled_s", 0, least=0, most=MAX_STALLED_S, unit=" of seconds")
    if 0 < seconds < MIN_STALLED_S:
        reader.fault("stalled_s", f"stalled_s must be at least {MIN_STALLED_S}, or 0 for no limit, not {seconds}.")
    return seconds


def _container(reader: FieldReader) -> str:
    image = reader.text("container", "", most=MAX_PATH, empty=True)
    if "://" in image:
        source = f"{image.partition('://')[0]}://"
        if source not in IMAGE_SOURCES:
            hint = did_you_mean(source[:64], IMAGE_SOURCES)
            reader.fault(
                "container", f"Images come from {', '.join(IMAGE_SOURCES)} or a file, not {shown(source)}.{hint}"
            )
        elif len(image) == len(source) or any(map(str.isspace, image)):
            reader.fault("container", f"{shown(image)} is not an image; write, for example, {source}registry/name:tag.")
    elif image.startswith("-"):
        # The image becomes an argument of the container runtime, which would take this as an option.
        reader.fault("container", f"{shown(image)} is not an image; a name must not begin with a dash.")
    elif not image.startswith("/") and image and _leaves_directory(image):
        reader.fault("container", _leaving(image))
    return image


def _requirements(reader: FieldReader) -> tuple[tuple[str, RequirementValue], ...]:
    hint = 'Write {"name": value}, such as {"SoftwareTag": ["v1", "v2"], "Memory": 4000}; expressions are not accepted.'
    required = reader.object("requirements", hint=hint)
    pairs: list[tuple[str, RequirementValue]] = []
    spelling: dict[str, str] = {}
    for written, raw in required.items():
        name, value = composed(written), composed_names(raw)
        other = spelling.setdefault(name.casefold(), written)
        if other != written:
            reader.fault("requirements", f"{shown(other)} and {shown(name)} differ only in letter case; keep one.")
        values = list(value) if isinstance(value, list | tuple) else [value]
        problem = next(filter(None, map(scalar_problem, values)), "")
        if not values or len(values) > MAX_ENTRIES:
            problem = f"a list of 1 to {MAX_ENTRIES} values, not of {len(values)}"
        if problem:
            sentence = f"The requirement {shown(name)} must be {problem}."
            reader.fault("requirements", f"{sentence} {hint}" if isinstance(value, Mapping) else sentence)
            continue
        scalars = tuple([each for each in values if isinstance(each, Scalar)])
        pairs.append((name, scalars if isinstance(value, list | tuple) else scalars[0]))
    return tuple(sorted(pairs, key=_name_of))


def _name_of(pair: tuple[str, object]) -> str:
    return pair[0]


def _input_sandbox(reader: FieldReader) -> tuple[str, ...]:
    references = reader.names("input_sandbox")
    for reference in references:
        if not _SANDBOX.fullmatch(reference):
            reader.fault("input_sandbox", _not_uploaded(reference))
    return references


def _not_uploaded(reference: str) -> str:
    upload = f"POST {API_V1}sandboxes/ with the file, or with an archive of several, answers its name"
    if reference.startswith(SANDBOX_PREFIX):
        return f'A sandbox is named "sha256:" and 64 hexadecimal digits, not {shown(reference)}: {upload}.'
    return (
        f"{shown(reference)} is a file of yours, which the server does not have. Upload it first: {upload}, "
        '"sha256:" and 64 hexadecimal digits, which belongs here (in InputSandbox of JDL). The portal does both.'
    )


def _output_files(field: str, reader: FieldReader) -> tuple[str, ...]:
    names = reader.names(field)
    for name in names:
        if _leaves_directory(name):
            reader.fault(field, _leaving(name))
    return names


def _output_data(reader: FieldReader) -> tuple[str, ...]:
    entries = tuple(map(canonical_output, reader.names("output_data")))
    for entry in entries:
        if problem := output_problem(entry):
            reader.fault("output_data", f"{shown(entry)} {problem}.")
        elif _leaves_directory(entry):
            reader.fault("output_data", _leaving(entry))
    return entries


def _data_policy(reader: FieldReader) -> str:
    policy = reader.text("input_data_policy", DOWNLOAD).lower()
    if policy not in DATA_POLICIES:
        hint = did_you_mean(policy, DATA_POLICIES)
        reader.fault("input_data_policy", f'input_data_policy is "download" or "in_place", not {shown(policy)}.{hint}')
    return policy


def _output_path(data: Mapping[str, object], reader: FieldReader) -> str | None:
    if data.get("output_path") is None:
        return None
    path = canonical_lfn(reader.text("output_path", "", most=MAX_OUTPUT_PATH)).rstrip("/")
    if path and not path.startswith("/"):
        reader.fault("output_path", f"output_path must be absolute, such as /vo/user/run1, not {shown(path)}.")
    elif path and (problem := lfn_problem(path)):
        reader.fault("output_path", f"output_path must be the absolute path of a logical directory: {problem}.")
    return path


def _file_name(field: str, default: str, reader: FieldReader) -> str:
    name = reader.text(field, default)
    if _leaves_directory(name) or name.endswith("/"):
        reader.fault(field, _leaving(name))
    return name


def _leaves_directory(name: str) -> bool:
    return name.startswith(("/", "~")) or ".." in name.split("/")


def _leaving(name: str) -> str:
    return f'{shown(name)} is not a file in the job\'s directory; give a relative name without "..".'


def _environment(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in reader.object("environment", hint='Write {"NAME": "value"}.').items():
        if not _VARIABLE.fullmatch(name):
            sentence = f"{shown(name)} is not a valid variable name: letters, digits and _, not beginning with a digit."
            reader.fault("environment", sentence)
        elif not isinstance(value, str):
            reader.fault("environment", f"The variable {name} must be a string, not {shown(value)}.")
        elif problem := free_text_problem(value, most_bytes=MAX_ARGUMENTS_BYTES):
            reader.fault("environment", f"The variable {name} must be {problem}.")
        else:
            pairs.append((name, value))
    return tuple(sorted(pairs))


def _compare_fields(description: JobDescription, data: Mapping[str, object], reader: FieldReader) -> None:
    banned = set(description.banned_sites)
    if description.sites and banned.issuperset(description.sites):
        reader.fault("sites", "Every site of sites is also in banned_sites, so that none is left; change one of them.")
    if data.get("requirements") and data.get("submit_pools"):
        sentence = "requirements and submit_pools cannot both be given: requirements choose the pool themselves."
        reader.fault("requirements", sentence)


def _refuse_too_large(description: JobDescription, reader: FieldReader) -> None:
    # This encoding has no blanks, and lists for pairs, which are longer: the JSON is at most twice as long.
    if 2 * len(msgspec.json.encode(description)) <= MAX_BYTES:
        return
    size = len(json.dumps(as_json(description), ensure_ascii=False).encode())
    if size > MAX_BYTES:
        sentence = (
            f"The description has {size} bytes as JSON; at most {MAX_BYTES} are accepted. Use a sandbox for data."
        )
        reader.fault("description", sentence)
