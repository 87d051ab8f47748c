"""Submit pools of the batch queue of a pilot whose place the server does not know (RFC7)."""

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
from wms.wire.protocol import UNKNOWN_PLACE

#: Seconds for which the list of pools is reused: jobs of pools created meanwhile cannot come.
REFRESH_S = 60.0


class PlaceNames(NamedTuple):
    """The place of a pilot by its command line; empty: not given."""

    site: str
    ce: str
    queue: str

    def as_record(self) -> Record:
        """Return the names that are not empty, as fields of an offer."""
        return {level: name for level, name in self._asdict().items() if name}


def configured_place(options: Options, place: Place) -> PlaceNames | None:
    """Return the place from the command line; None: the server knows the queue, or no option is given."""
    names = PlaceNames(options.site, options.ce, options.queue)
    return None if place.queue or not any(names) else names


def contradiction(options: Options, place: Place) -> str:
    """Return a sentence if the command line contradicts the server on the pilot's place; else empty."""
    for level in ("site", "ce", "queue"):
        option, registered = getattr(options, level), getattr(place, level)
        if option and registered and option != registered:
            return f"--{level} {option} was given, but the token is of a pilot at {level} {registered}"
    return ""


class SubmitPools:
    """The submit pools of the pilot's queue, fetched again after REFRESH_S."""

    def __init__(self, fetch: Callable[[PlaceNames], tuple[str, ...]]) -> None:
        """Fetch nothing yet; *fetch* returns the pools from the server."""
        self._fetch = fetch
        self._fetched_at = -math.inf
        self._pools: tuple[str, ...] | None = None

    def at(self, place: PlaceNames) -> tuple[str, ...] | None:
        """Return the pools of the place; None: the server does not know the place."""
        if monotonic() - self._fetched_at > REFRESH_S:
            try:
                self._pools = self._fetch(place)
            except RefusedError as error:
                if error.code != UNKNOWN_PLACE:
                    raise
                log.event("pools.unknown_place", detail=error.detail)
                self._pools = None
            self._fetched_at = monotonic()
        return self._pools

    def add_to(self, offer: Record, place: PlaceNames) -> Record:
        """Return the offer with the place, and with its pools if it is one queue.

        A queue unknown to the server is left out: only jobs without requirements can come, as far as the CE and site
        accept them.
        """
        if not all(place):
            return {**offer, **place.as_record()}
        pools = self.at(place)
        if pools is None:
            return {**offer, **place._replace(queue="").as_record(), "submit_pools": []}
        return {**offer, **place.as_record(), "submit_pools": list(pools)}
