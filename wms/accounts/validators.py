"""Validators of what VOs, and the queues that serve them, may say."""

from django.core.exceptions import ValidationError

from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S


def valid_stall_window(seconds: int) -> None:
    """Refuse a window of the stall rule that would stop payloads which only read their input, and mistakes of units."""
    if seconds and not MIN_STALLED_S <= seconds <= MAX_STALLED_S:
        raise ValidationError(f"Use 0, or {MIN_STALLED_S} to {MAX_STALLED_S} seconds.")
