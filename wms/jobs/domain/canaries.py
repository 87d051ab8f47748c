"""Canary jobs: those of a submission that run first, while its other jobs are Held (ADR 118)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from wms.jobs.domain.fields import shown
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.kernel.names import listed

#: Value of ``canary`` in a request: one job at each site where its jobs may run.
EACH_SITE: Final = "sites"
MAX_CANARIES: Final = 100
#: Ids that a reason names.
_MOST_IDS: Final = 3
_MAX_REASON: Final = 255


def parsed_canary(value: object) -> tuple[int, bool]:
    """Return the number of first jobs that are canaries, 0 for none, and whether there is one at each site instead.

    Raises:
        ValueError: with a sentence; *value* is neither.
    """
    if value is None:
        return 0, False
    if value == EACH_SITE:
        return 0, True
    if type(value) is int and 0 <= value <= MAX_CANARIES:
        return value, False
    sentence = f'canary must be a number of jobs from 0 to {MAX_CANARIES}, or "{EACH_SITE}", not {shown(value)}.'
    raise ValueError(sentence)


def at_each_site(kinds: Iterable[tuple[Sequence[int], Sequence[str]]]) -> dict[int, str]:
    """Return {position of a job: site} with one job for each site, MAX_CANARIES at most.

    Args:
        kinds: of each kind of jobs the positions, and the sites that it fits; no position is in two of them.
    """
    site_of: dict[int, str] = {}
    covered: set[str] = set()
    for positions, sites in kinds:
        uncovered = [site for site in sites if site not in covered][: MAX_CANARIES - len(site_of)]
        # A kind with fewer jobs than sites leaves sites to the next kinds.
        chosen = dict(zip(positions, uncovered, strict=False))
        site_of |= chosen
        covered |= set(chosen.values())
    return site_of


def reason_of(canaries: Sequence[int], statuses: Mapping[int, JobStatus]) -> str:
    """Return why the other jobs are Held, as their minor status; empty: all canaries are Done.

    Args:
        canaries: ids of the canaries.
        statuses: {id: status}, without those that were removed.
    """
    # Removed: retention takes only ended jobs, and the row of the canaries has to say something then.
    missed = [each for each in canaries if statuses.get(each, JobStatus.DELETED) in FINAL - {JobStatus.DONE}]
    if missed:
        how = {str(statuses.get(each, JobStatus.DELETED)) for each in missed}
        are = f"is {how.pop()}" if len(how) == 1 and len(missed) == 1 else "did not become Done"
        return f"Canary {_named(missed)} {are}: release these jobs, or kill them"[:_MAX_REASON]
    if any(statuses[each] is not JobStatus.DONE for each in canaries):
        return f"Held until canary {_named(canaries)} {'is' if len(canaries) == 1 else 'are'} Done"[:_MAX_REASON]
    return ""


def _named(ids: Sequence[int]) -> str:
    first = [str(each) for each in ids[:_MOST_IDS]]
    left = len(ids) - len(first)
    names = listed([*first, *([f"{left} more"] if left else [])], last=" and ")
    return f"{'job' if len(ids) == 1 else 'jobs'} {names}"
