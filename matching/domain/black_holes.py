"""Which hosts are black holes: there jobs end badly, and so fast that the host takes more and more of them.

A host is one when jobs that end well elsewhere fail on it. Jobs that fail wherever they run tell nothing of a node,
nor do hosts that are suspected themselves. So when all jobs fail everywhere (a storage element is down, a user has
submitted ten thousand wrong jobs), no host is blamed. Jobs that ran on no other host (it is the only one, or the only
one of its kind) speak against it together: when those of several users fail, and hardly anybody's end well.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

#: Of the leases that ended on a host: a few jobs that happen to be good do not excuse it.
MOST: Final = 0.8
#: Jobs do well on a host, or elsewhere, when at least so much of them does.
HALF: Final = 0.5
#: Users whose jobs must fail on a host where there is no other to compare it with: so many are hardly wrong at once.
SEVERAL: Final = 3
FIRST_PAUSE: Final = timedelta(hours=1)
LONGEST_PAUSE: Final = timedelta(days=1)


class Host(NamedTuple):
    """A worker node; names of nodes are those of their site."""

    site_id: int
    name: str


class JobKind(NamedTuple):
    """Jobs that are much the same: of one owner, job type and CPU segment."""

    owner_id: int
    job_type: str
    cpu_segment_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTally:
    """Leases of one kind of jobs that ended on one host.

    Args:
        fetched: all that ended, but those whose job was killed by somebody.
        failed: of these, those whose job failed, or was handed back, a short time after it was matched.
    """

    host: Host
    kind: JobKind
    fetched: int
    failed: int

    @property
    def is_well(self) -> bool:
        """Whether at least half of them did not fail fast."""
        return self.failed <= HALF * self.fetched


class FoundBlackHole(NamedTuple):
    """What speaks against a host: leases of jobs that tell something of it, and those of them that failed fast."""

    fetched: int
    failed: int
    #: Whose jobs failed, where it takes several users to tell; 0: jobs like these do well elsewhere.
    owners: int = 0


class EarlierBlackHole(NamedTuple):
    """The last time that the host was a black hole."""

    found_at: datetime
    until: datetime
    lifted_at: datetime
    #: By a person, who had the node repaired: not because its time was over.
    by_somebody: bool


def black_holes(tallies: Iterable[HostTally], *, failures: int) -> Mapping[Host, FoundBlackHole]:
    """Return the hosts that are black holes.

    Args:
        tallies: of every host and kind of jobs, one each, within some time.
        failures: leases that must have failed fast on a host, at least 1.
    """
    of_host: defaultdict[Host, list[HostTally]] = defaultdict(list)
    of_kind: defaultdict[JobKind, list[HostTally]] = defaultdict(list)
    for tally in tallies:
        of_host[tally.host].append(tally)
        of_kind[tally.kind].append(tally)
    suspects = {host for host, there in of_host.items() if _is_bad(_sum(there), failures=failures)}
    proven = {kind: _does_well_elsewhere(seen, suspects) for kind, seen in of_kind.items()} if suspects else {}
    found = {}
    for host in suspects:
        telling = [tally for tally in of_host[host] if proven[tally.kind]]
        nowhere_else = [tally for tally in of_host[host] if len(of_kind[tally.kind]) == 1]
        against = (_sum(telling), _of_several(telling + nowhere_else))
        if bad := [each for each in against if _is_bad(each, failures=failures)]:
            found[host] = bad[0]
    return found


def pause_of(earlier: EarlierBlackHole | None, *, now: datetime) -> timedelta:
    """Return for how long a black hole gets no jobs: twice as long as before when it has become one again soon."""
    if earlier is None or earlier.by_somebody or now - earlier.lifted_at > LONGEST_PAUSE:
        return FIRST_PAUSE
    return min(LONGEST_PAUSE, 2 * (earlier.until - earlier.found_at))


def _sum(tallies: Iterable[HostTally]) -> FoundBlackHole:
    counted = list(tallies)
    return FoundBlackHole(
        fetched=sum(tally.fetched for tally in counted), failed=sum(tally.failed for tally in counted)
    )


def _of_several(tallies: Iterable[HostTally]) -> FoundBlackHole:
    """Return what the jobs of several users say together; nothing where too few, or too few of them, fail."""
    of_owner: defaultdict[int, list[HostTally]] = defaultdict(list)
    for tally in tallies:
        of_owner[tally.kind.owner_id].append(tally)
    # By user, not by lease: of one who is wrong there may be thousands.
    failing = sum(_is_bad(_sum(of_one), failures=1) for of_one in of_owner.values())
    if failing < max(SEVERAL, MOST * len(of_owner)):
        return FoundBlackHole(fetched=0, failed=0)
    return _sum(tally for of_one in of_owner.values() for tally in of_one)._replace(owners=failing)


def _is_bad(found: FoundBlackHole, *, failures: int) -> bool:
    return found.failed >= failures and found.failed >= MOST * found.fetched


def _does_well_elsewhere(seen: Iterable[HostTally], suspects: set[Host]) -> bool:
    # By host, not by lease: on one bad host more jobs fail than end well on many good ones.
    elsewhere = [tally.is_well for tally in seen if tally.host not in suspects]
    return bool(elsewhere) and sum(elsewhere) >= HALF * len(elsewhere)
