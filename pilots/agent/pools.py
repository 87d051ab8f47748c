"""Submit pools of the queue where a pilot happens to run, when nobody knew that before it started (RFC7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pilots.agent import log
from pilots.agent.client import RefusedError
from pilots.agent.clock import monotonic
from pilots.agent.configuration import Place
from pilots.agent.options import Options

#: A list in an offer can only narrow, so an old one would keep the jobs of newer pools away.
ASKED_AGAIN_S = 60.0

UNKNOWN_PLACE = "unknown_place"


class Whereabouts(NamedTuple):
    """Where a pilot runs by its own word."""

    site: str
    ce: str
    queue: str


def whereabouts_of(options: Options, place: Place) -> Whereabouts | None:
    """Return where the pilot says it runs; None: the server knows, or nobody does."""
    if place.queue or not (options.site and options.ce and options.queue):
        return None
    return Whereabouts(options.site, options.ce, options.queue)


class Pools:
    """Asks for the pools now and then."""

    def __init__(self, ask: Callable[[Whereabouts], tuple[str, ...]]) -> None:
        """Ask nothing yet; *ask* is how the server is asked."""
        self._ask = ask
        self._asked_at: float | None = None
        self._pools: tuple[str, ...] = ()

    def at(self, whereabouts: Whereabouts) -> tuple[str, ...]:
        """Return the pools of the place; at one that the server does not know there are none."""
        if self._asked_at is None or monotonic() - self._asked_at > ASKED_AGAIN_S:
            try:
                self._pools = self._ask(whereabouts)
            except RefusedError as error:
                if error.code != UNKNOWN_PLACE:
                    raise
                log.event("pools.unknown_place", detail=error.detail)
                self._pools = ()
            self._asked_at = monotonic()
        return self._pools
