"""Limits of the web server for clients, from the settings."""

from dataclasses import dataclass
from typing import Self

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """Limits of one process of the web server.

    Args:
        body_s: seconds in which a body must arrive, plus the time of its received bytes at ``bytes_per_s``.
        bytes_per_s: least rate of a body after that.
        unknown_bytes: largest body read from an unknown caller.
        incomplete: concurrent incoming bodies of unknown callers.
        of_one_caller: concurrent longer bodies of one caller.
        caller_bytes_per_s: rate of all large bodies of one caller together.
        large_at_once: concurrent requests with a large body in the application.
        streams_at_once: answers that are made while they are sent, at a time.
    """

    body_s: float
    bytes_per_s: int
    unknown_bytes: int
    incomplete: int
    of_one_caller: int
    caller_bytes_per_s: int
    large_at_once: int
    streams_at_once: int

    @classmethod
    def configured(cls) -> Self:
        """Return the limits of the settings."""
        return cls(
            body_s=settings.WMS_WEB_BODY_S,
            bytes_per_s=settings.WMS_WEB_BODY_BYTES_PER_S,
            unknown_bytes=settings.WMS_WEB_UNKNOWN_BODY_BYTES,
            incomplete=settings.WMS_WEB_INCOMPLETE_BODIES,
            of_one_caller=settings.WMS_WEB_LONG_BODIES_OF_ONE_CALLER,
            caller_bytes_per_s=settings.WMS_WEB_CALLER_BYTES_PER_S,
            large_at_once=settings.WMS_WEB_LARGE_BODIES_AT_ONCE,
            streams_at_once=settings.WMS_WEB_STREAMS_AT_ONCE,
        )

    def is_late(self, waited_s: float, *, received_bytes: int) -> bool:
        """Return whether the received bytes are too few for the time."""
        return waited_s > self.body_s + received_bytes / self.bytes_per_s
