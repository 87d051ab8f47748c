"""The jobs of the demonstration, as listed by the server."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from wms.demo import expectations
from wms.demo.expectations import ExpectedJob, JobOutcome
from wms.demo.rest import Record, number_of, text_of, whole_of
from wms.jobs.domain.lifecycle import JobStatus

#: Final statuses; a failed job could be rescheduled, but the demonstration does not.
ENDED = frozenset({JobStatus.DONE, JobStatus.FAILED, JobStatus.KILLED, JobStatus.DELETED})
OPEN = frozenset(JobStatus) - ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedJob:
    """One job in a list of jobs."""

    id: int
    name: str = ""
    status: str = JobStatus.WAITING
    minor_status: str = ""
    site: str | None = None
    ce: str | None = None
    pilot: int | None = None
    exit_code: int | None = None
    wall_s: float | None = None
    matched_at: datetime | None = None
    has_output: bool = False

    @classmethod
    def read(cls, row: Record) -> Self:
        """Return the job of the JSON object."""
        usage = row.get("usage")
        matched_at = text_of(row, "matched_at")
        return cls(
            id=whole_of(row, "id") or 0,
            name=text_of(row, "job_name"),
            status=text_of(row, "status"),
            minor_status=text_of(row, "minor_status"),
            site=text_of(row, "site") or None,
            ce=text_of(row, "ce") or None,
            pilot=whole_of(row, "pilot"),
            exit_code=whole_of(row, "exit_code"),
            wall_s=number_of(usage, "wall_s") if isinstance(usage, dict) else None,
            matched_at=datetime.fromisoformat(matched_at) if matched_at else None,
            has_output=row.get("has_output") is True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedJob:
    """One job of the demonstration, from its submission on."""

    row: ListedJob
    owner: str
    expected: ExpectedJob
    killed_by: str | None = None
    output: Mapping[str, str] | None = None

    def seen(self, row: ListedJob) -> "WatchedJob":
        """Return the job with its current row."""
        return replace(self, row=row)

    def with_output(self, output: Mapping[str, str]) -> "WatchedJob":
        """Return the job with its output."""
        return replace(self, output=output)

    @property
    def ended(self) -> bool:
        """Whether its status is final."""
        return self.row.status in ENDED

    @property
    def output_is_due(self) -> bool:
        """Whether its output can be fetched and was not yet."""
        return self.ended and self.row.has_output and self.output is None

    @property
    def is_settled(self) -> bool:
        """Whether the job has its final state and output.

        The output of a killed job comes after its end, and proves that its pilot received the command.
        """
        as_expected = self.row.status == self.expected.status
        return self.ended and (self.output is not None or not as_expected)

    @property
    def faults(self) -> tuple[str, ...]:
        """Return the differences from the expected result, as ends of sentences."""
        row = self.row
        happened = JobOutcome(
            status=row.status,
            minor_status=row.minor_status,
            exit_code=row.exit_code,
            site=row.site,
            ce=row.ce,
            output=self.output,
        )
        return tuple(expectations.faults(self.expected, happened))
