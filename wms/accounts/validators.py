"""Validators shared by VOs and the batch queues that serve them."""

from django.core.exceptions import ValidationError

from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S


def valid_stall_window(seconds: int) -> None:
    """Refuse a window of the stall rule so short that it stops payloads reading their input, and mistakes of units."""
    if seconds and not MIN_STALLED_S <= seconds <= MAX_STALLED_S:
        raise ValidationError(f"Use 0, or {MIN_STALLED_S} to {MAX_STALLED_S} seconds.")
