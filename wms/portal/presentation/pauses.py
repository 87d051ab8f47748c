"""The part of a page by which matching is paused."""

from collections.abc import Sequence
from dataclasses import dataclass

from wms.portal.forms.pauses import PAUSE_DURATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseChoice:
    """The choices to pause matching and to end a pause."""

    #: Such as "lhcb".
    whose: str
    is_paused: bool
    url: str
    #: (Seconds, words).
    durations: Sequence[tuple[str, str]]


def pause_choice(whose: str, *, is_paused: bool, url: str) -> PauseChoice:
    """Return the choices.

    Args:
        whose: name of the VO, or "all VOs".
        is_paused: whether it is paused, by itself and not as one of all.
        url: where the form is sent.
    """
    return PauseChoice(whose=whose, is_paused=is_paused, url=url, durations=PAUSE_DURATIONS)
