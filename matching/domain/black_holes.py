"""The black hole rule: a host is excluded if its jobs fail fast, so that it would take more and more of them (ADR 26).

A host is a black hole if jobs fail on it that succeed elsewhere. Jobs that fail wherever they run are no evidence, nor
are results on other suspected hosts. So if all jobs fail everywhere (a storage element is down, a user has submitted
ten thousand wrong jobs), no host is excluded. Jobs that ran on no other host (it is the only one, or the only one of
its kind) are evidence together: if those of several users fail, and hardly anybody's succeed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

#: Fraction of a host's leases that must have failed: a few jobs that succeed by chance do not excuse it.
MIN_FAILED_FRACTION: Final = 0.8
#: Fraction of jobs that must succeed for them to do well on a host, or elsewhere.
HALF: Final = 0.5
#: Users whose jobs must fail on a host that cannot be compared with others: so many are hardly all wrong at once.
SEVERAL: Final = 3
FIRST_PAUSE: Final = timedelta(hours=1)
LONGEST_PAUSE: Final = timedelta(days=1)


class Host(NamedTuple):
    """A worker node; its name is unique within its site."""

    site_id: int
    name: str


class JobKind(NamedTuple):
    """Similar jobs: of one owner, job type and CPU segment."""

    owner_id: int
    job_type: str
    cpu_segment_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTally:
    """The leases of one kind of jobs that ended on one host.

    Args:
        fetched: all, except those whose job was killed by somebody.
        failed: those of them whose job failed, or was returned, soon after its match.
    """

    host: Host
    kind: JobKind
    fetched: int
    failed: int

    @property
    def is_well(self) -> bool:
        """Return whether at least half of them did not fail fast."""
        return self.failed <= HALF * self.fetched


class FoundBlackHole(NamedTuple):
    """The evidence against a host: leases of comparable jobs, and those of them that failed fast."""

    fetched: int
    failed: int
    #: Number of users whose jobs failed, if the evidence is theirs together; 0: similar jobs do well elsewhere.
    owners: int = 0


class EarlierBlackHole(NamedTuple):
    """The previous exclusion of a host."""

    found_at: datetime
    until: datetime
    lifted_at: datetime
    #: Lifted by a person, after a repair; False: it ended by itself.
    by_somebody: bool


def black_holes(tallies: Iterable[HostTally], *, failures: int) -> Mapping[Host, FoundBlackHole]:
    """Return the hosts that are black holes.

    Args:
        tallies: of every host and kind of jobs, one each, within some period.
        failures: minimum of leases that failed fast on a host, at least 1.
    """
    of_host: defaultdict[Host, list[HostTally]] = defaultdict(list)
    of_kind: defaultdict[JobKind, list[HostTally]] = defaultdict(list)
    for tally in tallies:
        of_host[tally.host].append(tally)
        of_kind[tally.kind].append(tally)
    suspects = {host for host, there in of_host.items() if _is_bad(_sum(there), failures=failures)}
    proven = {kind: _does_well_elsewhere(seen, suspects) for kind, seen in of_kind.items()} if suspects else {}
    holes = {}
    for host in suspects:
        telling = [tally for tally in of_host[host] if proven[tally.kind]]
        nowhere_else = [tally for tally in of_host[host] if len(of_kind[tally.kind]) == 1]
        against = (_sum(telling), _of_several(telling + nowhere_else))
        if bad := [each for each in against if _is_bad(each, failures=failures)]:
            holes[host] = bad[0]
    return holes


def pause_of(earlier: EarlierBlackHole | None, *, now: datetime) -> timedelta:
    """Return the time for which a black hole gets no jobs: doubled if it soon became one again."""
    if earlier is None or earlier.by_somebody or now - earlier.lifted_at > LONGEST_PAUSE:
        return FIRST_PAUSE
    return min(LONGEST_PAUSE, 2 * (earlier.until - earlier.found_at))


def _sum(tallies: Iterable[HostTally]) -> FoundBlackHole:
    counted = list(tallies)
    return FoundBlackHole(
        fetched=sum(tally.fetched for tally in counted), failed=sum(tally.failed for tally in counted)
    )


def _of_several(tallies: Iterable[HostTally]) -> FoundBlackHole:
    """Return the jobs of several users as evidence; of no leases if too few users, or too few of their jobs, fail."""
    of_owner: defaultdict[int, list[HostTally]] = defaultdict(list)
    for tally in tallies:
        of_owner[tally.kind.owner_id].append(tally)
    # By user, not by lease: one user may have thousands of wrong jobs.
    failing = sum(_is_bad(_sum(of_one_owner), failures=1) for of_one_owner in of_owner.values())
    if failing < max(SEVERAL, MIN_FAILED_FRACTION * len(of_owner)):
        return FoundBlackHole(fetched=0, failed=0)
    return _sum(tally for of_one in of_owner.values() for tally in of_one)._replace(owners=failing)


def _is_bad(tally: FoundBlackHole, *, failures: int) -> bool:
    return tally.failed >= failures and tally.failed >= MIN_FAILED_FRACTION * tally.fetched


def _does_well_elsewhere(seen: Iterable[HostTally], suspects: set[Host]) -> bool:
    # By host, not by lease: on one bad host more jobs fail than succeed on many good ones.
    elsewhere = [tally.is_well for tally in seen if tally.host not in suspects]
    return bool(elsewhere) and sum(elsewhere) >= HALF * len(elsewhere)
