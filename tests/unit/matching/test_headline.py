"""The headline of an explanation names the cause that explains most."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matching.domain.headline import Cause, CauseCount, Ground, Headline, HeadlineKind, best_explanation, headline

MEMORY = Cause(Ground.CONDITION, "memory")
PLATFORM = Cause(Ground.CONDITION, "platform")
BAN = Cause(Ground.BAN, "site A is banned")
OTHER_BAN = Cause(Ground.BAN, "site B is banned")
THROTTLE = Cause(Ground.THROTTLE, "the throttle of A is closed")
LIMIT = Cause(Ground.LIMIT, "at most 0 jobs")
OTHER_LIMIT = Cause(Ground.LIMIT, "at most 1 job")
CLOSING = Cause(Ground.CLOSING_LIMIT, "at most 0 jobs of the VO")
OWNER = Cause(Ground.OWNER, "suspended")
PRIORITY = Cause(Ground.PRIORITY, "priority 0")
DELAY = Cause(Ground.DELAY, "until 12:00")
NO_SLOT = Cause(Ground.PILOTS, "no free slot")
NO_ROUND = Cause(Ground.PILOTS, "no round")


def parts_of(found: Headline) -> tuple[HeadlineKind, list[tuple[Cause, int]], int]:
    return found.verdict, [(part.cause, part.queues) for part in found.parts], found.queues


@pytest.mark.parametrize(
    ("queues", "verdict", "parts", "of"),
    [
        # The issue's own case: a throttle closes one queue, a limit closes all five.
        ([(THROTTLE, LIMIT), *[(LIMIT,)] * 4], HeadlineKind.CLOSED, [(LIMIT, 5)], 5),
        # Each of two closes all of them: both are named, the limit first.
        ([(THROTTLE, LIMIT)] * 3, HeadlineKind.CLOSED, [(LIMIT, 3), (THROTTLE, 3)], 3),
        ([(BAN,)] * 4 + [(OTHER_BAN,)], HeadlineKind.CLOSED, [(BAN, 4), (OTHER_BAN, 1)], 5),
        ([(OTHER_BAN,), *[(BAN,)] * 4], HeadlineKind.CLOSED, [(BAN, 4), (OTHER_BAN, 1)], 5),
        # Four queues that a ban and a throttle both close are explained by one of them; the limit explains the fifth.
        ([(THROTTLE, BAN)] * 4 + [(LIMIT,)], HeadlineKind.CLOSED, [(BAN, 4), (LIMIT, 1)], 5),
        # Alone at a queue is better than beside another.
        ([(BAN, THROTTLE), (THROTTLE,), (BAN, LIMIT), (LIMIT,)], HeadlineKind.CLOSED, [(LIMIT, 2), (THROTTLE, 2)], 4),
        # Queues that conditions exclude do not matter while others would take it.
        ([(MEMORY, BAN)] * 9 + [(LIMIT,)], HeadlineKind.CLOSED, [(LIMIT, 1)], 1),
        ([(MEMORY,)] * 9 + [()], HeadlineKind.COMPETES, [], 1),
        ([(BAN,)] * 9 + [()], HeadlineKind.COMPETES, [], 1),
        # Where none would, closings do not matter: to open would not help.
        ([(MEMORY, LIMIT), (MEMORY, LIMIT)], HeadlineKind.MISMATCH, [(MEMORY, 2)], 2),
        ([(MEMORY, PLATFORM)] * 2, HeadlineKind.MISMATCH, [(MEMORY, 2), (PLATFORM, 2)], 2),
        ([(MEMORY, PLATFORM), (MEMORY,)], HeadlineKind.MISMATCH, [(MEMORY, 2)], 2),
        ([(MEMORY,)] * 99 + [(PLATFORM, BAN)], HeadlineKind.MISMATCH, [(MEMORY, 99), (PLATFORM, 1)], 100),
        # A limit that closes the whole VO is named first, and also where conditions exclude every queue.
        ([(THROTTLE, CLOSING), (THROTTLE, CLOSING)], HeadlineKind.CLOSED, [(CLOSING, 2), (THROTTLE, 2)], 2),
        ([(THROTTLE,), (THROTTLE, CLOSING)], HeadlineKind.CLOSED, [(THROTTLE, 2)], 2),
        ([(MEMORY, CLOSING), (PLATFORM, CLOSING)], HeadlineKind.CLOSED, [(CLOSING, 2)], 2),
        ([(MEMORY,), (PLATFORM, CLOSING)], HeadlineKind.MISMATCH, [(MEMORY, 1), (PLATFORM, 1)], 2),
        ([(CLOSING,), ()], HeadlineKind.COMPETES, [], 1),
        ([], HeadlineKind.NO_QUEUES, [], 0),
    ],
)
def test_the_cause_that_explains_most_is_named(
    queues: list[tuple[Cause, ...]], verdict: HeadlineKind, parts: list[tuple[Cause, int]], of: int
) -> None:
    assert parts_of(headline(of_job=(), queues=queues)) == (verdict, parts, of)


@pytest.mark.parametrize("queues", [[], [()], [(LIMIT,)], [(MEMORY,)], [(), (BAN,)]])
def test_causes_of_the_job_itself_come_before_those_of_queues(queues: list[tuple[Cause, ...]]) -> None:
    for of_job in ([OWNER], [PRIORITY], [DELAY, OWNER], [PRIORITY, OWNER]):
        found = headline(of_job=of_job, queues=queues, no_pilots=[NO_SLOT])
        assert found.verdict is HeadlineKind.NEVER_DRAWN
        assert [part.cause for part in found.parts] == [cause for cause in (OWNER, PRIORITY) if cause in of_job]


@pytest.mark.parametrize(
    ("queues", "no_pilots", "expected"),
    [
        ([(), ()], [NO_SLOT, NO_SLOT], (HeadlineKind.NO_PILOTS, [(NO_SLOT, 2)], 2)),
        ([(), (), ()], [NO_SLOT, NO_ROUND, NO_ROUND], (HeadlineKind.NO_PILOTS, [(NO_ROUND, 2), (NO_SLOT, 1)], 3)),
        ([(), ()], [NO_SLOT, None], (HeadlineKind.COMPETES, [], 2)),
        ([(), (LIMIT,)], [NO_SLOT], (HeadlineKind.NO_PILOTS, [(NO_SLOT, 1)], 1)),
        ([()], [], (HeadlineKind.COMPETES, [], 1)),
    ],
)
def test_missing_pilots_are_the_headline_only_if_no_queue_gets_any(
    queues: list[tuple[Cause, ...]], no_pilots: list[Cause | None], expected: object
) -> None:
    assert parts_of(headline(of_job=(), queues=queues, no_pilots=no_pilots)) == expected


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        ([(), (LIMIT,)], (HeadlineKind.DELAYED, [(DELAY, 1)], 1)),
        # A delay and a closing that hold at every queue are both named; one that does not is not.
        ([(LIMIT,), (LIMIT,)], (HeadlineKind.CLOSED, [(DELAY, 2), (LIMIT, 2)], 2)),
        ([(LIMIT,), (BAN,)], (HeadlineKind.CLOSED, [(DELAY, 2)], 2)),
        # What fits nowhere fits nowhere later either.
        ([(MEMORY,), (MEMORY, LIMIT)], (HeadlineKind.MISMATCH, [(MEMORY, 2)], 2)),
    ],
)
def test_a_delay_of_the_job_holds_at_every_queue(queues: list[tuple[Cause, ...]], expected: object) -> None:
    assert parts_of(headline(of_job=[DELAY], queues=queues, no_pilots=[NO_SLOT])) == expected


ALL = (MEMORY, PLATFORM, BAN, OTHER_BAN, THROTTLE, LIMIT, OTHER_LIMIT)
SOME = st.lists(st.sampled_from(ALL), min_size=1, unique=True).map(tuple)


@given(st.lists(SOME, min_size=1, max_size=12))
def test_a_headline_covers_all_queues_without_superfluous_causes(queues: list[tuple[Cause, ...]]) -> None:
    parts = best_explanation(queues)
    causes = {part.cause for part in parts}
    assert all(causes & set(at_queue) for at_queue in queues)
    assert [part.queues for part in parts] == [sum(part.cause in at for at in queues) for part in parts]
    of_all = {cause for cause in ALL if all(cause in at for at in queues)}
    assert causes == of_all or (not of_all and len(causes) == len(parts))
    # No cause holds at more queues than the first that is named.
    assert parts[0].queues == max(sum(cause in at for at in queues) for cause in ALL)


@given(st.lists(SOME, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_queues_changes_no_count(queues: list[tuple[Cause, ...]], random: object) -> None:
    shuffled = list(queues)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' own type
    counts = [best_explanation(order)[0].queues for order in (queues, shuffled)]
    assert counts[0] == counts[1]


def test_every_combination_of_two_queues_has_one_verdict() -> None:
    """Over all pairs: a queue that takes the job decides; then closings count only where conditions are met."""
    kinds: tuple[tuple[Cause, ...], ...] = ((), (MEMORY,), (LIMIT,), (MEMORY, LIMIT), (BAN, THROTTLE))
    for first, second in product(kinds, repeat=2):
        found = headline(of_job=(), queues=[first, second])
        if () in {first, second}:
            expected = HeadlineKind.COMPETES
        elif all(MEMORY in queue for queue in (first, second)):
            expected = HeadlineKind.MISMATCH
        else:
            expected = HeadlineKind.CLOSED
        assert found.verdict is expected, (first, second)
        assert all(isinstance(part, CauseCount) for part in found.parts)
        grounds = {part.cause.ground for part in found.parts}
        assert grounds <= ({Ground.CONDITION} if expected is HeadlineKind.MISMATCH else {*Ground} - {Ground.CONDITION})
