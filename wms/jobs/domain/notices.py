"""Mail about a submission that has ended: when it is wanted, and its text."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from wms.accounts.domain import MailWhen
from wms.jobs.domain.lifecycle import JobStatus

#: Largest number of submissions of one user that wait for their message: one who submits in a loop must not get
#: thousands.
MAX_OPEN_NOTICES: Final = 100
#: Longest name of a submission in a message, in characters.
_MAX_NAME: Final = 100
#: Exit codes that a message names; the others are summed up.
_MAX_EXIT_CODES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSubmission:
    """A submission all of whose jobs have ended."""

    id: UUID
    #: What the names of its jobs have in common, or their label; written by the user.
    name: str
    submitted_at: datetime
    #: {final status: number of jobs}.
    jobs: Mapping[str, int]
    #: {exit code, or None without one: number of failed jobs}.
    failures: Mapping[int | None, int]
    #: Address of its page.
    url: str

    @property
    def failed(self) -> int:
        """Number of failed jobs."""
        return self.jobs.get(JobStatus.FAILED, 0)


def is_wanted(when: MailWhen, ended: EndedSubmission) -> bool:
    """Return whether the owner wants a message about this submission."""
    return when is MailWhen.ENDED or (when is MailWhen.FAILED and ended.failed > 0)


def subject_of(ended: EndedSubmission) -> str:
    """Return the subject of the message: one line, whatever the name holds."""
    jobs = sum(ended.jobs.values())
    done, failed = ended.jobs.get(JobStatus.DONE, 0), ended.failed
    outcome = f"{failed:,} of {_jobs(jobs)} failed" if failed else f"{done:,} of {_jobs(jobs)} done"
    return f"{_name_of(ended)}: {outcome}"


def text_of(ended: EndedSubmission) -> str:
    """Return the text of the message."""
    lines = [
        f"All jobs of your submission {_name_of(ended)} have ended.",
        "",
        f"Submitted: {ended.submitted_at:%Y-%m-%d %H:%M} UTC",
        *(f"{status}: {_jobs(count)}" for status, count in sorted(ended.jobs.items()) if count),
    ]
    if ended.failed:
        lines += ["", "Failures by exit code:", *_failures(ended.failures)]
    return "\n".join(
        [*lines, "", ended.url, "", "You chose these messages on the page of your account, where you can end them.", ""]
    )


def _failures(failures: Mapping[int | None, int]) -> list[str]:
    most = sorted(failures.items(), key=lambda item: (-item[1], item[0] is None, item[0] or 0))
    lines = [
        f"  {'no exit code' if code is None else f'exit code {code}'}: {_jobs(count)}"
        for code, count in most[:_MAX_EXIT_CODES]
    ]
    others = sum(count for _, count in most[_MAX_EXIT_CODES:])
    return [*lines, f"  other exit codes: {_jobs(others)}"] if others else lines


def _name_of(ended: EndedSubmission) -> str:
    """Return the name without characters that end a line or change the direction of the text."""
    name = "".join(character if character.isprintable() else " " for character in ended.name)
    return " ".join(name.split())[:_MAX_NAME] or f"of {ended.submitted_at:%Y-%m-%d %H:%M} UTC"


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
