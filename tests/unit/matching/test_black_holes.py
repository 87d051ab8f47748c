"""The rule for black holes: which hosts are ones, and for how long."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from matching.domain.black_holes import (
    EarlierBlackHole,
    FoundBlackHole,
    Host,
    HostTally,
    JobKind,
    black_holes,
    pause_of,
)
from tests.factories import NOW

SITE = 1
ALICE, BOB = JobKind(1, "User", 500), JobKind(2, "MCSimulation", 300_000)
CHARLIE, DAVE, ERIN = (JobKind(owner_id, "User", 500) for owner_id in (3, 4, 5))
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class HostCounts:
    """The numbers of failed and of fetched jobs of one kind on one host."""

    host: str
    kind: JobKind
    failed: int
    fetched: int


def found_black_holes(*seen: HostCounts, failures: int = 10) -> dict[str, tuple[int, int]]:
    tallies = [
        HostTally(host=Host(SITE, each.host), kind=each.kind, fetched=each.fetched, failed=each.failed) for each in seen
    ]
    return {host.name: (bad.failed, bad.fetched) for host, bad in black_holes(tallies, failures=failures).items()}


WELL = HostCounts("good", ALICE, 0, 3)


@pytest.mark.parametrize(
    ("what", "seen", "expected"),
    [
        ("nothing happened", [], {}),
        ("too few failures", [WELL, HostCounts("bad", ALICE, 9, 9)], {}),
        ("enough", [WELL, HostCounts("bad", ALICE, 10, 10)], {"bad": (10, 10)}),
        ("a few good jobs do not excuse it", [WELL, HostCounts("bad", ALICE, 40, 50)], {"bad": (40, 50)}),
        ("many do", [WELL, HostCounts("bad", ALICE, 39, 50)], {}),
        ("jobs that ran nowhere else tell nothing", [HostCounts("bad", ALICE, 500, 500)], {}),
        (
            "nor do those that fail elsewhere too",
            [HostCounts("bad", ALICE, 50, 50), HostCounts("good", ALICE, 3, 3)],
            {},
        ),
        (
            "of two hosts elsewhere one is enough",
            [HostCounts("bad", ALICE, 50, 50), WELL, HostCounts("c", ALICE, 3, 3)],
            {"bad": (50, 50)},
        ),
        (
            "of three it is not: perhaps luck",
            [HostCounts("bad", ALICE, 50, 50), WELL, HostCounts("c", ALICE, 3, 3), HostCounts("d", ALICE, 3, 3)],
            {},
        ),
        (
            "two at once are no excuse for each other",
            [HostCounts("bad", ALICE, 50, 50), HostCounts("worse", ALICE, 500, 500), WELL],
            {"bad": (50, 50), "worse": (500, 500)},
        ),
        (
            "everything fails everywhere",
            [HostCounts(f"n{n}", kind, 50, 50) for n in range(9) for kind in (ALICE, BOB)],
            {},
        ),
        (
            "wrong jobs beside good ones do not count against the host",
            [
                HostCounts("bad", ALICE, 50, 50),
                HostCounts("good", ALICE, 9, 9),
                HostCounts("bad", BOB, 2, 4),
                HostCounts("good", BOB, 0, 4),
            ],
            {},
        ),
        (
            "nor for it",
            [
                HostCounts("bad", ALICE, 50, 50),
                HostCounts("good", ALICE, 9, 9),
                HostCounts("bad", BOB, 11, 12),
                HostCounts("good", BOB, 0, 4),
            ],
            {"bad": (11, 12)},
        ),
        (
            "half that end well are well",
            [HostCounts("bad", ALICE, 10, 10), HostCounts("good", ALICE, 2, 4)],
            {"bad": (10, 10)},
        ),
    ],
)
def test_a_host_is_a_black_hole_when_jobs_fail_there_that_do_well_elsewhere(
    what: str, seen: list[HostCounts], expected: dict[str, tuple[int, int]]
) -> None:
    assert found_black_holes(*seen) == expected, what


@pytest.mark.parametrize(
    ("what", "seen", "expected"),
    [
        ("one user is wrong", [HostCounts("only", ALICE, 500, 500)], ""),
        ("so may two be", [HostCounts("only", ALICE, 500, 500), HostCounts("only", BOB, 500, 500)], ""),
        (
            "three are hardly",
            [HostCounts("only", ALICE, 4, 4), HostCounts("only", BOB, 3, 3), HostCounts("only", CHARLIE, 3, 3)],
            "only",
        ),
        ("one is not three", [HostCounts("only", JobKind(1, f"T{n}", 500), 50, 50) for n in range(9)], ""),
        ("too few failures", [HostCounts("only", kind, 3, 3) for kind in (ALICE, BOB, CHARLIE)], ""),
        (
            "of four users one does well",
            [HostCounts("only", kind, 50, 50) for kind in (ALICE, BOB, CHARLIE)] + [HostCounts("only", DAVE, 0, 9)],
            "",
        ),
        (
            "of five",
            [HostCounts("only", kind, 50, 50) for kind in (ALICE, BOB, CHARLIE, DAVE)]
            + [HostCounts("only", ERIN, 0, 9)],
            "only",
        ),
        (
            "one whose jobs do well elsewhere is one of them",
            [HostCounts("good", ALICE, 0, 3), *(HostCounts("bad", kind, 4, 4) for kind in (ALICE, BOB, CHARLIE))],
            "bad",
        ),
        (
            "one whose jobs fail elsewhere too is none",
            [HostCounts("n", ALICE, 3, 3), *(HostCounts("bad", kind, 40, 40) for kind in (ALICE, BOB, CHARLIE))],
            "",
        ),
        (
            "what fails on all hosts is their fault as little as it was",
            [HostCounts(host, kind, 50, 50) for host in ("n1", "n2") for kind in (ALICE, BOB, CHARLIE, DAVE)],
            "",
        ),
    ],
)
def test_a_host_that_alone_had_such_jobs_is_one_when_those_of_several_users_fail(
    what: str, seen: list[HostCounts], expected: str
) -> None:
    assert set(found_black_holes(*seen)) == ({expected} if expected else set()), what


def test_hosts_of_one_name_at_two_sites_are_two() -> None:
    bad, good = (
        HostTally(host=Host(site, "node1"), kind=ALICE, fetched=10, failed=failed) for site, failed in ((1, 10), (2, 0))
    )
    assert black_holes([bad, good], failures=10) == {Host(1, "node1"): FoundBlackHole(fetched=10, failed=10)}


def earlier(*, pause: timedelta, ended_ago: timedelta = HOUR, by_somebody: bool = False) -> EarlierBlackHole:
    lifted_at = NOW - ended_ago
    return EarlierBlackHole(found_at=lifted_at - pause, until=lifted_at, lifted_at=lifted_at, by_somebody=by_somebody)


@pytest.mark.parametrize(
    ("before", "hours"),
    [
        (None, 1),
        (earlier(pause=HOUR), 2),
        (earlier(pause=8 * HOUR), 16),
        (earlier(pause=16 * HOUR), 24),
        (earlier(pause=24 * HOUR), 24),
        (earlier(pause=8 * HOUR, ended_ago=24 * HOUR), 16),
        (earlier(pause=8 * HOUR, ended_ago=25 * HOUR), 1),
        (earlier(pause=8 * HOUR, by_somebody=True), 1),
    ],
)
def test_the_time_without_jobs_doubles_when_it_is_found_again_soon(before: EarlierBlackHole | None, hours: int) -> None:
    assert pause_of(before, now=NOW) == hours * HOUR
