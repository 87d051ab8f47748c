"""Descriptions of jobs as users give them, and the bodies of requests made from them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

from .errors import WrongUsageError
from .sandbox_names import cfg_with_names, jdl_with_names

#: Fields by name, the text of a JDL, or a file with one of them (``.json``, ``.cfg``, else JDL).
Description = Union[Mapping[str, Any], str, Path]

#: Entries of an input sandbox that the server has already, or that are files of the catalogue.
_NOT_LOCAL = re.compile(r"(sha256|lfn|sb):", re.IGNORECASE)


def body_of(description: Description) -> dict[str, Any]:
    """Return the body of the request for one description.

    Raises:
        WrongUsageError: it is none, or its file cannot be read.
    """
    if isinstance(description, Path):
        return _body_of_file(description)
    if isinstance(description, str):
        return {"jdl": description}
    if isinstance(description, Mapping):
        return dict(description)
    raise WrongUsageError(
        f"A description is a mapping of fields, the text of a JDL, or a pathlib.Path, not {type(description).__name__}."
    )


def with_uploads(body: Mapping[str, Any], upload: Callable[[Path], str]) -> dict[str, Any]:
    """Return the body with the local files of its input sandbox replaced by the names that *upload* returns.

    Args:
        body: fields, or a text as ``jdl`` or ``cfg``.
        upload: stores a file on the server; returns its name there, ``sha256:…``.
    """

    def stored(entry: str) -> str:
        return entry if _NOT_LOCAL.match(entry) else upload(Path(entry).expanduser())

    changed = dict(body)
    entries = body.get("input_sandbox")
    if isinstance(entries, Sequence) and not isinstance(entries, str):
        changed["input_sandbox"] = [stored(str(entry)) for entry in entries]
    elif entries:
        changed["input_sandbox"] = [stored(str(entries))]
    if isinstance(body.get("jdl"), str):
        changed["jdl"] = jdl_with_names(body["jdl"], stored)
    if isinstance(body.get("cfg"), str):
        changed["cfg"] = cfg_with_names(body["cfg"], stored)
    return changed


def _body_of_file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise WrongUsageError(f"{file} cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    if file.suffix.lower() == ".cfg":
        return {"cfg": text}
    if file.suffix.lower() != ".json":
        return {"jdl": text}
    try:
        body = json.loads(text)
    except ValueError as error:
        raise WrongUsageError(f"{file} is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise WrongUsageError(f"{file} must contain one JSON object with the fields of a job.")
    return body
