"""Rate limits per minute: of users, counted in Redis for all web processes together, and of machines, in each process.

While Redis does not answer no user is limited, and a warning is logged: its failure must not stop the users' work.
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final

from django.conf import settings
from redis import Redis
from redis.exceptions import RedisError

from wms.kernel.clock import current_time
from wms.kernel.errors import RejectedError, TooManyError

logger = logging.getLogger(__name__)

#: The entry of settings.CACHES with the address; not through Django's cache, which sends three commands for a count.
CACHE: Final = "rates"
WINDOW_S: Final = 60
#: Seconds after a failure during which Redis is not asked: no request waits for another's time-out.
PAUSE_S: Final = 5.0
#: Seconds between two warnings that nothing is limited.
WARNING_EVERY_S: Final = 60.0


class Rate(StrEnum):
    """A counted kind of request, or the rows that requests add; each has a setting, per minute, 0 for no limit."""

    REQUESTS = "requests"
    SUBMISSIONS = "submissions"
    SANDBOXES = "sandboxes"
    CHANGES = "changes"

    @property
    def limit(self) -> int:
        """Requests or rows per minute, from the setting."""
        limit: int = getattr(settings, f"WMS_MAX_{self.name}_PER_MINUTE")
        return limit


class RateExceededError(TooManyError):
    """The user exceeds WMS_MAX_…_PER_MINUTE."""

    code = "rate_exceeded"


class TooManyChangesError(RejectedError):
    """The request would change more rows than WMS_MAX_CHANGES_PER_MINUTE; it can never succeed."""

    code = "too_many_changes"


def count(*kinds: Rate, user_id: int) -> None:
    """Count one request of the user, across all tokens and sessions, as each of these kinds.

    Raises:
        RateExceededError: the limit of this minute is exceeded.
    """
    rates = [rate for rate in kinds if rate.limit]
    if not rates:
        return
    now = current_time().timestamp()
    window = int(now // WINDOW_S)
    numbers = _counters.add(1, [f"{rate}:{user_id}:{window}" for rate in rates])
    for rate, number in zip(rates, numbers, strict=False):
        if number > rate.limit:
            retry_after_s = math.ceil((window + 1) * WINDOW_S - now)
            raise RateExceededError(
                f"You may send {rate.limit:,} {_IN_WORDS[rate]} in a minute; try again in {retry_after_s} s.",
                retry_after_s=retry_after_s,
            )


def take_changes(rows: int, *, user_id: int) -> None:
    """Take rows of a request out of what the user may change in this minute; call it before anything is written.

    Args:
        rows: that the request may add.
        user_id: of who sends it.

    Raises:
        TooManyChangesError: more than in any minute.
        RateExceededError: more than is left of this minute; none is taken.
    """
    limit = Rate.CHANGES.limit
    if not limit or not rows:
        return
    if rows > limit:
        raise TooManyChangesError(
            f"You may make {limit:,} changes in a minute, and this request would make {rows:,}; nothing was changed. "
            f"Name at most {limit:,} jobs, or narrow the filter, and change the others in the following minutes."
        )
    now = current_time().timestamp()
    window = int(now // WINDOW_S)
    key = f"{Rate.CHANGES}:{user_id}:{window}"
    for number in _counters.add(rows, [key]):
        if number > limit:
            _counters.add(-rows, [key])
            retry_after_s = math.ceil((window + 1) * WINDOW_S - now)
            left = max(0, limit - (number - rows))
            raise RateExceededError(
                f"You may make {limit:,} changes in a minute; {left:,} are left, and this request would make {rows:,}. "
                f"Nothing was changed; name fewer, or try again in {retry_after_s} s.",
                retry_after_s=retry_after_s,
            )


def count_machine(caller: str) -> None:
    """Count one request of a pilot, job or site in this process: a match would wait for Redis.

    Args:
        caller: name of its principal, such as "pilot 5".

    Raises:
        RateExceededError: WMS_MAX_MACHINE_REQUESTS_PER_MINUTE is exceeded.
    """
    limit = settings.WMS_MAX_MACHINE_REQUESTS_PER_MINUTE
    if limit and _machines.count(caller) > limit:
        raise RateExceededError(
            f"The token of {caller} may send {limit:,} requests in a minute; send fewer, and try again later.",
            retry_after_s=WINDOW_S,
        )


class _Machines:
    """Requests of each machine in the present minute of this process."""

    def __init__(self) -> None:
        self._ends_at = -math.inf
        self._requests: Counter[str] = Counter()

    def count(self, caller: str) -> int:
        """Count a request, and return how many there were; without a lock, for a lost one does not matter."""
        now = time.monotonic()
        if now >= self._ends_at:
            self._ends_at, self._requests = now + WINDOW_S, Counter()
        self._requests[caller] += 1
        return self._requests[caller]


_machines = _Machines()

_IN_WORDS: Final = {
    Rate.REQUESTS: "requests",
    Rate.SUBMISSIONS: "submissions (one may have thousands of jobs)",
    Rate.SANDBOXES: "sandboxes",
}


class _Counters:
    """The counters in Redis, and the pause of this process after a failure."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paused_until = -math.inf
        self._warned_at = -math.inf

    @cached_property
    def _redis(self) -> Redis:
        cache = settings.CACHES[CACHE]
        return Redis.from_url(cache["LOCATION"], **cache["OPTIONS"])

    def add(self, amount: int, keys: Sequence[str]) -> list[int]:
        """Return the count of each key, including *amount*, in one round trip; empty: Redis does not answer."""
        if time.monotonic() < self._paused_until:
            self._warn("it did not answer a moment ago")
            return []
        prefix = settings.CACHES[CACHE]["KEY_PREFIX"]
        try:
            with self._redis.pipeline(transaction=False) as commands:
                for key in keys:
                    commands.incrby(f"{prefix}:{key}", amount)
                    commands.expire(f"{prefix}:{key}", 2 * WINDOW_S)
                return commands.execute()[::2]
        except (RedisError, OSError) as error:
            self._paused_until = time.monotonic() + PAUSE_S
            self._warn(str(error))
            return []

    def _warn(self, reason: str) -> None:
        with self._lock:
            if time.monotonic() - self._warned_at < WARNING_EVERY_S:
                return
            self._warned_at = time.monotonic()
        logger.warning("rates.not_limited: Redis does not answer, so requests of users are not limited: %s", reason)


_counters = _Counters()
