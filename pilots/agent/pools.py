"""Submit pools of the queue where a pilot happens to run, when nobody knew that before it started (RFC7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from pilots.agent import log
from pilots.agent.client import RefusedError
from pilots.agent.clock import monotonic
from pilots.agent.configuration import Place
from pilots.agent.fields import Record
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
        self._asked_at = -math.inf
        self._pools: tuple[str, ...] | None = None

    def at(self, whereabouts: Whereabouts) -> tuple[str, ...] | None:
        """Return the pools of the place; None: the server does not know the place."""
        if monotonic() - self._asked_at > ASKED_AGAIN_S:
            try:
                self._pools = self._ask(whereabouts)
            except RefusedError as error:
                if error.code != UNKNOWN_PLACE:
                    raise
                log.event("pools.unknown_place", detail=error.detail)
                self._pools = None
            self._asked_at = monotonic()
        return self._pools

    def added_to(self, offer: Record, whereabouts: Whereabouts) -> Record:
        """Return the offer with the place and its pools; at an unknown place, jobs without requirements only."""
        pools = self.at(whereabouts)
        if pools is None:
            return {**offer, "submit_pools": []}
        return {**offer, **whereabouts._asdict(), "submit_pools": list(pools)}
