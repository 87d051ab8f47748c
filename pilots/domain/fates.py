"""What is to be done about a pilot, by what its batch system and the pilot itself say of it (PIL §2.3; DESIGN §3.7)."""

import signal
from dataclasses import dataclass
from datetime import datetime, timedelta

from pilots.domain import PilotStatus

#: A pilot that its CE does not know so long after it was to be submitted never came there.
SUBMITTED_WITHIN = timedelta(minutes=10)
#: One that was to be killed and that its CE no longer knows is taken for gone after so long.
FORGOTTEN_AFTER = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a pilot may take to start, and how long it may then be silent."""

    start: timedelta
    silence: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A pilot that has not ended, as far as the server knows.

    Args:
        sent: by a director, so that it can be asked after.
        accepted: by the batch system, as far as its director could tell.
        gone: the batch system says that it has ended.
        known: the batch system says where it is.
        said: in the batch system's own words, why it waits or how it ended.
        exit_code: of one that is gone; negative for a signal, None when nobody knows.
        banned: its site, CE or queue is.
        drained: it is to get no job.
        revoked_at: since when its token opens nothing.
        why_revoked: who says so.
        last_seen_at: when it last called; None: never.
    """

    status: PilotStatus
    sent: bool
    accepted: bool = False
    gone: bool = False
    known: bool = True
    said: str = ""
    exit_code: int | None = None
    banned: bool = False
    drained: bool = False
    revoked_at: datetime | None = None
    why_revoked: str = ""
    submitted_at: datetime
    started_at: datetime | None = None
    last_seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The status that the pilot has from now on and why.

    Args:
        kill: it is to be ended at its CE too.
        revoke: people do not want it: its token and secret open nothing any more, and its end is no fault of its CE.
    """

    status: PilotStatus
    reason: str
    kill: bool = False
    revoke: bool = False


def fate_of(seen: Seen, *, patience: Patience, watched_since: datetime, now: datetime) -> Fate | None:
    """Return what becomes of a pilot; None: it may go on as it does.

    Args:
        seen: the pilot.
        patience: of the director.
        watched_since: since when there was somebody to hear pilots; silence before that says nothing.
        now: the time.
    """
    if seen.revoked_at is not None:
        return _fate_of_revoked(seen, since=now - seen.revoked_at, patience=patience)
    if seen.gone:
        return _fate_of_gone(seen)
    if seen.started_at is None:
        return _fate_of_unstarted(seen, waited=now - seen.submitted_at, patience=patience) if seen.sent else None
    silent = now - max(seen.last_seen_at or seen.started_at, watched_since)
    if silent <= patience.silence:
        return None
    return Fate(status=PilotStatus.LOST, reason=f"Silent for {_words(silent)}", kill=True)


def _fate_of_revoked(seen: Seen, *, since: timedelta, patience: Patience) -> Fate:
    # It hears of it with its next report; without one, it stops its payloads when their leases are over.
    stops_within = SUBMITTED_WITHIN if seen.started_at is None else patience.silence
    if seen.gone or (not seen.known and since > stops_within):
        return Fate(status=PilotStatus.ABORTED, reason=seen.why_revoked, kill=not seen.gone)
    # Its jobs come back when it is gone; so it must be seen to be. Said again until then.
    return Fate(status=seen.status, reason=seen.why_revoked, kill=True)


def _fate_of_unstarted(seen: Seen, *, waited: timedelta, patience: Patience) -> Fate | None:
    if seen.banned:
        reason = "Its site was banned before it started"
        return Fate(status=PilotStatus.ABORTED, reason=reason, kill=True, revoke=True)
    if seen.drained:
        return Fate(status=PilotStatus.ABORTED, reason="It was drained before it started", kill=True)
    if not seen.accepted and waited > SUBMITTED_WITHIN:
        return Fate(status=PilotStatus.ABORTED, reason="It was submitted, and its CE does not know it")
    if waited > patience.start + FORGOTTEN_AFTER and not seen.known:
        return Fate(status=PilotStatus.ABORTED, reason="Never started, and its CE does not know it any more", kill=True)
    if waited > patience.start:
        why = f"Not started within {_words(patience.start)}"
        # Said again until it is gone: the order to kill may have been lost.
        return Fate(status=PilotStatus.STALLED, reason=f"{why}: {seen.said}" if seen.said else why, kill=True)
    return None


def _fate_of_gone(seen: Seen) -> Fate:
    if seen.exit_code is None and not seen.said:
        return Fate(status=PilotStatus.LOST, reason="Gone, and nobody knows how it ended")
    how = _how_ended(seen.exit_code, said=seen.said)
    if seen.started_at is None:
        return Fate(status=PilotStatus.ABORTED, reason=f"{how} before it had registered")
    return Fate(status=PilotStatus.DONE if seen.exit_code == 0 else PilotStatus.FAILED, reason=how)


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
