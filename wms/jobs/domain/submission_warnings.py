"""Warnings about accepted descriptions that will probably not work as intended (ADR 32)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename
from typing import Any, Final, NamedTuple

from taskqueues.domain.shares import WEIGHT_OF_PRIORITY
from wms.jobs.domain.data import lfns_of_sandbox
from wms.jobs.domain.executable_warnings import SandboxFile, executable_warning
from wms.jobs.domain.fields import shown
from wms.jobs.domain.shell_signs import shell_signs
from wms.kernel.names import did_you_mean, listed
from wms.wire.protocol import IN_PLACE

#: A text with all quotes closed, by the rules of the shell and of the pilot's ``shlex.split``.
# NB: no possessive quantifier of a group: Python before 3.11.5 matches too much by it.
_CLOSED: Final = re.compile(r"""(?:[^'"\\]++|\\.|'[^']*+'|"[^"\\]*+(?:\\.[^"\\]*+)*")*\Z""", re.DOTALL)

#: The fields of a description that the warnings depend on.
JUDGED_BY: Final = (
    *("executable", "arguments", "priority", "cpu_time_s", "job_type"),
    *("grid_middlewares", "input_data", "input_data_policy", "input_sandbox", "output_data", "output_se"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The facts about VO and server that a description is compared with."""

    #: Grid middlewares, case-folded, of the computing elements that serve the VO.
    middlewares: frozenset[str]
    #: The longest CPU-time segment of task queues.
    longest_segment_s: int
    #: Whether some site of the VO has a storage element for output data.
    stores_output: bool
    #: Names of the storage elements that serve the VO.
    elements: frozenset[str]
    #: Job types that queues and limits of the VO name, and the default one.
    job_types: frozenset[str]


#: Equal names of files that are warned of.
_MOST_NAMES: Final = 3


class CheckedJob(NamedTuple):
    """The parts of one job that the warnings depend on."""

    #: The description as JSON, of one job.
    description: Mapping[str, Any]
    #: The files of its input sandboxes.
    files: Sequence[SandboxFile] = ()


def warnings_about(jobs: Sequence[CheckedJob], surroundings: Surroundings) -> Mapping[str, Sequence[int]]:
    """Return {warning: positions of its jobs} for the jobs of one request, grouped by kind of warning."""
    positions_of: dict[str, list[int]] = {}
    for warnings_of in _WARNINGS:
        for position, job in enumerate(jobs):
            for sentence in warnings_of(job, surroundings):
                positions_of.setdefault(sentence, []).append(position)
    return positions_of


def _of_output_data(job: CheckedJob, surroundings: Surroundings) -> Iterator[str]:
    element = job.description["output_se"]
    if element and element not in surroundings.elements:
        # It served the VO when the job was submitted.
        yield (
            f'The storage element "{element}" does not serve the VO any more, so the output cannot be stored: every '
            "pilot hands back jobs with output_data. Submit the job again with another output_se."
        )
    placeless = job.description["output_data"] and not element
    if placeless and not surroundings.stores_output:
        yield "No site has a storage element for output_data today; name one by output_se."


def _of_cpu_time(job: CheckedJob, surroundings: Surroundings) -> Iterator[str]:
    cpu_time_s, longest_s = job.description["cpu_time_s"], surroundings.longest_segment_s
    if cpu_time_s > longest_s:
        yield (
            f"cpu_time_s {cpu_time_s} is above the longest segment: the job waits as one of {longest_s} s, "
            "and its slot may end before the job does."
        )


def _of_middlewares(job: CheckedJob, surroundings: Surroundings) -> Iterator[str]:
    """Warn of unknown middlewares: directors send no pilots for them, though the match ignores them."""
    for middleware in sorted(job.description["grid_middlewares"]):
        if middleware.casefold() not in surroundings.middlewares:
            yield (
                f'No computing element has the grid middleware "{middleware}" today; no pilots are sent for what asks '
                f"for it alone until one does.{_nearest(middleware, surroundings.middlewares)}"
            )


@lru_cache(maxsize=100)
def _nearest(name: str, known: frozenset[str]) -> str:
    return did_you_mean(name, sorted(known))


def _of_priority(job: CheckedJob, _surroundings: Surroundings) -> Iterator[str]:
    if job.description["priority"] == 0:
        weight = f"{WEIGHT_OF_PRIORITY[0]:.5f}"
        yield f"Priority 0 has the weight {weight}: the job is matched only when hardly any other job waits beside it."


def _of_executable(job: CheckedJob, _surroundings: Surroundings) -> Iterator[str]:
    if sentence := executable_warning(job.description, files=job.files):
        yield sentence


def _of_equal_names(job: CheckedJob, _surroundings: Surroundings) -> Iterator[str]:
    """Warn of files that would have one place; the pilot puts the later ones into directories of their own."""
    description = job.description
    data = () if description["input_data_policy"] == IN_PLACE else description["input_data"]
    # A file that is named twice is fetched once.
    fetched = Counter(map(basename, dict.fromkeys([*lfns_of_sandbox(description["input_sandbox"]), *data])))
    own = {file.name for file in job.files if not file.is_archive}
    for name in [name for name, number in fetched.items() if number > 1 or name in own][:_MOST_NAMES]:
        yield (
            f"Several files of the job are named {shown(name)}: all but the first are in directories input_data.N of "
            "the job's directory. input_data.json says where each file of input_data is."
        )


def _of_shell_signs(job: CheckedJob, _surroundings: Surroundings) -> Iterator[str]:
    if signs := shell_signs(job.description["executable"], job.description["arguments"]):
        yield (
            f"Arguments are not read by a shell: the program gets {listed(signs, last=' and ')} as written. To have a "
            'shell read them, write Executable = "/bin/sh" and Arguments = "-c \'…\'"; if that is meant, put them '
            "in single quotes."
        )


def _of_job_type(job: CheckedJob, surroundings: Surroundings) -> Iterator[str]:
    job_type = job.description["job_type"]
    if job_type not in surroundings.job_types and (hint := _nearest(job_type, surroundings.job_types)):
        yield f"No queue or limit names the job type {shown(job_type)}.{hint}"


def quotes_are_closed(arguments: str) -> bool:
    """Return whether all quotes are closed and no backslash is at the end."""
    return _CLOSED.match(arguments) is not None


_WARNINGS: Final = (
    *(_of_output_data, _of_cpu_time, _of_middlewares, _of_priority, _of_executable),
    *(_of_equal_names, _of_shell_signs, _of_job_type),
)
