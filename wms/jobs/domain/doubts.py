"""Doubts about a description that is accepted: what will hardly work as its owner means it (ADR 32)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from posixpath import basename
from typing import Any, Final, NamedTuple

from taskqueues.domain.weights import WEIGHT_OF_PRIORITY
from wms.jobs.domain.fields import shown

#: A text whose quotes are all closed, as the shell and the pilot's ``shlex.split`` read it.
_CLOSED: Final = re.compile(r"""(?:[^'"\\]|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+")*+\Z""", re.DOTALL)


class InputFile(NamedTuple):
    """One file of an input sandbox."""

    name: str
    #: Unpacked where the job runs: it may bring any file.
    is_archive: bool


def doubts_about(description: Mapping[str, Any], *, files: Iterable[InputFile] = ()) -> Iterator[str]:
    """Yield a sentence for each doubt.

    Args:
        description: of one job, as JSON; of ``executable``, ``arguments``, ``priority`` and ``input_data``.
        files: of its input sandboxes.
    """
    if description["priority"] == 0:
        weight = f"{WEIGHT_OF_PRIORITY[0]:.5f}"
        yield f"Priority 0 has the weight {weight}: the job is matched only when hardly any other job waits beside it."
    if lacks_executable(description, files=files):
        executable = description["executable"]
        yield (
            f"The executable {shown(executable)} is a file of the job's directory, but neither the input sandbox nor "
            "the input data brings it; the job fails when it starts."
        )
    if not quotes_are_closed(description["arguments"]):
        yield (
            "A quote in arguments is not closed, or a backslash is the last character; the job fails when it starts. "
            "Close it, or put a backslash before the character."
        )


def lacks_executable(description: Mapping[str, Any], *, files: Iterable[InputFile]) -> bool:
    """Return whether the executable must be in the job's directory and nothing can bring it there."""
    executable: str = description["executable"]
    if executable.startswith("/") or "/" not in executable or "%" in executable:
        return False
    name = executable.removeprefix("./")
    brought = (file.is_archive or file.name == name for file in files)
    return not any(brought) and name not in map(basename, description["input_data"])


def quotes_are_closed(arguments: str) -> bool:
    """Return whether each quote has its end, and nothing ends with a backslash."""
    return _CLOSED.match(arguments) is not None
