"""Rate limits of users: requests per minute, counted in Redis for all web processes together.

While Redis does not answer nothing is limited, and a warning is logged: its failure must not stop the users' work.
"""

import logging
import math
import threading
import time
from enum import StrEnum
from typing import Final

from django.conf import settings
from django.core.cache import caches
from redis.exceptions import RedisError

from wms.kernel.errors import TooManyError

logger = logging.getLogger(__name__)

#: Name of the cache that counts (settings.CACHES).
CACHE: Final = "rates"
WINDOW_S: Final = 60
#: Seconds after a failure during which Redis is not asked: no request waits for another's time-out.
PAUSE_S: Final = 5.0
#: Seconds between two warnings that nothing is limited.
WARNING_EVERY_S: Final = 60.0


class Rate(StrEnum):
    """A counted kind of request; each has a setting, in requests per minute, 0 for no limit."""

    REQUESTS = "requests"
    SUBMISSIONS = "submissions"
    SANDBOXES = "sandboxes"

    @property
    def limit(self) -> int:
        """Requests per minute, from the setting."""
        limit: int = getattr(settings, f"WMS_MAX_{self.name}_PER_MINUTE")
        return limit


class RateExceededError(TooManyError):
    """The user exceeds WMS_MAX_…_PER_MINUTE."""

    code = "rate_exceeded"


def count(rate: Rate, *, user_id: int) -> None:
    """Count one request of the user, across all tokens and sessions.

    Raises:
        RateExceededError: the limit of this minute is exceeded.
    """
    if not rate.limit:
        return
    now = time.time()
    window = int(now // WINDOW_S)
    number = _counters.add_one(f"{rate}:{user_id}:{window}")
    if number is not None and number > rate.limit:
        retry_after_s = math.ceil((window + 1) * WINDOW_S - now)
        raise RateExceededError(
            f"You may send {rate.limit:,} {_IN_WORDS[rate]} in a minute; try again in {retry_after_s} s.",
            retry_after_s=retry_after_s,
        )


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

    def add_one(self, key: str) -> int | None:
        """Return the count of *key*, including this one; None: unknown, Redis does not answer."""
        if time.monotonic() < self._paused_until:
            self._warn("it did not answer a moment ago")
            return None
        cache = caches[CACHE]
        try:
            if cache.add(key, 1, timeout=2 * WINDOW_S):
                return 1
            return cache.incr(key)
        except ValueError:  # the counter expired between the two calls: the window is over
            return 1
        except (RedisError, OSError) as error:
            self._paused_until = time.monotonic() + PAUSE_S
            self._warn(str(error))
            return None

    def _warn(self, reason: str) -> None:
        with self._lock:
            if time.monotonic() - self._warned_at < WARNING_EVERY_S:
                return
            self._warned_at = time.monotonic()
        logger.warning("rates.not_limited: Redis does not answer, so requests of users are not limited: %s", reason)


_counters = _Counters()
