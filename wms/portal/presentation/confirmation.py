"""The question before an action on many jobs, and the sentences about its result."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.queries.breakdown import Part
from wms.jobs.services.bulk import BulkResult
from wms.kernel.names import listed
from wms.portal.presentation.job_list import DONE_WORDS, EFFECTS, FINAL_ACTIONS, POSSIBLE_FROM

#: {error code: phrase}; other codes are shown unchanged.
WHY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "illegal_transition": "not possible in its status",
        "reschedule_limit": "rescheduled too often",
        "not_found": "not there",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusShare:
    """The number of selected jobs with one status."""

    status: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The question whether an action is to be performed."""

    action: str
    #: Such as "Kill 12 jobs?".
    question: str
    button: str
    effect: str
    is_final: bool
    #: Number of selected jobs.
    total: int
    possible: Sequence[StatusShare]
    impossible: Sequence[StatusShare]
    possible_count: int
    impossible_count: int
    #: Number of selected jobs that do not exist, or that the user may not see.
    missing_count: int
    #: Such as "killed".
    done: str


def confirmation_of(action: Action, parts: Sequence[Part], *, total: int) -> Confirmation:
    """Return the question before an action.

    Args:
        action: the action.
        parts: the selected jobs by status.
        total: number of selected jobs.
    """
    possible = _shares(parts, POSSIBLE_FROM[action])
    impossible = _shares(parts, frozenset(JobStatus) - POSSIBLE_FROM[action])
    possible_count = sum(share.jobs for share in possible)
    phrase = f"{action.capitalize()} {jobs_in_words(possible_count)}"
    return Confirmation(
        action=action,
        question=f"{phrase}?",
        button=phrase,
        effect=EFFECTS[action],
        is_final=action in FINAL_ACTIONS,
        total=total,
        possible=possible,
        impossible=impossible,
        possible_count=possible_count,
        impossible_count=sum(share.jobs for share in impossible),
        missing_count=total - sum(part.jobs for part in parts),
        done=DONE_WORDS[action],
    )


def jobs_in_words(number: int) -> str:
    """Return "1 job" or "1,234 jobs"."""
    return f"{number:,} job{'s' * (number != 1)}"


def success_of(action: Action, result: BulkResult) -> str:
    """Return the sentence about the jobs that were changed; empty: none was."""
    return f"{jobs_in_words(result.done)} {DONE_WORDS[action]}." if result.done else ""


def refusals_of(action: Action, result: BulkResult) -> list[str]:
    """Return one sentence for each reason of refusals, with some of the ids."""
    ids_of: dict[str, list[int]] = {}
    for refusal in result.refused:
        ids_of.setdefault(refusal.code, []).append(refusal.id)
    return [
        f"{len(ids):,} not {DONE_WORDS[action]} ({WHY.get(code, code)}): {listed(map(str, ids))}."
        for code, ids in ids_of.items()
    ]


def _shares(parts: Sequence[Part], statuses: AbstractSet[str]) -> list[StatusShare]:
    jobs_of = {part.value: part.jobs for part in parts}
    return [StatusShare(status=each, jobs=jobs_of[each]) for each in JobStatus if each in jobs_of and each in statuses]
