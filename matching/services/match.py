"""The match: a request of a pilot becomes leases on the jobs that fit it best (docs/architecture.md, Matching)."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from random import Random
from time import monotonic
from uuid import UUID

from matching.services import offers
from matching.services.claim import Claimed
from matching.services.empty_answers import EmptyAnswer
from matching.services.offers import OfferRequest, binding_of, of_pilot, with_reported_platform
from matching.services.retry_after import likely_work
from matching.services.search import REFUSALS, PilotRefusedError, QueueSearch, search_in
from pilots.models import Pilot
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from wms.kernel.counters import EMPTY_ANSWERS, INDEX_AGE_SECONDS, MATCH_SECONDS, MATCHES
from wms.kernel.memo import CachedLookups

#: Searches of a request while the configuration changes again and again.
MAX_SEARCHES = 10


def match(
    request: OfferRequest, *, request_id: UUID, pilot_id: int, max_jobs: int, chance: Random
) -> Sequence[Claimed]:
    """Lease up to *max_jobs* waiting jobs that fit best to the pilot; return the leases in the order of the draws.

    Jobs are drawn one after another; each takes its processors, memory, GPUs and disk from the offer. Each lease is
    committed separately. A repeated request of the same pilot gets the same leases, even if this process has died.

    Args:
        request: the offer of the pilot.
        request_id: identifies a repeated request whose answer was lost.
        pilot_id: primary key of the pilot.
        max_jobs: ≥ 1.
        chance: random numbers for all draws.

    Raises:
        PilotRefusedError: the pilot has ended or is revoked.
        PilotDrainedError, BlackHoleError: the pilot, or its host, gets no further jobs.
        ThrottleBusyError: it got no job, and whether there is one could not be decided in time.
        RejectedError, ForbiddenError: the offer names something that does not exist or is not the pilot's (``offers``).
    """
    requested_at = monotonic()
    try:
        binding = binding_of(pilot_id)
    except Pilot.DoesNotExist as error:
        raise PilotRefusedError(REFUSALS["pilot_unknown"]) from error
    request = with_reported_platform(request, pilot_id=pilot_id)
    begin = partial(
        search_in, request=request, binding=binding, pilot_id=pilot_id, request_id=request_id, chance=chance
    )
    leases, search = _leases(begin, up_to=max_jobs, requested_at=requested_at)
    now = monotonic()
    MATCH_SECONDS.observe(now - requested_at)
    if leases:
        MATCHES.inc(len(leases))
        likely_work.note(binding, now=now)
    else:
        EMPTY_ANSWERS.labels(_why_empty(search)).inc()
    return leases


def _leases(
    begin: Callable[..., QueueSearch], *, up_to: int, requested_at: float
) -> tuple[Sequence[Claimed], QueueSearch]:
    """Search in the snapshot at hand, and again in a newer one unless the first result is certain.

    Returns the leases, and the last search.

    Args:
        begin: returns the search in a snapshot, at a time.
        up_to: number of leases.
        requested_at: time of the request, by the monotonic clock.
    """
    snapshot = index.current()
    now = snapshot.now()
    INDEX_AGE_SECONDS.observe(max(0.0, requested_at - snapshot.begun_at))
    leases, search = _search(begin, snapshot, [], now=now, up_to=up_to, leaves_out_full=True)
    snapshot = search.snapshot
    # A job committed before this request is never missed: only a newer snapshot may show that there is none, or an
    # older one since which nothing has changed.
    is_older = snapshot.begun_at < requested_at
    looks_again = not search.is_throttled and (is_older or bool(search.full))
    empty: EmptyAnswer | None = None
    if not (leases or search.full):
        empty = search.empty_answer(unless_changed=looks_again)
        if empty.is_stored and empty.is_current:
            return [], search
        looks_again = not empty.is_current
    if len(leases) < up_to and looks_again:
        newer = index.renewed() if is_older else snapshot
        leases, search = _search(begin, newer, leases, now=now, up_to=up_to, leaves_out_full=False)
        if not leases and (empty is None or empty.is_stored) and search.empty_answer(unless_changed=False).is_stored:
            return [], search
    leases = leases if len(leases) == up_to else search.close()
    return [search.without_published_software(lease) for lease in leases], search


def _search(
    begin: Callable[..., QueueSearch],
    snapshot: Snapshot,
    leases: Sequence[Claimed],
    *,
    now: datetime,
    up_to: int,
    leaves_out_full: bool,
) -> tuple[Sequence[Claimed], QueueSearch]:
    """Search in a snapshot, and in newer ones while claims find that the configuration has changed since.

    Returns the leases, *leases* among them, and the last search.

    Args:
        leaves_out_full: whether limits that were recently found full are assumed to be full.
        begin, up_to: as of ``_leases``.
    """
    for _ in range(MAX_SEARCHES):
        search = begin(snapshot, now=now)
        if leaves_out_full:
            search.leave_out_full()
        leases = search.fill(leases, up_to=up_to)
        if not search.is_outdated:
            break
        snapshot = index.renewed()
    return leases, search


def _why_empty(search: QueueSearch) -> str:
    """Return the first condition that left no task queue.

    "no_jobs": no job waits; "taken": those that fit were taken by others, or could not be claimed.
    """
    if not search.snapshot.has_jobs.any():
        return "no_jobs"
    return next((name for name, queues in search.left.items() if not queues), "taken")


def why_narrowed(request: OfferRequest, *, pilot_id: int) -> str:
    """Return in one sentence how the offer of a pilot is narrowed; empty: not at all.

    The reason is that its queue is unknown, or that the queue's slots are smaller than the offer.
    """
    binding = binding_of(pilot_id)
    snapshot = index.current()
    now, lookups = snapshot.now(), CachedLookups(snapshot.memo)
    if binding.queue_id is not None:
        return offers.why_beyond_slot(request, binding.queue_id, lookups=lookups)
    offer, where = of_pilot(request, binding, now=now, lookups=lookups)
    return offers.why_narrowed(where, offer, now=now)
