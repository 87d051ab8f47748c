"""Columns of the stall rule for payloads, of VOs and batch queues (ADR 36)."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S


def valid_stall_window(seconds: int) -> None:
    """Refuse a window of the stall rule so short that it stops payloads reading their input, and mistakes of units."""
    if seconds and not MIN_STALLED_S <= seconds <= MAX_STALLED_S:
        raise ValidationError(f"Use 0, or {MIN_STALLED_S} to {MAX_STALLED_S} seconds.")


def stall_window(verbose_name: str, *, help_text: str) -> "models.PositiveIntegerField[int | None, int | None]":
    """Return the column of a window of the stall rule, in seconds: empty, 0, or MIN_STALLED_S to MAX_STALLED_S."""
    return models.PositiveIntegerField(
        verbose_name, null=True, blank=True, validators=[valid_stall_window], help_text=help_text
    )


def stalled_cpu_fraction(*, help_text: str) -> "models.FloatField[float | None, float | None]":
    """Return the column of the fraction of one core, 0 to 1, below which a payload is stalled; it may be empty."""
    return models.FloatField(
        "stalled below, CPU fraction",
        null=True,
        blank=True,
        validators=[MinValueValidator(0.0), MaxValueValidator(1.0)],
        help_text=help_text,
    )
