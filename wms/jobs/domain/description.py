"""The description of one job: every field, checked as far as possible without the database."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from resources.domain.files import canonical_lfn
from taskqueues.domain.definition import StatedRequirements
from wms.jobs.domain import description_checks as checks
from wms.jobs.domain.description_checks import RequirementValue
from wms.jobs.domain.fields import FieldReader, shown
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean
from wms.wire.amounts import AMOUNTS
from wms.wire.protocol import DOWNLOAD
from wms.wire.units import SECONDS

MAX_BYTES: Final = 64 * 1024
#: CPU time of a job that states none, in reference-core seconds per core.
DEFAULT_CPU_TIME_S: Final = 86_400
MAX_CPU_TIME_S: Final = 2**31 - 1
MAX_PRIORITY: Final = 10

_MAX_UNKNOWN: Final = 10
DEFAULT_JOB_TYPE: Final = "User"


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
    job_type: str = DEFAULT_JOB_TYPE
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
    #: Whether output_data may replace registered files of the owner.
    overwrite: bool = False
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
    """Return the description of one job from JSON, {field: value}; a missing field gets its default.

    Raises:
        InvalidDescriptionError: with all faults of all fields; ``parameters``, which parametric expands, is one too.
    """
    reader = FieldReader(data, names=NAMES)
    _refuse_unknown(data, reader)
    return _checked(_read(data, reader), data, reader)


def _read(data: Mapping[str, object], reader: FieldReader) -> JobDescription:
    return JobDescription(
        executable=checks.executable(data, reader),
        arguments=checks.arguments(data, reader),
        job_name=checks.job_name(reader),
        job_group=reader.text("job_group", "", empty=True),
        job_type=reader.text("job_type", DEFAULT_JOB_TYPE),
        cpu_time_s=reader.whole(
            "cpu_time_s", DEFAULT_CPU_TIME_S, least=1, most=MAX_CPU_TIME_S, unit=" of seconds", units=SECONDS
        ),
        priority=reader.whole("priority", 1, least=0, most=MAX_PRIORITY),
        sites=checks.any_or_names("sites", reader),
        banned_sites=reader.names("banned_sites"),
        grid_ces=checks.any_or_names("grid_ces", reader),
        platforms=checks.any_or_names("platforms", reader),
        pilot_types=checks.pilot_types(reader),
        submit_pools=checks.any_or_names("submit_pools", reader),
        grid_middlewares=checks.any_or_names("grid_middlewares", reader),
        setup=None if data.get("setup") is None else reader.text("setup", ""),
        tags=reader.names("tags"),
        **{amount.name: checks.amount(amount, reader) for amount in AMOUNTS},
        stalled_s=checks.stalled_s(data, reader),
        stalled_cpu_fraction=checks.stalled_cpu_fraction(reader),
        container=checks.container(reader),
        requirements=checks.requirements(reader),
        software=reader.names("software"),
        input_sandbox=checks.input_sandbox(reader),
        input_data=tuple(map(canonical_lfn, reader.names("input_data"))),
        output_sandbox=checks.output_files("output_sandbox", reader),
        output_data=checks.output_data(reader),
        input_data_policy=checks.data_policy(reader),
        output_se=None if data.get("output_se") is None else reader.text("output_se", ""),
        output_path=checks.output_path(data, reader),
        overwrite=reader.flag("overwrite"),
        std_output=checks.file_name("std_output", "std.out", reader),
        std_error=checks.file_name("std_error", "std.err", reader),
        environment=checks.environment(reader),
    )


Finish: TypeAlias = Callable[[dict[str, object]], dict[str, object]]


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


def _as_it_is(data: dict[str, object]) -> dict[str, object]:
    return data


class CommonParts:
    """The parts that descriptions of one request have in common, each parsed once."""

    def __init__(self) -> None:
        #: {fields other than OWN_TEXTS, in a form that tells 1, 1.0 and True apart: (common part, its size)}.
        self._known: dict[bytes, tuple[JobDescription, int]] = {}

    def parse(self, data: dict[str, object], *, finish: Finish = _as_it_is) -> DescriptionParts:
        """Return the description of one job, as ``parse`` does.

        Args:
            data: the description.
            finish: called with a description that has ``%j`` outside of OWN_TEXTS; returns one that is meant literally.

        Raises:
            InvalidDescriptionError: as there.
        """
        try:
            # In a fifth of the time of repr().
            key = msgspec.msgpack.encode({name: value for name, value in data.items() if name not in OWN_TEXTS})
        except (RecursionError, OverflowError, TypeError, UnicodeEncodeError):
            return described(parse(finish(data)))
        # For ten thousand jobs, a search of each field would take longer than all else here.
        if finish is not _as_it_is and b"%j" in key:
            return self.parse(finish(data))
        if key in self._known:
            common, size = self._known[key]
            reader = FieldReader(data, names=NAMES)
            name, arguments = checks.job_name(reader), checks.arguments(data, reader)
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


def _checked(description: JobDescription, data: Mapping[str, object], reader: FieldReader) -> JobDescription:
    """Return the description, if it has no fault as a whole either."""
    _compare_fields(description, data, reader)
    if not reader.errors:
        _refuse_too_large(description, reader)
    if reader.errors:
        raise InvalidDescriptionError(reader.errors)
    return description


def _compare_fields(description: JobDescription, data: Mapping[str, object], reader: FieldReader) -> None:
    banned = set(description.banned_sites)
    if description.sites and banned.issuperset(description.sites):
        reader.fault("sites", "Every site of sites is also in banned_sites, so that none is left; change one of them.")
    if data.get("requirements") and description.submit_pools:
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
