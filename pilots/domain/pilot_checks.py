"""The status agent's rules: verdicts on pilots, by the states that the batch system and they report (PIL §2.3)."""

import signal
from dataclasses import dataclass
from datetime import datetime, timedelta

from pilots.domain.pilot import ENDED, PilotStatus

#: Time after which a pilot that its CE does not have is taken as never submitted.
SUBMITTED_WITHIN = timedelta(minutes=10)
#: Time after which a pilot that was to be killed and that its CE no longer has is taken as gone.
FORGOTTEN_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotTimeouts:
    """Longest time until a pilot starts, and longest silence of a started one."""

    start: timedelta
    silence: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotObservation:
    """A pilot without a recorded end, and what was observed of it.

    Args:
        sent: by a director, so its CE can report its state.
        accepted: the batch system has accepted it, as far as is known.
        gone: it has ended according to the batch system.
        known: the batch system reports its state.
        batch_reason: the batch system's reason why it waits or how it ended.
        by_system: the batch system ended it, or its node failed.
        exit_code: of one that is gone; negative for a signal, None if not known.
        banned: its site, CE or queue is banned.
        drained: it gets no job.
        revoked_at: since when its token is not valid.
        why_revoked: by whom it was revoked.
        stalled_at: when its status became Stalled; it may have started since.
        why_stalled: the recorded reason, if its status is Stalled.
        matched: it has had a job.
        last_seen_at: its last request; None: none yet.
    """

    status: PilotStatus
    sent: bool
    accepted: bool = False
    gone: bool = False
    known: bool = True
    batch_reason: str = ""
    by_system: bool = False
    exit_code: int | None = None
    banned: bool = False
    drained: bool = False
    revoked_at: datetime | None = None
    why_revoked: str = ""
    stalled_at: datetime | None = None
    why_stalled: str = ""
    matched: bool = False
    submitted_at: datetime
    started_at: datetime | None = None
    last_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotVerdict:
    """The new status of a pilot, and the reason.

    Args:
        kill: it is killed at its CE too.
        revoke: its token and secret become invalid, and its end does not count as a failure of its CE.
        ends: it ends with this status, which living pilots have too (Stalled).
        died: it ended after its start as if killed, though neither the batch system nor the server killed it.
    """

    status: PilotStatus
    reason: str
    kill: bool = False
    revoke: bool = False
    ends: bool = False
    died: bool = False

    @property
    def is_end(self) -> bool:
        """Return whether the pilot ends."""
        return self.ends or self.status in ENDED


def verdict_on(
    pilot: PilotObservation, *, timeouts: PilotTimeouts, watched_since: datetime, now: datetime
) -> PilotVerdict | None:
    """Return the verdict on a pilot; None: it goes on.

    Args:
        pilot: the pilot.
        timeouts: of the director.
        watched_since: since when director cycles have run without a break; earlier silence does not count.
        now: the time.
    """
    if pilot.revoked_at is not None:
        return _verdict_on_revoked(pilot, since=now - pilot.revoked_at, timeouts=timeouts)
    if pilot.gone:
        return _verdict_on_gone(pilot, timeouts=timeouts)
    if pilot.started_at is None:
        waited = now - pilot.submitted_at
        return _verdict_on_unstarted(pilot, waited=waited, timeouts=timeouts) if pilot.sent else None
    silent = now - max(pilot.last_seen_at or pilot.started_at, watched_since)
    if silent <= timeouts.silence:
        return None
    reason = f"Silent for {_words(silent)}"
    return PilotVerdict(status=PilotStatus.LOST, reason=reason, kill=True, died=not pilot.by_system)


def _verdict_on_revoked(pilot: PilotObservation, *, since: timedelta, timeouts: PilotTimeouts) -> PilotVerdict:
    # The refusal of its next report stops it; without a report, it stops its payloads when their leases expire.
    stops_within = SUBMITTED_WITHIN if pilot.started_at is None else timeouts.silence
    if pilot.gone or (not pilot.known and since > stops_within):
        return PilotVerdict(status=PilotStatus.ABORTED, reason=pilot.why_revoked, kill=not pilot.gone)
    # Its jobs return to their queues when it is gone, so its end must be observed. Repeated until then.
    return PilotVerdict(status=pilot.status, reason=pilot.why_revoked, kill=True)


def _verdict_on_unstarted(
    pilot: PilotObservation, *, waited: timedelta, timeouts: PilotTimeouts
) -> PilotVerdict | None:
    if pilot.banned:
        reason = "Its site was banned before it started"
        return PilotVerdict(status=PilotStatus.ABORTED, reason=reason, kill=True, revoke=True)
    if pilot.drained:
        return PilotVerdict(status=PilotStatus.ABORTED, reason="It was drained before it started", kill=True)
    if not pilot.accepted and waited > SUBMITTED_WITHIN:
        return PilotVerdict(status=PilotStatus.ABORTED, reason="It was submitted, and its CE does not know it")
    if waited > timeouts.start:
        why = _why_stalled(timeouts)
        if waited > timeouts.start + FORGOTTEN_AFTER and not pilot.known:
            return PilotVerdict(status=PilotStatus.STALLED, reason=pilot.why_stalled or why, kill=True, ends=True)
        # Repeated until it is gone: the command to kill it may have been lost.
        return PilotVerdict(
            status=PilotStatus.STALLED, reason=f"{why}: {pilot.batch_reason}" if pilot.batch_reason else why, kill=True
        )
    return None


def _verdict_on_gone(pilot: PilotObservation, *, timeouts: PilotTimeouts) -> PilotVerdict:
    # Killed by the server for waiting too long; whether and how the CE reports that differs between kinds.
    if pilot.status is PilotStatus.STALLED:
        return PilotVerdict(status=PilotStatus.STALLED, reason=pilot.why_stalled or _why_stalled(timeouts), ends=True)
    if pilot.stalled_at is not None and not pilot.matched and (pilot.exit_code is None or pilot.exit_code < 0):
        reason = f"{_why_stalled(timeouts)}, and killed while it registered"
        return PilotVerdict(status=PilotStatus.STALLED, reason=reason, ends=True)
    # An agent that ends by itself has an exit code.
    died = pilot.started_at is not None and not pilot.by_system and (pilot.exit_code is None or pilot.exit_code < 0)
    if pilot.exit_code is None and not pilot.batch_reason:
        return PilotVerdict(status=PilotStatus.LOST, reason="Gone; how it ended is unknown", died=died)
    how = _how_ended(pilot.exit_code, batch_reason=pilot.batch_reason)
    if pilot.started_at is None:
        return PilotVerdict(status=PilotStatus.ABORTED, reason=f"{how} before it had registered")
    return PilotVerdict(status=PilotStatus.DONE if pilot.exit_code == 0 else PilotStatus.FAILED, reason=how, died=died)


def _why_stalled(timeouts: PilotTimeouts) -> str:
    return f"Not started within {_words(timeouts.start)}"


def _how_ended(exit_code: int | None, *, batch_reason: str) -> str:
    how = [] if exit_code is None else [_in_words(exit_code)]
    return " — ".join([*how, batch_reason] if batch_reason else how)


def _in_words(exit_code: int) -> str:
    if exit_code >= 0:
        return f"Ended with exit code {exit_code}"
    try:
        return f"Killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"Killed by signal {-exit_code}"


def _words(duration: timedelta) -> str:
    hours = duration / timedelta(hours=1)
    return f"{hours:.1f} h" if hours >= 1 else f"{duration.total_seconds():.0f} s"
