"""Verdicts on pilots, from the state in their batch system and their own reports."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilots.domain.pilot import TRANSITIONS, PilotStatus
from pilots.domain.pilot_checks import SUBMITTED_WITHIN, PilotObservation, PilotTimeouts, PilotVerdict, verdict_on
from tests.factories import NOW

TIMEOUTS = PilotTimeouts(start=timedelta(hours=6), silence=timedelta(minutes=30))
LONG_AGO = NOW - timedelta(days=7)
WAITING = PilotObservation(
    status=PilotStatus.WAITING, sent=True, accepted=True, submitted_at=NOW - timedelta(hours=1), last_seen_at=None
)
RUNNING = replace(WAITING, status=PilotStatus.RUNNING, started_at=NOW - timedelta(minutes=50), last_seen_at=NOW)


def verdict_now(seen: PilotObservation) -> PilotVerdict | None:
    return verdict_on(seen, timeouts=TIMEOUTS, watched_since=LONG_AGO, now=NOW)


@pytest.mark.parametrize(
    "seen",
    [
        WAITING,
        RUNNING,
        replace(RUNNING, last_seen_at=NOW - TIMEOUTS.silence),
        replace(RUNNING, banned=True),
        replace(WAITING, submitted_at=NOW - TIMEOUTS.start),
        replace(WAITING, accepted=False, submitted_at=NOW - SUBMITTED_WITHIN),
        replace(RUNNING, sent=False, accepted=False),
        replace(WAITING, sent=False, accepted=False, submitted_at=LONG_AGO),
    ],
)
def test_a_pilot_may_go_on(seen: PilotObservation) -> None:
    assert verdict_now(seen) is None


@pytest.mark.parametrize(
    ("seen", "exit_code", "status", "reason"),
    [
        (RUNNING, 0, PilotStatus.DONE, "Ended with exit code 0"),
        (RUNNING, 3, PilotStatus.FAILED, "Ended with exit code 3"),
        (RUNNING, -9, PilotStatus.FAILED, "Killed by SIGKILL"),
        (RUNNING, -99, PilotStatus.FAILED, "Killed by signal 99"),
        (RUNNING, None, PilotStatus.LOST, "Gone; how it ended is unknown"),
        (WAITING, 0, PilotStatus.ABORTED, "Ended with exit code 0 before it had registered"),
        (WAITING, 3, PilotStatus.ABORTED, "Ended with exit code 3 before it had registered"),
        (WAITING, None, PilotStatus.LOST, "Gone; how it ended is unknown"),
    ],
)
def test_a_pilot_missing_in_its_batch_system_has_ended(
    seen: PilotObservation, exit_code: int | None, status: PilotStatus, reason: str
) -> None:
    died = seen is RUNNING and (exit_code is None or exit_code < 0)
    assert verdict_now(replace(seen, gone=True, exit_code=exit_code)) == PilotVerdict(
        status=status, reason=reason, died=died
    )


@pytest.mark.parametrize("exit_code", [None, -9, -15])
def test_a_pilot_that_its_batch_system_ended_did_not_die(exit_code: int | None) -> None:
    gone = verdict_now(replace(RUNNING, gone=True, exit_code=exit_code, batch_reason="PREEMPTED", by_system=True))
    assert gone is not None
    assert (gone.is_end, gone.died) == (True, False)


REVOKED = replace(RUNNING, revoked_at=NOW - timedelta(minutes=1), why_revoked="Revoked by bob")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        # Killed until it is seen to be gone: its jobs may run elsewhere only then.
        (REVOKED, PilotVerdict(status=PilotStatus.RUNNING, reason="Revoked by bob", kill=True)),
        (replace(REVOKED, known=False), PilotVerdict(status=PilotStatus.RUNNING, reason="Revoked by bob", kill=True)),
        (
            replace(REVOKED, started_at=None, status=PilotStatus.STALLED, submitted_at=LONG_AGO),
            PilotVerdict(status=PilotStatus.STALLED, reason="Revoked by bob", kill=True),
        ),
        (
            replace(REVOKED, gone=True, exit_code=0, batch_reason="CANCELLED"),
            PilotVerdict(status=PilotStatus.ABORTED, reason="Revoked by bob"),
        ),
        # Nobody says where it is: it has stopped by itself when it could renew no lease any more.
        (
            replace(REVOKED, known=False, revoked_at=NOW - TIMEOUTS.silence - timedelta(seconds=1)),
            PilotVerdict(status=PilotStatus.ABORTED, reason="Revoked by bob", kill=True),
        ),
        (
            replace(REVOKED, known=False, started_at=None, revoked_at=NOW - SUBMITTED_WITHIN - timedelta(seconds=1)),
            PilotVerdict(status=PilotStatus.ABORTED, reason="Revoked by bob", kill=True),
        ),
        (
            replace(REVOKED, revoked_at=LONG_AGO, last_seen_at=LONG_AGO),
            PilotVerdict(status=PilotStatus.RUNNING, reason="Revoked by bob", kill=True),
        ),
    ],
)
def test_a_revoked_pilot_is_killed_until_it_is_gone(seen: PilotObservation, expected: PilotVerdict) -> None:
    assert verdict_now(seen) == expected


def test_a_drained_pilot_runs_on_but_does_not_begin() -> None:
    assert verdict_now(replace(RUNNING, drained=True)) is None
    aborted = PilotVerdict(status=PilotStatus.ABORTED, reason="It was drained before it started", kill=True)
    assert verdict_now(replace(WAITING, drained=True)) == aborted


def test_a_pilot_that_has_not_started_in_time_is_stalled_and_killed_until_it_is_gone() -> None:
    late = replace(WAITING, submitted_at=NOW - TIMEOUTS.start - timedelta(seconds=1))
    stalled = PilotVerdict(status=PilotStatus.STALLED, reason="Not started within 6.0 h", kill=True)
    assert verdict_now(late) == stalled
    marked = replace(late, status=PilotStatus.STALLED, stalled_at=NOW, why_stalled="Not started within 6.0 h: no node")
    assert verdict_now(replace(marked, batch_reason="no node")) == replace(
        stalled, reason="Not started within 6.0 h: no node"
    )
    ended = PilotVerdict(status=PilotStatus.STALLED, reason="Not started within 6.0 h: no node", ends=True)
    assert verdict_now(replace(marked, gone=True, exit_code=-9)) == ended
    assert verdict_now(replace(marked, known=False, submitted_at=LONG_AGO)) == replace(ended, kill=True)


def test_a_pilot_that_ended_before_it_was_found_to_be_late_is_not_stalled() -> None:
    late = replace(WAITING, submitted_at=NOW - TIMEOUTS.start - timedelta(seconds=1))
    found = verdict_now(replace(late, gone=True, exit_code=3))
    assert found == PilotVerdict(status=PilotStatus.ABORTED, reason="Ended with exit code 3 before it had registered")


def test_a_pilot_that_its_ce_never_accepted_is_aborted() -> None:
    forgotten = replace(
        WAITING,
        accepted=False,
        submitted_at=NOW - SUBMITTED_WITHIN - timedelta(seconds=1),
        status=PilotStatus.SUBMITTED,
    )
    found = verdict_now(forgotten)
    assert found is not None
    assert (found.status, found.kill) == (PilotStatus.ABORTED, False)


def test_a_pilot_that_waits_at_a_banned_place_is_removed() -> None:
    found = verdict_now(replace(WAITING, banned=True))
    assert found is not None
    assert (found.status, found.kill) == (PilotStatus.ABORTED, True)


@pytest.mark.parametrize("sent", [True, False])
def test_a_pilot_that_is_silent_for_too_long_is_lost(sent: bool) -> None:
    silent = replace(RUNNING, sent=sent, last_seen_at=NOW - TIMEOUTS.silence - timedelta(seconds=1))
    assert verdict_now(silent) == PilotVerdict(
        status=PilotStatus.LOST, reason="Silent for 1801 s", kill=True, died=True
    )
    failed_node = verdict_now(replace(silent, by_system=True))
    assert failed_node is not None
    assert not failed_node.died


def test_silence_during_a_server_outage_is_not_counted() -> None:
    silent = replace(RUNNING, last_seen_at=LONG_AGO, submitted_at=LONG_AGO)
    listening_since = NOW - TIMEOUTS.silence
    assert verdict_on(silent, timeouts=TIMEOUTS, watched_since=listening_since, now=NOW) is None


moments = st.integers(0, 14 * 24 * 60).map(lambda minutes: NOW - timedelta(minutes=minutes))
maybe = st.booleans()


@given(
    st.builds(
        PilotObservation,
        status=st.sampled_from([PilotStatus.SUBMITTED, PilotStatus.WAITING, PilotStatus.STALLED, PilotStatus.RUNNING]),
        sent=maybe,
        accepted=maybe,
        gone=maybe,
        known=maybe,
        batch_reason=st.sampled_from(["", "Cancelled"]),
        by_system=maybe,
        exit_code=st.none() | st.integers(-9, 2),
        banned=maybe,
        drained=maybe,
        revoked_at=st.none() | moments,
        stalled_at=st.none() | moments,
        matched=maybe,
        submitted_at=moments,
        last_seen_at=st.none() | moments,
    )
)
def test_every_verdict_is_a_transition(seen: PilotObservation) -> None:
    seen = replace(seen, started_at=seen.submitted_at if seen.status is PilotStatus.RUNNING else None)
    verdict = verdict_now(seen)
    assert verdict is None or verdict.status is seen.status or verdict.status in TRANSITIONS[seen.status]
