"""How often a user may ask: counted by the minute in Redis, for all web processes together.

Where Redis does not answer nothing is limited, and the log says so: a dead Redis must not stop anybody's work.
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

#: The cache of the settings that counts.
CACHE: Final = "rates"
WINDOW_S: Final = 60
#: For so long after a failure Redis is not asked: no request waits for the time-out of another.
PAUSE_S: Final = 5.0
#: The log says at most so often that nothing is limited.
WARNING_EVERY_S: Final = 60.0


class Rate(StrEnum):
    """What is counted; each has its own setting, in requests per minute, 0 for any number."""

    REQUESTS = "requests"
    SUBMISSIONS = "submissions"
    SANDBOXES = "sandboxes"

    @property
    def limit(self) -> int:
        """The setting."""
        limit: int = getattr(settings, f"WMS_MAX_{self.name}_PER_MINUTE")
        return limit


class RateExceededError(TooManyError):
    """The user asks more often than WMS_MAX_…_PER_MINUTE allows."""

    code = "rate_exceeded"


def count(rate: Rate, *, user_id: int) -> None:
    """Count one request of the user, with whichever token or session it comes.

    Raises:
        RateExceededError: it is one more than the limit within this minute.
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
    """The counters in Redis, and for how long this process leaves it alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paused_until = -math.inf
        self._warned_at = -math.inf

    def add_one(self, key: str) -> int | None:
        """Return how often *key* was counted, this time included; None: nobody knows."""
        if time.monotonic() < self._paused_until:
            self._warn("it did not answer a moment ago")
            return None
        cache = caches[CACHE]
        try:
            if cache.add(key, 1, timeout=2 * WINDOW_S):
                return 1
            return cache.incr(key)
        except ValueError:  # between the two it went: the window is over
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
        logger.warning("rates.not_limited: Redis does not answer, so users may ask as often as they like: %s", reason)


_counters = _Counters()
