"""Incomplete bodies of requests: counting, and dropping the late ones."""

import logging
import threading
from collections import Counter
from time import sleep
from typing import Final

from wms.web.bodies import BodyFailure, IncomingBody
from wms.web.limits import BodyLimits

_logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 0.5
#: Seconds between two log lines, so that a flood of requests does not flood the log.
_SAID_EVERY_S: Final = 10.0


class IncompleteBodies:
    """Incoming bodies: late ones are dropped, and the oldest if there are too many of unknown callers.

    The oldest, not the newest: the body of a pilot arrives within a round trip, so that it is always among the newest,
    and refusing new ones would serve an attacker.
    """

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        #: In the order of their begin.
        self._of_unknown: dict[IncomingBody, None] = {}
        self._of_known: dict[IncomingBody, None] = {}
        self._callers: Counter[str] = Counter()
        self._dropped: Counter[BodyFailure] = Counter()
        self._is_over = False

    def watch(self) -> None:
        """Start the thread that drops late bodies."""
        threading.Thread(target=self._watch, name="bodies", daemon=True).start()

    def add(self, body: IncomingBody, *, caller: str | None = None) -> None:
        """Watch an incoming body; without a caller, one of an unknown caller."""
        oldest = None
        with self._lock:
            if self._is_over:  # its request was accepted just before the server was stopped
                body.drop(BodyFailure.STOPPED)
            if caller is not None:
                self._of_known[body] = None
                return
            self._of_unknown[body] = None
            if len(self._of_unknown) > self._limits.incomplete:
                oldest = next(iter(self._of_unknown))
                del self._of_unknown[oldest]
        if oldest is not None:
            self._drop(oldest, BodyFailure.CROWDED_OUT)

    def remove(self, body: IncomingBody) -> None:
        """Remove a body that is complete or has failed."""
        with self._lock:
            self._of_unknown.pop(body, None)
            self._of_known.pop(body, None)

    def counts(self, caller: str) -> bool:
        """Count one more long request of a caller; return False, without counting, if that exceeds the limit."""
        with self._lock:
            if self._callers[caller] >= self._limits.of_one_caller:
                return False
            self._callers[caller] += 1
            return True

    def under_way(self, caller: str) -> int:
        """Return the number of counted long requests of a caller."""
        return self._callers[caller]

    def forgets(self, caller: str) -> None:
        """Uncount a long request of a caller."""
        with self._lock:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]

    def drop_all(self) -> None:
        """Drop all bodies, and those that come later: the server stops."""
        with self._lock:
            self._is_over = True
        for body in self._all():
            body.drop(BodyFailure.STOPPED)

    def _all(self) -> list[IncomingBody]:
        with self._lock:
            return [*self._of_unknown, *self._of_known]

    def _drop(self, body: IncomingBody, flaw: BodyFailure) -> None:
        body.drop(flaw)
        self._dropped[flaw] += 1

    def _watch(self) -> None:
        silent_s = _SAID_EVERY_S
        while True:
            sleep(_LOOK_EVERY_S)
            for body in self._all():
                if body.is_late(self._limits):
                    self._drop(body, BodyFailure.LATE)
            silent_s += _LOOK_EVERY_S
            if self._dropped and silent_s >= _SAID_EVERY_S:
                silent_s = 0.0
                dropped, self._dropped = self._dropped, Counter()
                counts = ", ".join(f"{count} {flaw.value}" for flaw, count in dropped.items())
                _logger.warning("Bodies of requests were dropped: %s.", counts)
