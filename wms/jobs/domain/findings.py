"""Findings about descriptions: what will probably, or surely, not work as intended, with its place and its cure."""

from typing import NamedTuple

from wms.kernel.errors import RejectedError


class SurelyFailsError(RejectedError):
    """A job would fail when it starts, and the request asks to be refused then."""

    code = "surely_fails"


class Finding(NamedTuple):
    """One finding about a description; equal ones are told once."""

    #: Of the description.
    field: str
    #: What is wrong.
    sentence: str
    #: What to do, in one sentence; empty: the other one says it.
    cure: str = ""
    #: Name of the file, and the line in it.
    file: str | None = None
    line: int | None = None
    #: Whether each attempt of the job ends before its program has begun.
    surely_fails: bool = False

    @property
    def text(self) -> str:
        """The finding as a warning: what is wrong, and what to do."""
        return f"{self.sentence} {self.cure}".rstrip()


class FindingOfJobs(NamedTuple):
    """A finding, and the jobs of the request that it is about."""

    finding: Finding
    #: Position of the first of them, from 0.
    first: int
    jobs: int
