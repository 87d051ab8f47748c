"""Descriptions of jobs as users give them, and the requests made from them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

from .connection import Connection
from .errors import WrongUsageError
from .sandbox_names import cfg_with_names, files_named_by, has_placeholder, jdl_with_names, parameters_of
from .wire.executables import ELF
from .wire.jdl_texts import local_path
from .wire.protocol import API_V1

#: Fields by name, the text of a JDL, or the path of a file: .jdl, .cfg, .json, .yaml; another is judged by its content.
Description = Union[Mapping[str, object], str, Path]
#: Returns the body of a submission that a text in YAML means.
ReadYaml = Callable[[str], Mapping[str, object]]
#: Returns the name at the server that stands for a local file: ``sha256:…``.
NameOf = Callable[[Path], str]

#: Entries of an input sandbox that the server has already, files of the catalogue, and addresses.
_NOT_LOCAL = re.compile(r"(sha256|lfn|sb):|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
#: A semicolon after a value of a JDL: at the end of a line, or before another attribute.
_SEMICOLON = re.compile(r";[ \t]*(?:(?://|#)[^\n]*)?$|;[ \t]*[A-Za-z_][\w.]*[ \t]*=", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^[ \t]*\[?[ \t]*[A-Za-z_][\w.]*[ \t]*(?:\+?=|\{|$)", re.MULTILINE)
#: {ending of a file: field of the request for its text}; JSON is the request itself.
_TEXT_FORMS = {".jdl": "jdl", ".cfg": "cfg"}
_YAML_ENDINGS = {".yaml", ".yml"}
_ENDINGS = {*_TEXT_FORMS, *_YAML_ENDINGS, ".json"}
_QUOTED = re.compile(r'"[^"\n]*"')
_CHUNK_BYTES = 1024 * 1024


class LocalDescription(NamedTuple):
    """A description of this computer.

    Args:
        body: fields, or a text as ``jdl`` or ``cfg``.
        directory: to which the names of local files are relative.
    """

    body: Mapping[str, object]
    directory: Path

    def with_names(self, name_of: NameOf) -> dict[str, object]:
        """Return the description with other names for the local files of its input sandbox.

        Raises:
            WrongUsageError: there is no such file.
        """
        values = parameters_of(self.body)
        templates: list[str] = []

        def stored(entry: str) -> str:
            entry = local_path(entry)
            path = self.directory / Path(entry).expanduser()
            if _NOT_LOCAL.match(entry):
                return entry
            if values is not None and has_placeholder(entry) and not path.is_file():
                templates.append(entry)
                return entry
            return name_of(_checked(path))

        changed = dict(self.body)
        entries = changed.get("input_sandbox")
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            changed["input_sandbox"] = [stored(str(entry)) for entry in entries]
        elif entries:
            changed["input_sandbox"] = [stored(str(entries))]
        if isinstance(jdl := changed.get("jdl"), str):
            changed["jdl"] = jdl_with_names(jdl, stored)
        if isinstance(cfg := changed.get("cfg"), str):
            changed["cfg"] = cfg_with_names(cfg, stored)
        if templates:
            files = files_named_by(templates, values or [], self.directory)
            changed["files"] = {name: name_of(path) for name, path in files.items() if not _NOT_LOCAL.match(name)}
        return changed


def read(description: Description, *, read_yaml: ReadYaml) -> list[LocalDescription]:
    """Return the descriptions of a mapping or a text, or those in a file, whose path may be a text too.

    Files of an input sandbox are relative to the file that names them, else to the current directory.

    Args:
        description: what was given.
        read_yaml: asks the server, as Python has no reader of YAML.

    Raises:
        WrongUsageError: it is none, or its file cannot be read.
    """
    if isinstance(description, Path):
        return [LocalDescription(body, description.parent) for body in _bodies_of(description, read_yaml)]
    if isinstance(description, str):
        is_path = "\n" not in description and ("=" not in description or Path(description).suffix.lower() in _ENDINGS)
        if not is_path:
            return [LocalDescription({"jdl": description}, Path())]
        return read(Path(description), read_yaml=read_yaml)
    if isinstance(description, Mapping):
        return [LocalDescription(description, Path())]
    raise WrongUsageError(f"A description is fields, the text of a JDL or a file, not {type(description).__name__}.")


def yaml_reader(connection: Connection) -> ReadYaml:
    """Return what asks the server for the meaning of a text in YAML."""
    return lambda text: connection.post(f"{API_V1}jobs/yaml/", {"yaml": text}, repeatable=True)


def is_program(path: Path) -> bool:
    """Return whether a file of this computer is a script or a program, and no description."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"#!", ELF))
    except OSError:
        return False


def request_of(jobs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the request that submits the jobs; of none, one that the server refuses."""
    return dict(jobs[0]) if len(jobs) == 1 else {"jobs": [dict(job) for job in jobs]}


def digest_of(path: Path) -> str:
    """Return the name that a file has when it is uploaded."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in iter(lambda: file.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def _bodies_of(path: Path, read_yaml: ReadYaml) -> list[dict[str, object]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        form = _TEXT_FORMS.get(path.suffix.lower()) if path.suffix.lower() in _ENDINGS else _form_of(text)
        if form == "":
            raise WrongUsageError(f"{path} is not a job description in JDL, CFG, JSON or YAML.")
        content: Any
        if form is None:
            content = read_yaml(text) if path.suffix.lower() in _YAML_ENDINGS else json.loads(text)
        else:
            content = {form: text}
    except OSError as error:
        raise WrongUsageError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise WrongUsageError(f"{path}: line {line} is not UTF-8; save the file as UTF-8.") from error
    except ValueError as error:
        raise WrongUsageError(f"{path} is not valid: {error}.") from error
    if isinstance(content, dict) and "jobs" in content:
        content = content["jobs"]
    jobs = content if isinstance(content, list) else [content]
    if not jobs or not all(isinstance(job, dict) for job in jobs):
        raise WrongUsageError(f"{path} must contain a description, a JSON object, or a list of them.")
    return jobs


def _form_of(text: str) -> str | None:
    """Return the field of the request for a text, by its content; None: it is JSON; empty: it is no description."""
    if text.lstrip("\ufeff \t\r\n")[:1] in {"{", "["}:
        try:
            json.loads(text)
        except ValueError:
            return "jdl"
        return None
    if text.startswith("#!") or not _ATTRIBUTE.search(text):
        return ""
    return "jdl" if _SEMICOLON.search(_QUOTED.sub('""', text)) else "cfg"


def _checked(path: Path) -> Path:
    if path.is_dir():
        raise WrongUsageError(f"{path} is a directory; pack it into an archive, such as a .tar.gz, and name that.")
    if not path.is_file():
        raise WrongUsageError(f"There is no file {path}; correct the name in the input sandbox.")
    return path
