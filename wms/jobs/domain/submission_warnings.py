"""Doubts about a description that is accepted: what will hardly work as its owner means it (ADR 32)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename
from typing import Any, Final, NamedTuple

from taskqueues.domain.weights import WEIGHT_OF_PRIORITY
from wms.jobs.domain.fields import shown
from wms.kernel.names import did_you_mean

#: A text whose quotes are all closed, as the shell and the pilot's ``shlex.split`` read it.
_CLOSED: Final = re.compile(r"""(?:[^'"\\]|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+")*+\Z""", re.DOTALL)

#: The fields of a description that are looked at.
JUDGED_BY: Final = (
    *("executable", "arguments", "priority", "cpu_time_s"),
    *("grid_middlewares", "input_data", "output_data", "output_se"),
)


class SandboxFile(NamedTuple):
    """One file of an input sandbox."""

    name: str
    #: Unpacked where the job runs: it may bring any file.
    is_archive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is known of the place where a description is submitted."""

    #: Grid middlewares, case-folded, of the computing elements that serve the VO.
    middlewares: frozenset[str]
    #: The longest CPU time by which task queues are told apart.
    longest_segment_s: int
    #: Whether some site of the VO has a storage element for output data.
    stores_output: bool
    #: Names of the storage elements that serve the VO.
    elements: frozenset[str]


class Doubtful(NamedTuple):
    """What a description is judged by."""

    #: Of one job, as JSON.
    description: Mapping[str, Any]
    #: Of its input sandboxes.
    files: Sequence[SandboxFile] = ()


def doubts_about(jobs: Sequence[Doubtful], surroundings: Surroundings) -> Mapping[str, Sequence[int]]:
    """Return a sentence for each doubt about the jobs of one request, with the positions of the jobs that it is about.

    Doubts of one kind stand together.
    """
    found: dict[str, list[int]] = {}
    for doubts in (_of_output_data, _of_cpu_time, _of_middlewares, _of_priority, _of_executable, _of_quotes):
        for position, job in enumerate(jobs):
            for sentence in doubts(job, surroundings):
                found.setdefault(sentence, []).append(position)
    return found


def _of_output_data(job: Doubtful, surroundings: Surroundings) -> Iterator[str]:
    element = job.description["output_se"]
    if element and element not in surroundings.elements:
        # It did when the job was submitted.
        yield (
            f'The storage element "{element}" does not serve the VO any more, so the output has no place: jobs with '
            "output_data are handed back by every pilot. Submit the job again with another output_se."
        )
    placeless = job.description["output_data"] and not element
    if placeless and not surroundings.stores_output:
        yield "No site has a storage element for output_data today; name one by output_se."


def _of_cpu_time(job: Doubtful, surroundings: Surroundings) -> Iterator[str]:
    cpu_time_s, longest_s = job.description["cpu_time_s"], surroundings.longest_segment_s
    if cpu_time_s > longest_s:
        yield (
            f"cpu_time_s {cpu_time_s} is above the longest segment: the job waits as one of {longest_s} s, "
            "and may meet a slot that ends before it does."
        )


def _of_middlewares(job: Doubtful, surroundings: Surroundings) -> Iterator[str]:
    """Directors send no pilots, and the match compares none."""
    for middleware in sorted(job.description["grid_middlewares"]):
        if middleware.casefold() not in surroundings.middlewares:
            yield (
                f'No computing element has the grid middleware "{middleware}" today; no pilots are sent for what asks '
                f"for it alone until one does.{_nearest(middleware, surroundings.middlewares)}"
            )


@lru_cache(maxsize=100)
def _nearest(name: str, known: frozenset[str]) -> str:
    return did_you_mean(name, sorted(known))


def _of_priority(job: Doubtful, _surroundings: Surroundings) -> Iterator[str]:
    if job.description["priority"] == 0:
        weight = f"{WEIGHT_OF_PRIORITY[0]:.5f}"
        yield f"Priority 0 has the weight {weight}: the job is matched only when hardly any other job waits beside it."


def _of_executable(job: Doubtful, _surroundings: Surroundings) -> Iterator[str]:
    if lacks_executable(job.description, files=job.files):
        yield (
            f"The executable {shown(job.description['executable'])} is a file of the job's directory, but neither "
            "the input sandbox nor the input data brings it; the job fails when it starts."
        )


def _of_quotes(job: Doubtful, _surroundings: Surroundings) -> Iterator[str]:
    if not quotes_are_closed(job.description["arguments"]):
        yield (
            "A quote in arguments is not closed, or a backslash is the last character; the job fails when it starts. "
            "Close it, or put a backslash before the character."
        )


def lacks_executable(description: Mapping[str, Any], *, files: Iterable[SandboxFile]) -> bool:
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
