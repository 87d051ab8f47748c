"""Presentation of failed jobs in groups."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from wms.jobs.domain.causes import NO_CAUSE
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries.failures import FailureGroup, Failures, FailuresAt, last_lines_of
from wms.kernel.names import counted, in_percent
from wms.portal.search import query_of, text_of

#: Causes and sites of the table of both.
_MOST_CAUSES: Final = 6
_MOST_SITES: Final = 12


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
    #: The cause, in the words of the example.
    title: str
    exit_code: int | None
    jobs: int
    places: Sequence[PlaceRow]
    more_places: int
    #: Query, and query string, of the list of these jobs.
    text: str
    query: str
    example_id: int
    example_reason: str
    #: Who may retry it with changes.
    example_owner: str
    #: What the jobs have in common, in sentences.
    common: Sequence[str]
    #: Last lines of the example's output.
    lines: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseAt:
    """The number of jobs that failed for one cause at one site, with the query string of their list."""

    jobs: int
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRow:
    """The failed jobs of one site by cause, beside its jobs that are Done."""

    site: str
    causes: Sequence[CauseAt]
    failed: int
    done: int
    #: Part of the ended jobs that failed, in percent.
    failed_part: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresView:
    """Failed jobs in groups."""

    headline: str
    groups: Sequence[GroupView]
    #: The causes of the columns of the table, and its rows; empty: all failed at one site, or nothing is compared.
    causes: Sequence[GroupView]
    sites: Sequence[SiteRow]
    #: Number of groups that are not shown.
    more: int


def failures_view(found: Failures, *, words: Mapping[str, str]) -> FailuresView:
    """Return the groups with links to their jobs.

    Args:
        found: the groups.
        words: {parameter of the filters: value as written}, by which the jobs were found.
    """
    causes = f"{counted(found.group_count, 'cause')}{', the most frequent first' * (found.group_count > 1)}"
    of_whom = f"{found.jobs:,}" if found.is_whole else f"The newest {found.jobs:,}"
    groups = [_group_view(group, words, among=found.groups) for group in found.groups]
    return FailuresView(
        headline=f"{of_whom} failed, {causes}.",
        groups=groups,
        causes=groups[:_MOST_CAUSES],
        sites=_site_rows(found, words),
        more=found.group_count - len(found.groups),
    )


def _words_of(group: FailureGroup, words: Mapping[str, str], *, among: Sequence[FailureGroup]) -> dict[str, str]:
    """Return the filters of the list of the group's jobs; a reason that the query names is not wider than its own."""
    if group.cause:
        kind = {"cause": group.cause}
    else:
        kind = {"minor_status": group.reason.pattern}
        if any(other.cause and other.exit_code == group.exit_code for other in among):
            kind["cause"] = NO_CAUSE
    exit_code = "" if group.exit_code is None else str(group.exit_code)
    return {**kind, "exit_code": exit_code, **words, "status": JobStatus.FAILED.value}


def _group_view(group: FailureGroup, words: Mapping[str, str], *, among: Sequence[FailureGroup]) -> GroupView:
    its_words = _words_of(group, words, among=among)
    return GroupView(
        key=sha256(repr((group.cause or group.reason, group.exit_code)).encode()).hexdigest()[:12],
        title=group.title,
        exit_code=group.exit_code,
        jobs=group.jobs,
        places=[_place_row(failed, its_words) for failed in group.places],
        more_places=group.place_count - len(group.places),
        text=text_of(its_words),
        query=query_of(its_words),
        example_id=group.example.pk,
        example_reason=group.example.minor_status,
        example_owner=group.example.owner.username,
        common=[each.sentence for each in group.common],
        lines=last_lines_of(group.example),
    )


def _site_rows(found: Failures, words: Mapping[str, str]) -> list[SiteRow]:
    failed_at: Counter[str] = Counter()
    for group in found.groups:
        failed_at.update(group.sites)
    sites = sorted(filter(None, failed_at), key=lambda site: (-failed_at[site], site))
    if not found.done_at or len({*sites, *filter(None, found.done_at)}) < 2:
        return []
    return [_site_row(site, failed_at[site], found, words) for site in sites[:_MOST_SITES]]


def _site_row(site: str, failed: int, found: Failures, words: Mapping[str, str]) -> SiteRow:
    done = found.done_at.get(site, 0)
    causes = [
        CauseAt(
            jobs=group.sites.get(site, 0),
            query=query_of({**_words_of(group, words, among=found.groups), "site": site}),
        )
        for group in found.groups[:_MOST_CAUSES]
    ]
    return SiteRow(site=site, causes=causes, failed=failed, done=done, failed_part=in_percent(failed / (failed + done)))


def _place_row(failed: FailuresAt, words: Mapping[str, str]) -> PlaceRow:
    site, host = failed.place
    query = query_of({**words, **({"site": site} if site else {}), **({"host": host} if host else {})})
    return PlaceRow(site=site, host=host, jobs=failed.jobs, query=query if site or host else "")
