"""Submit pools of the queue where a pilot happens to run, when nobody knew that before it started (RFC7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.pilot.options import Options
from pilots.agent.server.configuration import Place
from pilots.agent.server.http import RefusedError
from pilots.agent.server.json_fields import Record

#: A list in an offer can only narrow, so an old one would keep the jobs of newer pools away.
ASKED_AGAIN_S = 60.0

UNKNOWN_PLACE = "unknown_place"


class PlaceNames(NamedTuple):
    """Where a pilot runs by its own word; an empty name: it was not told."""

    site: str
    ce: str
    queue: str

    def as_record(self) -> Record:
        """Return the names that were told, as an offer has them."""
        return {level: name for level, name in self._asdict().items() if name}


def whereabouts_of(options: Options, place: Place) -> PlaceNames | None:
    """Return where the pilot was told that it runs; None: the server knows, or nobody does."""
    told = PlaceNames(options.site, options.ce, options.queue)
    return None if place.queue or not any(told) else told


def contradiction(options: Options, place: Place) -> str:
    """Return in one sentence how the command line contradicts the server on the pilot's place; empty: it does not."""
    for level in ("site", "ce", "queue"):
        told, known = getattr(options, level), getattr(place, level)
        if told and known and told != known:
            return f"--{level} {told} was given, but the token is of a pilot at {level} {known}"
    return ""


class SubmitPools:
    """Asks for the pools now and then."""

    def __init__(self, ask: Callable[[PlaceNames], tuple[str, ...]]) -> None:
        """Ask nothing yet; *ask* is how the server is asked."""
        self._ask = ask
        self._asked_at = -math.inf
        self._pools: tuple[str, ...] | None = None

    def at(self, whereabouts: PlaceNames) -> tuple[str, ...] | None:
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

    def added_to(self, offer: Record, whereabouts: PlaceNames) -> Record:
        """Return the offer with the place, and with its pools if it is one queue.

        A queue that the server does not know is left out: jobs without requirements may come, as far as its CE and
        site take them.
        """
        if not all(whereabouts):
            return {**offer, **whereabouts.as_record()}
        pools = self.at(whereabouts)
        if pools is None:
            return {**offer, **whereabouts._replace(queue="").as_record(), "submit_pools": []}
        return {**offer, **whereabouts.as_record(), "submit_pools": list(pools)}
