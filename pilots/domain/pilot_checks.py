"""What is to be done about a pilot, by what its batch system and the pilot itself say of it (PIL §2.3; DESIGN §3.7)."""

import signal
from dataclasses import dataclass
from datetime import datetime, timedelta

from pilots.domain.pilot import ENDED, PilotStatus

#: A pilot that its CE does not know so long after it was to be submitted never came there.
SUBMITTED_WITHIN = timedelta(minutes=10)
#: One that was to be killed and that its CE no longer knows is taken for gone after so long.
FORGOTTEN_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotTimeouts:
    """How long a pilot may take to start, and how long it may then be silent."""

    start: timedelta
    silence: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotObservation:
    """A pilot that has not ended, as far as the server knows.

    Args:
        sent: by a director, so that it can be asked after.
        accepted: by the batch system, as far as its director could tell.
        gone: the batch system says that it has ended.
        known: the batch system says where it is.
        said: in the batch system's own words, why it waits or how it ended.
        by_system: the batch system ended it, or its node failed.
        exit_code: of one that is gone; negative for a signal, None when nobody knows.
        banned: its site, CE or queue is.
        drained: it is to get no job.
        revoked_at: since when its token opens nothing.
        why_revoked: who says so.
        stalled_at: when it was declared stalled; it may have started since.
        why_stalled: the reason that was noted then, of one that is stalled now.
        matched: it has had a job.
        last_seen_at: when it last called; None: never.
    """

    status: PilotStatus
    sent: bool
    accepted: bool = False
    gone: bool = False
    known: bool = True
    said: str = ""
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
    """The status that the pilot has from now on and why.

    Args:
        kill: it is to be ended at its CE too.
        revoke: people do not want it: its token and secret open nothing any more, and its end is no fault of its CE.
        ends: it has ended with this status, though others of this status have not (Stalled).
        died: it ended, after its start, as if it was killed, and by nobody whom the server knows.
    """

    status: PilotStatus
    reason: str
    kill: bool = False
    revoke: bool = False
    ends: bool = False
    died: bool = False

    @property
    def is_end(self) -> bool:
        """Whether the pilot has ended with it."""
        return self.ends or self.status in ENDED


def verdict_on(
    seen: PilotObservation, *, timeouts: PilotTimeouts, watched_since: datetime, now: datetime
) -> PilotVerdict | None:
    """Return what becomes of a pilot; None: it may go on as it does.

    Args:
        seen: the pilot.
        timeouts: of the director.
        watched_since: since when there was somebody to hear pilots; silence before that says nothing.
        now: the time.
    """
    if seen.revoked_at is not None:
        return _verdict_on_revoked(seen, since=now - seen.revoked_at, timeouts=timeouts)
    if seen.gone:
        return _verdict_on_gone(seen, timeouts=timeouts)
    if seen.started_at is None:
        return _verdict_on_unstarted(seen, waited=now - seen.submitted_at, timeouts=timeouts) if seen.sent else None
    silent = now - max(seen.last_seen_at or seen.started_at, watched_since)
    if silent <= timeouts.silence:
        return None
    reason = f"Silent for {_words(silent)}"
    return PilotVerdict(status=PilotStatus.LOST, reason=reason, kill=True, died=not seen.by_system)


def _verdict_on_revoked(seen: PilotObservation, *, since: timedelta, timeouts: PilotTimeouts) -> PilotVerdict:
    # It hears of it with its next report; without one, it stops its payloads when their leases are over.
    stops_within = SUBMITTED_WITHIN if seen.started_at is None else timeouts.silence
    if seen.gone or (not seen.known and since > stops_within):
        return PilotVerdict(status=PilotStatus.ABORTED, reason=seen.why_revoked, kill=not seen.gone)
    # Its jobs come back when it is gone; so it must be seen to be. Said again until then.
    return PilotVerdict(status=seen.status, reason=seen.why_revoked, kill=True)


def _verdict_on_unstarted(seen: PilotObservation, *, waited: timedelta, timeouts: PilotTimeouts) -> PilotVerdict | None:
    if seen.banned:
        reason = "Its site was banned before it started"
        return PilotVerdict(status=PilotStatus.ABORTED, reason=reason, kill=True, revoke=True)
    if seen.drained:
        return PilotVerdict(status=PilotStatus.ABORTED, reason="It was drained before it started", kill=True)
    if not seen.accepted and waited > SUBMITTED_WITHIN:
        return PilotVerdict(status=PilotStatus.ABORTED, reason="It was submitted, and its CE does not know it")
    if waited > timeouts.start:
        why = _why_stalled(timeouts)
        if waited > timeouts.start + FORGOTTEN_AFTER and not seen.known:
            return PilotVerdict(status=PilotStatus.STALLED, reason=seen.why_stalled or why, kill=True, ends=True)
        # Said again until it is gone: the order to kill may have been lost.
        return PilotVerdict(status=PilotStatus.STALLED, reason=f"{why}: {seen.said}" if seen.said else why, kill=True)
    return None


def _verdict_on_gone(seen: PilotObservation, *, timeouts: PilotTimeouts) -> PilotVerdict:
    # Killed by the server for waiting too long: how its CE reports that, and whether it does, differs between kinds.
    if seen.status is PilotStatus.STALLED:
        return PilotVerdict(status=PilotStatus.STALLED, reason=seen.why_stalled or _why_stalled(timeouts), ends=True)
    if seen.stalled_at is not None and not seen.matched and (seen.exit_code is None or seen.exit_code < 0):
        reason = f"{_why_stalled(timeouts)}, and killed while it registered"
        return PilotVerdict(status=PilotStatus.STALLED, reason=reason, ends=True)
    # An agent that ends by itself has an exit code.
    died = seen.started_at is not None and not seen.by_system and (seen.exit_code is None or seen.exit_code < 0)
    if seen.exit_code is None and not seen.said:
        return PilotVerdict(status=PilotStatus.LOST, reason="Gone, and nobody knows how it ended", died=died)
    how = _how_ended(seen.exit_code, said=seen.said)
    if seen.started_at is None:
        return PilotVerdict(status=PilotStatus.ABORTED, reason=f"{how} before it had registered")
    return PilotVerdict(status=PilotStatus.DONE if seen.exit_code == 0 else PilotStatus.FAILED, reason=how, died=died)


def _why_stalled(timeouts: PilotTimeouts) -> str:
    return f"Not started within {_words(timeouts.start)}"


def _how_ended(exit_code: int | None, *, said: str) -> str:
    how = [] if exit_code is None else [_in_words(exit_code)]
    return " — ".join([*how, said] if said else how)


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
