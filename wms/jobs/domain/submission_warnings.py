"""Findings about descriptions that will probably not work as intended (ADR 32)."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import basename
from typing import Any, Final, NamedTuple

from taskqueues.domain.shares import WEIGHT_OF_PRIORITY
from wms.jobs.domain.data import lfns_of_sandbox
from wms.jobs.domain.executable_warnings import SandboxFile, program_findings
from wms.jobs.domain.fields import shown
from wms.jobs.domain.findings import Finding
from wms.jobs.domain.shell_signs import shell_signs
from wms.kernel.names import did_you_mean, listed
from wms.wire.protocol import IN_PLACE

#: A text with all quotes closed, by the rules of the shell and of the pilot's ``shlex.split``.
# NB: no possessive quantifier of a group: Python before 3.11.5 matches too much by it.
_CLOSED: Final = re.compile(r"""(?:[^'"\\]++|\\.|'[^']*+'|"[^"\\]*+(?:\\.[^"\\]*+)*")*\Z""", re.DOTALL)

#: The fields of a description that the findings depend on.
JUDGED_BY: Final = (
    *("executable", "arguments", "priority", "cpu_time_s", "job_type"),
    *("grid_middlewares", "input_data", "input_data_policy", "input_sandbox", "output_data", "output_se"),
    *("container", "environment", "software"),
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
    """The parts of one job that the findings depend on."""

    #: The description as JSON, of one job.
    description: Mapping[str, Any]
    #: The files of its input sandboxes.
    files: Sequence[SandboxFile] = ()
    #: First bytes of the file of its program; None: they are not known.
    head: bytes | None = None


def findings_about(jobs: Sequence[CheckedJob], surroundings: Surroundings) -> Mapping[Finding, Sequence[int]]:
    """Return {finding: positions of its jobs} for the jobs of one request, grouped by kind of finding."""
    positions_of: dict[Finding, list[int]] = {}
    for findings_of in _CHECKS:
        for position, job in enumerate(jobs):
            for finding in findings_of(job, surroundings):
                positions_of.setdefault(finding, []).append(position)
    return positions_of


def _of_output_data(job: CheckedJob, surroundings: Surroundings) -> Iterator[Finding]:
    element = job.description["output_se"]
    if element and element not in surroundings.elements:
        # It served the VO when the job was submitted.
        sentence = (
            f'The storage element "{element}" does not serve the VO any more, so the output cannot be stored: every '
            "pilot hands back jobs with output_data."
        )
        yield Finding("output_se", sentence, "Submit the job again with another output_se.")
    placeless = job.description["output_data"] and not element
    if placeless and not surroundings.stores_output:
        yield Finding("output_data", "No site has a storage element for output_data today; name one by output_se.")


def _of_cpu_time(job: CheckedJob, surroundings: Surroundings) -> Iterator[Finding]:
    cpu_time_s, longest_s = job.description["cpu_time_s"], surroundings.longest_segment_s
    if cpu_time_s > longest_s:
        sentence = (
            f"cpu_time_s {cpu_time_s} is above the longest segment: the job waits as one of {longest_s} s, "
            "and its slot may end before the job does."
        )
        yield Finding("cpu_time_s", sentence)


def _of_middlewares(job: CheckedJob, surroundings: Surroundings) -> Iterator[Finding]:
    """Find unknown middlewares: directors send no pilots for them, though the match ignores them."""
    for middleware in sorted(job.description["grid_middlewares"]):
        if middleware.casefold() not in surroundings.middlewares:
            sentence = (
                f'No computing element has the grid middleware "{middleware}" today; no pilots are sent for what asks '
                "for it alone until one does."
            )
            yield Finding("grid_middlewares", sentence, _nearest(middleware, surroundings.middlewares))


@lru_cache(maxsize=100)
def _nearest(name: str, known: frozenset[str]) -> str:
    return did_you_mean(name, sorted(known)).lstrip()


def _of_priority(job: CheckedJob, _surroundings: Surroundings) -> Iterator[Finding]:
    if job.description["priority"] == 0:
        weight = f"{WEIGHT_OF_PRIORITY[0]:.5f}"
        sentence = (
            f"Priority 0 has the weight {weight}: the job is matched only when hardly any other job waits beside it."
        )
        yield Finding("priority", sentence)


def _of_program(job: CheckedJob, _surroundings: Surroundings) -> Iterator[Finding]:
    yield from program_findings(job.description, files=job.files, head=job.head)


def _of_equal_names(job: CheckedJob, _surroundings: Surroundings) -> Iterator[Finding]:
    """Find files that would have one place; the pilot puts the later ones into directories of their own."""
    description = job.description
    data = () if description["input_data_policy"] == IN_PLACE else description["input_data"]
    # A file that is named twice is fetched once.
    fetched = Counter(map(basename, dict.fromkeys([*lfns_of_sandbox(description["input_sandbox"]), *data])))
    own = {file.name for file in job.files if not file.is_archive}
    for name in [name for name, number in fetched.items() if number > 1 or name in own][:_MOST_NAMES]:
        sentence = (
            f"Several files of the job are named {shown(name)}: all but the first are in directories input_data.N of "
            "the job's directory. input_data.json says where each file of input_data is."
        )
        yield Finding("input_data" if data else "input_sandbox", sentence, file=name)


def _of_shell_signs(job: CheckedJob, _surroundings: Surroundings) -> Iterator[Finding]:
    if signs := shell_signs(job.description["executable"], job.description["arguments"]):
        yield Finding(
            "arguments",
            f"Arguments are not read by a shell: the program gets {listed(signs, last=' and ')} as written.",
            'To have a shell read them, write Executable = "/bin/sh" and Arguments = "-c \'…\'"; if that is meant, put '
            "them in single quotes.",
        )


def _of_job_type(job: CheckedJob, surroundings: Surroundings) -> Iterator[Finding]:
    job_type = job.description["job_type"]
    if job_type not in surroundings.job_types and (hint := _nearest(job_type, surroundings.job_types)):
        yield Finding("job_type", f"No queue or limit names the job type {shown(job_type)}.", hint)


def quotes_are_closed(arguments: str) -> bool:
    """Return whether all quotes are closed and no backslash is at the end."""
    return _CLOSED.match(arguments) is not None


_CHECKS: Final = (
    *(_of_output_data, _of_cpu_time, _of_middlewares, _of_priority, _of_program),
    *(_of_equal_names, _of_shell_signs, _of_job_type),
)
