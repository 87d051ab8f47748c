"""What is taken of clients; from the settings."""

from dataclasses import dataclass
from typing import Self

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyLimits:
    """How much, and how long, a process of the web server waits for.

    Args:
        body_s: seconds in which a body must have come, more by how much of it has (``bytes_per_s``).
        bytes_per_s: the least rate at which a body comes after that.
        unknown_bytes: the largest body that is read before its sender is known.
        incomplete: bodies of senders who are not known that may be on their way at once.
        of_one_caller: longer bodies of one caller that may be under way at once.
        caller_bytes_per_s: the rate at which all large bodies of one caller come together.
        large_at_once: requests with a large body that the application answers at once.
    """

    body_s: float
    bytes_per_s: int
    unknown_bytes: int
    incomplete: int
    of_one_caller: int
    caller_bytes_per_s: int
    large_at_once: int

    @classmethod
    def configured(cls) -> Self:
        """Return those that the settings say."""
        return cls(
            body_s=settings.WMS_WEB_BODY_S,
            bytes_per_s=settings.WMS_WEB_BODY_BYTES_PER_S,
            unknown_bytes=settings.WMS_WEB_UNKNOWN_BODY_BYTES,
            incomplete=settings.WMS_WEB_INCOMPLETE_BODIES,
            of_one_caller=settings.WMS_WEB_LONG_BODIES_OF_ONE_CALLER,
            caller_bytes_per_s=settings.WMS_WEB_CALLER_BYTES_PER_S,
            large_at_once=settings.WMS_WEB_LARGE_BODIES_AT_ONCE,
        )

    def is_late(self, waited_s: float, *, received_bytes: int) -> bool:
        """Return whether so much in so long is too little."""
        return waited_s > self.body_s + received_bytes / self.bytes_per_s
