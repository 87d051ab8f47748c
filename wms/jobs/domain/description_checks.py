"""Checks of the single fields of a job description; faults go to the reader."""

import re
import shlex
from collections.abc import Mapping
from typing import Final, TypeAlias

from resources.domain.files import canonical_lfn, lfn_problem
from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S
from wms.jobs.domain.data import canonical_output, lfn_of_output, output_problem
from wms.jobs.domain.fields import MAX_ENTRIES, FieldReader, Scalar, free_text_problem, scalar_problem, shown
from wms.kernel.names import composed, composed_names, did_you_mean
from wms.wire.amounts import Amount
from wms.wire.protocol import API_V1, DOWNLOAD, IN_PLACE, LFN_PREFIX, SANDBOX_PREFIX
from wms.wire.units import MEGABYTES, SECONDS

MAX_ARGUMENTS_BYTES: Final = 32 * 1024
MAX_PATH: Final = 1024
#: {unit of an amount: units in which it may be written}.
_UNITS: Final[Mapping[str, Mapping[str, int]]] = {"MB": MEGABYTES, "s": SECONDS}
#: Shorter than other paths, because file names are appended.
MAX_OUTPUT_PATH: Final = 192
#: Sources of images for container runtimes. Not "instance://", which names a running container of somebody else.
IMAGE_SOURCES: Final = ("docker://", "oras://", "library://", "https://", "http://")
PILOT_TYPES: Final = frozenset({"private", "generic"})
#: Input data are copied into the job's directory, or read where they are.
DATA_POLICIES: Final = (DOWNLOAD, IN_PLACE)
RequirementValue: TypeAlias = Scalar | tuple[Scalar, ...]
_SANDBOX: Final = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Least part of a core for the stall rule.
MIN_STALLED_CPU_FRACTION: Final = 0.001


def amount(amount: Amount, reader: FieldReader) -> int:
    """Read an amount, such as memory."""
    unit = f" of {amount.unit_name}" if amount.unit_name else ""
    units = _UNITS.get(amount.unit, {})
    return reader.whole(amount.name, amount.least, least=amount.least, most=amount.most, unit=unit, units=units)


def stalled_cpu_fraction(reader: FieldReader) -> float | None:
    """Read the part of a core below which the job is stalled; None: not stated."""
    unit = " (part of one core)"
    return reader.number("stalled_cpu_fraction", least=MIN_STALLED_CPU_FRACTION, most=1.0, unit=unit)


def executable(data: Mapping[str, object], reader: FieldReader) -> str:
    """Read the program that the job runs."""
    if "executable" not in data:
        reader.fault("executable", "executable is required: the program that the job runs.")
        return ""
    return reader.text("executable", "", most=MAX_PATH)


def job_name(reader: FieldReader) -> str:
    """Read the name of the job."""
    return reader.text("job_name", "", empty=True)


def arguments(data: Mapping[str, object], reader: FieldReader) -> str:
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


def any_or_names(field: str, reader: FieldReader) -> tuple[str, ...]:
    """Read a list of names; DIRAC's "ANY" stands for the empty list."""
    names = reader.names(field)
    if not any(name.casefold() == "any" for name in names):
        return names
    if len(names) > 1:
        reader.fault(field, f'{field} must hold either "ANY" or names, not both.')
    return ()


def pilot_types(reader: FieldReader) -> tuple[str, ...]:
    """Read the kinds of pilots that may run the job."""
    names = tuple([name.lower() for name in any_or_names("pilot_types", reader)])
    for name in names:
        if name not in PILOT_TYPES:
            hint = did_you_mean(name, PILOT_TYPES)
            reader.fault("pilot_types", f'A pilot type is "private" or "generic", not {shown(name)}.{hint}')
    return names


def stalled_s(data: Mapping[str, object], reader: FieldReader) -> int | None:
    """Read the window of the stall rule; None: not stated."""
    if data.get("stalled_s") is None:
        return None
    seconds = reader.whole("stalled_s", 0, least=0, most=MAX_STALLED_S, unit=" of seconds")
    if 0 < seconds < MIN_STALLED_S:
        reader.fault("stalled_s", f"stalled_s must be at least {MIN_STALLED_S}, or 0 for no limit, not {seconds}.")
    return seconds


def container(reader: FieldReader) -> str:
    """Read an image; empty: no container."""
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


def requirements(reader: FieldReader) -> tuple[tuple[str, RequirementValue], ...]:
    """Read the requirements, as pairs sorted by name."""
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


def input_sandbox(reader: FieldReader) -> tuple[str, ...]:
    """Read the names of uploaded sandboxes, and logical names (``LFN:/vo/…``) of files to fetch."""
    references = tuple(map(canonical_output, reader.names("input_sandbox")))
    for reference in references:
        if lfn := lfn_of_output(reference):
            if problem := lfn_problem(lfn):
                reader.fault("input_sandbox", f"{shown(reference)} must be {problem} after {LFN_PREFIX}.")
        elif not _SANDBOX.fullmatch(reference):
            reader.fault("input_sandbox", _not_uploaded(reference))
    return references


def _not_uploaded(reference: str) -> str:
    upload = f"POST {API_V1}sandboxes/ with the file, or with an archive of several, answers its name"
    if reference.startswith(SANDBOX_PREFIX):
        return f'A sandbox is named "sha256:" and 64 hexadecimal digits, not {shown(reference)}: {upload}.'
    if "://" in reference:
        hint = f"name a file of your own, or register the file and write {LFN_PREFIX}/vo/…"
        return f"{shown(reference)} is not fetched from there: {hint}."
    return (
        f"{shown(reference)} is a file of yours, which the server does not have. Upload it first: {upload}, "
        '"sha256:" and 64 hexadecimal digits, which belongs here (in InputSandbox of JDL). The portal does both.'
    )


def output_files(field: str, reader: FieldReader) -> tuple[str, ...]:
    """Read names of files in the job's directory."""
    names = reader.names(field)
    for name in names:
        if _leaves_directory(name):
            reader.fault(field, _leaving(name))
    return names


def output_data(reader: FieldReader) -> tuple[str, ...]:
    """Read files and logical names of the output data."""
    entries = tuple(map(canonical_output, reader.names("output_data")))
    for entry in entries:
        if problem := output_problem(entry):
            reader.fault("output_data", f"{shown(entry)} {problem}.")
        elif _leaves_directory(entry):
            hint = f" A logical name is written {LFN_PREFIX}/vo/…." if entry.startswith("/") else ""
            reader.fault("output_data", f"{_leaving(entry)}{hint}")
    return entries


def data_policy(reader: FieldReader) -> str:
    """Read one of DATA_POLICIES."""
    policy = reader.text("input_data_policy", DOWNLOAD).lower()
    if policy not in DATA_POLICIES:
        hint = did_you_mean(policy, DATA_POLICIES)
        reader.fault("input_data_policy", f'input_data_policy is "download" or "in_place", not {shown(policy)}.{hint}')
    return policy


def output_path(data: Mapping[str, object], reader: FieldReader) -> str | None:
    """Read a logical directory, absolute or below the owner's home directory; None: not stated."""
    if data.get("output_path") is None:
        return None
    written = canonical_lfn(reader.text("output_path", "", most=MAX_OUTPUT_PATH))
    path = written.rstrip("/")
    if written and not path:
        reader.fault("output_path", "output_path must be a directory of yours; / is none.")
    if path and (problem := lfn_problem(path if path.startswith("/") else f"/{path}")):
        reader.fault("output_path", f"output_path must be the path of a logical directory: {problem}.")
    return path


def file_name(field: str, default: str, reader: FieldReader) -> str:
    """Read the name of a file in the job's directory."""
    name = reader.text(field, default)
    if _leaves_directory(name) or name.endswith("/"):
        reader.fault(field, _leaving(name))
    return name


def _leaves_directory(name: str) -> bool:
    return name.startswith(("/", "~")) or ".." in name.split("/")


def _leaving(name: str) -> str:
    return f'{shown(name)} is not a file in the job\'s directory; give a relative name without "..".'


def environment(reader: FieldReader) -> tuple[tuple[str, str], ...]:
    """Read the environment, as pairs sorted by name."""
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
