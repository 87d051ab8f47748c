"""Presentation of failed jobs in groups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries.failures import FailureGroup, Failures, FailuresAt, last_lines_of
from wms.portal.search import query_of, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRow:
    """The number of jobs of a group that failed at a site and host; empty: unknown."""

    site: str
    host: str
    jobs: int
    #: Query string of the list of these jobs; empty: the place is unknown.
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """Failed jobs of one kind."""

    #: Part of an element's id that stays the same while the numbers change.
    key: str
    reason: str
    exit_code: int | None
    jobs: int
    places: Sequence[PlaceRow]
    more_places: int
    #: Query, and query string, of the list of these jobs.
    text: str
    query: str
    example_id: int
    example_reason: str
    #: Last lines of the example's output.
    lines: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresView:
    """Failed jobs in groups."""

    headline: str
    groups: Sequence[GroupView]
    #: Number of groups that are not shown.
    more: int


def failures_view(found: Failures, *, words: Mapping[str, str]) -> FailuresView:
    """Return the groups with links to their jobs.

    Args:
        found: the groups.
        words: {parameter of the filters: value as written}, by which the jobs were found.
    """
    kinds = f"{found.group_count:,} kind{'s' * (found.group_count != 1)}"
    jobs = f"{found.jobs:,} failed job{'s' * (found.jobs != 1)}"
    return FailuresView(
        headline=f"{kinds} of failures among {'' if found.is_whole else 'the newest '}{jobs}, the most frequent first.",
        groups=[_group_view(group, words) for group in found.groups],
        more=found.group_count - len(found.groups),
    )


def _group_view(group: FailureGroup, words: Mapping[str, str]) -> GroupView:
    # A reason that the query names is not wider than that of the group.
    its_words = {
        "minor_status": group.reason.pattern,
        "exit_code": "" if group.exit_code is None else str(group.exit_code),
        **words,
        "status": JobStatus.FAILED.value,
    }
    return GroupView(
        key=sha256(repr((group.reason, group.exit_code)).encode()).hexdigest()[:12],
        reason=group.reason.text or "No reason given",
        exit_code=group.exit_code,
        jobs=group.jobs,
        places=[_place_row(failed, its_words) for failed in group.places],
        more_places=group.place_count - len(group.places),
        text=text_of(its_words),
        query=query_of(its_words),
        example_id=group.example.pk,
        example_reason=group.example.minor_status,
        lines=last_lines_of(group.example),
    )


def _place_row(failed: FailuresAt, words: Mapping[str, str]) -> PlaceRow:
    site, host = failed.place
    query = query_of({**words, **({"site": site} if site else {}), **({"host": host} if host else {})})
    return PlaceRow(site=site, host=host, jobs=failed.jobs, query=query if site or host else "")
