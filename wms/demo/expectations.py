"""Expected and actual results of the demonstration's jobs, and their differences; pure rules."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from wms.jobs.domain.lifecycle import JobStatus

_SHOWN = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedJob:
    """The expected result of one job.

    Args:
        status: the final one.
        exit_code: of its payload; None: any.
        sites: where it may run; empty: anywhere.
        ces: computing elements where it may run; empty: anywhere.
        output: {file: regular expression found in it}; exactly these files come back.
    """

    status: JobStatus = JobStatus.DONE
    exit_code: int | None = 0
    sites: frozenset[str] = frozenset()
    ces: frozenset[str] = frozenset()
    output: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """The actual result of one job, or its current state."""

    status: str
    minor_status: str = ""
    exit_code: int | None = None
    site: str | None = None
    ce: str | None = None
    #: File → text; None: nothing came back.
    output: Mapping[str, str] | None = None


def faults(expected: ExpectedJob, happened: JobOutcome) -> Iterator[str]:
    """Yield the rest of a sentence about the job for each difference between *expected* and *happened*."""
    if happened.status != expected.status:
        why = f" ({happened.minor_status})" if happened.minor_status else ""
        yield f"is {happened.status}{why}, not {expected.status}"
        return  # the rest would only follow from it
    if expected.exit_code is not None and happened.exit_code != expected.exit_code:
        yield f"ended with exit code {happened.exit_code}, not {expected.exit_code}"
    for what, place, allowed in (("site", happened.site, expected.sites), ("CE", happened.ce, expected.ces)):
        if allowed and place not in allowed:
            yield f"ran at the {what} {place}, not at {' or '.join(sorted(allowed))}"
    yield from _faults_of_output(expected.output, happened.output)


def _faults_of_output(expected: Mapping[str, str], happened: Mapping[str, str] | None) -> Iterator[str]:
    if happened is None:
        yield "returned no output"
        return
    for name in sorted(happened.keys() - expected.keys()):
        yield f"returned {name}, which was not requested"
    for name, pattern in expected.items():
        if name not in happened:
            yield f"did not return {name}"
        elif re.search(pattern, happened[name]) is None:
            yield f"wrote {happened[name][:_SHOWN]!r} to {name}, where {pattern!r} should be found"
