"""The delay and the avoided places of a job that was given back, in words (ADR 33)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from matching.domain.headline import Cause, Ground
from resources.queries.places import place_in_words
from taskqueues.models import QueuedJob
from wms.kernel.names import listed
from wms.kernel.time_texts import to_the_second


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackState:
    """The delay and the avoided places of a queued job at present; empty if it may be matched anywhere."""

    #: The delay until which no pilot gets it; empty: none.
    delays: tuple[Cause, ...] = ()
    #: The avoided places and the time, as a part of a sentence.
    goes_elsewhere: str = ""
    #: Queues that it avoids entirely; if it avoids only a host, the queue still fits.
    queue_ids: frozenset[int] = frozenset()
    until: str = ""

    def causes_at(self, queue_id: int) -> tuple[Cause, ...]:
        """Return why the job goes to other queues before this one; empty: it does not."""
        if queue_id not in self.queue_ids:
            return ()
        return (Cause(Ground.DELAY, f"this queue gave it back; until {self.until} other queues come first"),)


def held_back_of(job_ids: Collection[int], *, now: datetime) -> Mapping[int, HeldBackState]:
    """Return the delay and the avoided places of each of these queued jobs; *now* is by the database's clock."""
    rows = QueuedJob.objects.filter(pk__in=job_ids, is_held_back=True)
    return dict.fromkeys(job_ids, HeldBackState()) | {row.pk: _state_of(row, now=now) for row in rows}


def _state_of(row: QueuedJob, *, now: datetime) -> HeldBackState:
    if row.not_before is None:
        return HeldBackState()
    delays: tuple[Cause, ...] = ()
    if row.not_before > now:
        words = f"it was given back by a pilot, and no pilot gets it before {to_the_second(row.not_before)}"
        delays = (Cause(Ground.DELAY, words),)
    if row.avoided_until is None or row.avoided_until <= now:
        return HeldBackState(delays=delays)
    avoided, until = row.avoided_queue_ids or [], to_the_second(row.avoided_until)
    places = listed([place_in_words(queue_id, host=row.avoided_host) for queue_id in avoided])
    return HeldBackState(
        delays=delays,
        goes_elsewhere=f"until {until} it goes elsewhere than {places} first, which gave it back",
        queue_ids=frozenset(avoided) if row.avoided_host is None else frozenset(),
        until=until,
    )
