"""Job descriptions of files and of options, and the local files that they name as input sandboxes."""

from __future__ import annotations

import hashlib
import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import WrongUsageError
from .arguments import whole_number

#: Beginning of the name of an uploaded file.
SANDBOX_PREFIX = "sha256:"
#: Beginnings of names that are no local files.
_ELSEWHERE = (SANDBOX_PREFIX, "LFN:", "lfn:", "SB:")
#: {ending of a file: field of the request for its text}; JSON is the request itself.
_TEXT_FORMS = {".jdl": "jdl", ".cfg": "cfg"}
_CHUNK_BYTES = 1024 * 1024
#: Parts of a JDL: comments, texts, names, and signs.
_JDL = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*)|"(?P<text>(?:[^"\\]|\\.)*)"'
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<sign>[=;\[\]])",
    re.DOTALL | re.MULTILINE,
)
_CFG_LINE = re.compile(r"^(?P<before>[ \t]*InputSandbox[ \t]*\+?=)(?P<value>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_CFG_ELEMENT = re.compile(
    r'"(?P<quoted>(?:[^"]|"")*)"|(?P<comment>(?<=[ \t])#.*)|(?P<plain>[^,\s"](?:(?![ \t]+#)[^,"])*)'
)

#: Returns the name that stands for a local file in a request.
NameOf = Callable[[Path], str]


class DescriptionOption(NamedTuple):
    """An option of ``submit`` that is a field of the description."""

    field: str
    metavar: str
    about: str
    is_number: bool = False
    #: May be repeated; the field is a list.
    is_list: bool = False


#: {option: field of the description}.
OPTIONS: Mapping[str, DescriptionOption] = {
    "--executable": DescriptionOption("executable", "PROGRAM", "program that the job runs"),
    "--arguments": DescriptionOption("arguments", "TEXT", "its arguments, as the shell reads them"),
    "--input": DescriptionOption(
        "input_sandbox", "FILE", "file of this computer that goes along; may be repeated", is_list=True
    ),
    "--output": DescriptionOption(
        "output_sandbox", "NAME", "file or pattern to bring back; may be repeated", is_list=True
    ),
    "--cpu-time": DescriptionOption("cpu_time_s", "S", "CPU time in reference-core seconds per core", is_number=True),
    "--wall-time": DescriptionOption("wall_time_s", "S", "longest time from start to end, in seconds", is_number=True),
    "--processors": DescriptionOption("processors", "N", "cores", is_number=True),
    "--memory": DescriptionOption("memory_mb", "MB", "memory of all its processes", is_number=True),
    "--disk": DescriptionOption("disk_mb", "MB", "disk space for what it writes", is_number=True),
    "--gpus": DescriptionOption("gpus", "N", "whole GPUs", is_number=True),
    "--site": DescriptionOption("sites", "SITE", "may run there; may be repeated", is_list=True),
    "--banned-site": DescriptionOption("banned_sites", "SITE", "must not run there; may be repeated", is_list=True),
    "--platform": DescriptionOption("platforms", "NAME", "platform on which it runs; may be repeated", is_list=True),
    "--tag": DescriptionOption("tags", "TAG", "tag that the queue must offer; may be repeated", is_list=True),
    "--container": DescriptionOption("container", "IMAGE", "container image in which it runs"),
    "--input-data": DescriptionOption(
        "input_data", "LFN", "file on storage elements that it reads; may be repeated", is_list=True
    ),
    "--name": DescriptionOption("job_name", "NAME", "name of the job"),
    "--label": DescriptionOption("job_group", "LABEL", "free label, by which jobs are found"),
    "--type": DescriptionOption("job_type", "TYPE", "job type"),
    "--priority": DescriptionOption("priority", "N", "user priority, 0 to 10", is_number=True),
}


def add_description(parser: ArgumentParser) -> None:
    """Add the options that describe jobs."""
    group = parser.add_argument_group("description, in place of a file")
    for option, each in OPTIONS.items():
        dest, about = f"description_{each.field}", each.about
        if each.is_number:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, type=whole_number)
        elif each.is_list:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about, action="append")
        else:
            group.add_argument(option, dest=dest, metavar=each.metavar, help=about)
    group.add_argument(
        "--environment", action="append", metavar="NAME=VALUE", help="variable of the program; may be repeated"
    )
    group.add_argument(
        "--count", type=whole_number, metavar="N", help="so many jobs; %%n is the number of each, from 0"
    )


def described(options: Namespace) -> dict[str, Any]:
    """Return the description that the options make; empty: none is given.

    Raises:
        WrongUsageError: a variable has no name.
    """
    found: dict[str, Any] = {}
    for each in OPTIONS.values():
        value = getattr(options, f"description_{each.field}")
        if value is not None:
            found[each.field] = value
    if options.environment is not None:
        pairs = [text.partition("=") for text in options.environment]
        for name, sign, _ in pairs:
            if not name or not sign:
                raise WrongUsageError(f'"{name}" is not a variable; write NAME=VALUE.')
        found["environment"] = {name: value for name, _, value in pairs}
    if options.count is not None:
        found["parameters"] = {"count": options.count}
    return found


def read(path: Path) -> list[dict[str, Any]]:
    """Return the descriptions in a file: JDL, CFG, or JSON.

    Raises:
        WrongUsageError: it cannot be read, or its name does not say what it is.
    """
    form = _TEXT_FORMS.get(path.suffix.lower())
    if form is None and path.suffix.lower() != ".json":
        raise WrongUsageError(f"{path} is no description; give a file that ends with .jdl, .cfg or .json.")
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if form is None else {form: text}
    except OSError as error:
        raise WrongUsageError(f"{path} cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise WrongUsageError(f"{path} is not valid: {error}.") from error
    if isinstance(content, dict) and "jobs" in content:
        content = content["jobs"]
    jobs = content if isinstance(content, list) else [content]
    if not jobs or not all(isinstance(job, dict) for job in jobs):
        raise WrongUsageError(f"{path} must contain a description, a JSON object, or a list of them.")
    return jobs


def with_uploads(job: Mapping[str, Any], *, directory: Path, name_of: NameOf) -> dict[str, Any]:
    """Return a description in which names of uploaded files replace those of local ones.

    Args:
        job: as ``read`` returns it.
        directory: to which names of local files are relative.
        name_of: returns the name of the uploaded file.

    Raises:
        WrongUsageError: there is no such file.
    """

    def named(text: str) -> str:
        return text if text.startswith(_ELSEWHERE) else name_of(_file(text, directory))

    replaced = dict(job)
    if isinstance(job.get("jdl"), str):
        replaced["jdl"] = jdl_with_names(job["jdl"], named)
    if isinstance(job.get("cfg"), str):
        replaced["cfg"] = cfg_with_names(job["cfg"], named)
    given = job.get("input_sandbox")
    if isinstance(given, list):
        replaced["input_sandbox"] = [named(each) if isinstance(each, str) else each for each in given]
    return replaced


def jdl_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a JDL in which other names replace those of InputSandbox."""
    parts, copied = [], 0
    for start, end, name in _texts_of_input_sandbox(text):
        parts += [text[copied:start], f'"{named(name)}"']
        copied = end
    return "".join([*parts, text[copied:]])


def cfg_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a CFG in which other names replace those of InputSandbox."""

    def element(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            return found[0]
        if found["quoted"] is not None:
            return f'"{named(found["quoted"].replace(chr(34) * 2, chr(34)))}"'
        plain: str = found["plain"]
        return named(plain.rstrip()) + plain[len(plain.rstrip()) :]

    return _CFG_LINE.sub(lambda line: line["before"] + _CFG_ELEMENT.sub(element, line["value"]), text)


def digest_of(path: Path) -> str:
    """Return the name that a file has when it is uploaded."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return SANDBOX_PREFIX + digest.hexdigest()


def request_of(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the request that submits the jobs."""
    return dict(jobs[0]) if len(jobs) == 1 else {"jobs": [dict(job) for job in jobs]}


def _file(text: str, directory: Path) -> Path:
    path = directory / Path(text).expanduser()
    if path.is_dir():
        raise WrongUsageError(f"{path} is a directory; pack it into an archive, such as a .tar.gz, and name that.")
    if not path.is_file():
        raise WrongUsageError(f"There is no file {path}; correct the name in the input sandbox.")
    return path


def _texts_of_input_sandbox(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and value of each text in the value of InputSandbox, at the outermost level of the JDL."""
    depth, attribute, is_value = 0, "", False
    for found in _JDL.finditer(text):
        sign = found["sign"]
        if found["comment"] is not None:
            continue
        if found["text"] is not None:
            if is_value and attribute == "inputsandbox":
                yield found.start(), found.end(), re.sub(r"\\(.)", r"\1", found["text"])
        elif sign in {"[", "]"}:
            depth += 1 if sign == "[" else -1
        elif sign == ";" and depth <= 1:
            attribute, is_value = "", False
        elif sign == "=" and depth <= 1:
            is_value = True
        elif found["name"] is not None and not is_value and depth <= 1:
            attribute = found["name"].lower()
