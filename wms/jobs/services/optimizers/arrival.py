"""The jobs of one request while they pass the optimizers, with errors and warnings."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from wms.accounts.models import VO, Group, User
from wms.jobs.domain.description import JobDescription
from wms.jobs.domain.findings import Finding, FindingOfJobs
from wms.jobs.domain.request import MAX_WRONG_FIELDS, RequestedJob
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.errors import RejectedError
from wms.kernel.names import did_you_mean

#: Warnings kept per request.
MAX_WARNINGS: Final = 50
#: Sentences kept per field of a job; users need only the first.
MAX_SENTENCES: Final = 5
#: Searches for the nearest name; each compares with all known names.
MAX_HINTS: Final = 20


@dataclass(kw_only=True)
class Arrival:
    """The jobs of one request, and the results of the steps so far."""

    owner: User
    group: Group
    jobs: tuple[RequestedJob, ...]
    now: datetime
    #: Whether jobs that surely fail when they start are refused.
    strict: bool = False
    #: Whether some of the jobs are to be Held until others, the canaries, are Done.
    has_held_jobs: bool = False
    #: Of a rehearsal, which writes nothing: files that the jobs name and that are not uploaded yet. None: the jobs are
    #: submitted.
    coming_files: Mapping[str, NamedSandbox] | None = None
    errors: dict[str, list[str]] = field(default_factory=dict)
    #: {warning: positions in ``jobs``}, in order; no positions: it concerns the request.
    warnings: dict[str, Sequence[int]] = field(default_factory=dict)
    #: Number of warnings beyond MAX_WARNINGS.
    left_out: int = 0
    #: Those of the warnings that have a place.
    findings: list[FindingOfJobs] = field(default_factory=list)
    #: By the references of a job.
    input_sandboxes: dict[tuple[str, ...], tuple[NamedSandbox, ...]] = field(default_factory=dict)
    #: Sites that hold all of the files, by the files of a job.
    input_sites: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    #: {logical name of output data: positions of the jobs that write it}, without names that contain a job's id.
    output_names: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: Ids of submit pools, by ``requirements_key``.
    pools: dict[str, str] = field(default_factory=dict)
    #: Sentences on the nearest known names, by noun and name.
    hints: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def vo(self) -> VO:
        """The VO of the group."""
        return self.group.vo

    @property
    def is_rehearsal(self) -> bool:
        """Return whether nothing may be written."""
        return self.coming_files is not None

    @property
    def failures(self) -> Mapping[str, Sequence[str]]:
        """Return {field: sentences} of the findings by which jobs surely fail, as errors are."""
        failures: dict[str, list[str]] = {}
        for finding, first, _ in self.findings:
            if finding.surely_fails and len(failures) < MAX_WRONG_FIELDS:
                failures.setdefault(f"{self.jobs[first].path}{finding.field}", []).append(finding.text)
        return failures

    @property
    def refused_enough(self) -> bool:
        """Return whether there are so many errors that no more are needed."""
        return len(self.errors) >= MAX_WRONG_FIELDS

    def refuse(self, job: RequestedJob, name: str, sentence: str) -> None:
        """Add an error of a field of a job."""
        sentences = self.errors.setdefault(f"{job.path}{name}", [])
        if sentence not in sentences and len(sentences) < MAX_SENTENCES:
            sentences.append(sentence)

    def refuse_as(self, job: RequestedJob, error: RejectedError) -> None:
        """Add the field errors of *error* to a job."""
        for name, sentences in error.errors.items():
            for sentence in sentences:
                self.refuse(job, name, sentence)

    def hint(self, noun: str, name: str, *, known_names: Collection[str]) -> str:
        """Return a sentence with the known name nearest to *name*; empty after MAX_HINTS searches."""
        if (noun, name) not in self.hints:
            if len(self.hints) >= MAX_HINTS:
                return ""
            self.hints[noun, name] = did_you_mean(name, sorted(known_names))
        return self.hints[noun, name]

    def warn(self, sentence: str, *, of: Sequence[int] = ()) -> None:
        """Add a warning about accepted jobs."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings[sentence] = of
        else:
            self.left_out += 1

    def find(self, finding: Finding, *, of: Sequence[int]) -> None:
        """Add a finding, which is a warning with its place, about these jobs."""
        if len(self.warnings) < MAX_WARNINGS or finding.surely_fails:
            self.findings.append(FindingOfJobs(finding, first=of[0], jobs=len(of)))
        self.warn(finding.text, of=of)

    def warn_of_all(self, warnings: Mapping[str, Sequence[int]]) -> None:
        """Add warnings with their positions."""
        for sentence, of in warnings.items():
            self.warn(sentence, of=of)

    def values(self, name: str) -> frozenset[str]:
        """Return every name in a list field of any job."""
        return frozenset(value for common in self.commons for value in getattr(common, name))

    @cached_property
    def commons(self) -> Sequence[JobDescription]:
        """The common parts of the descriptions, each once."""
        return list({id(job.common): job.common for job in self.jobs}.values())

    def among(self, condition: Callable[[JobDescription], object]) -> Sequence[RequestedJob]:
        """Return the jobs whose common part meets a condition, which is evaluated once for each part."""
        meeting = {id(common) for common in self.commons if condition(common)}
        return [job for job in self.jobs if id(job.common) in meeting] if meeting else ()
