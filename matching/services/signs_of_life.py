"""The greatest age of the stored time of a pilot's last request: storing each would rewrite the pilot's wide row."""

from typing import Final

from django.conf import settings

#: Seconds after which ordinary requests store the time of the pilot's last one …
SEEN_WITHIN_S: Final = 120.0
#: … or this fraction of the silence after which the pilot is lost, if that is less.
PART_OF_SILENCE: Final = 0.1


def seen_within_s() -> float:
    """Return the age in seconds from which on the time of a pilot's last request is stored again."""
    lost_s: float = settings.WMS_PILOT_LOST_S
    return min(SEEN_WITHIN_S, PART_OF_SILENCE * lost_s)
