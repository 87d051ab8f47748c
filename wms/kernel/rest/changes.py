"""Inputs that all changes of the configuration over REST share: trying, confirming, and the end of a state."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, cast

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import transaction
from rest_framework import serializers

from wms.kernel.clock import current_time
from wms.kernel.filters import ZonedTimeField
from wms.kernel.rest.fields import Flag, ReasonText, Text, WholeNumber
from wms.kernel.rest.serializers import StrictSerializer

#: Longest duration of a state, ten years in seconds: more is a mistake of units, or of the year.
MOST_S: Final = 10 * 366 * 86_400
#: Sentences that one request confirms: a change has few consequences.
_MOST_CONFIRMED: Final = 20


class ZonedTime(serializers.DateTimeField):
    """A time in RFC 3339, with its zone."""

    def to_internal_value(self, data: object) -> datetime:
        """Return the time, in UTC."""
        try:
            moment = ZonedTimeField().clean(data)
        except DjangoValidationError as error:
            raise serializers.ValidationError(error.messages) from error
        return cast("datetime", moment)  # the form field is required


class ChangeIn(StrictSerializer):
    """A change of the configuration."""

    dry_run = Flag(default=False, help_text="Check and answer as for a change, and change nothing.")


@contextmanager
def transaction_of(values: Mapping[str, Any]) -> Iterator[None]:
    """Carry out the change within in a transaction of its own, which a dry run rolls back.

    Args:
        values: validated ones of a ChangeIn or a DeletionIn.
    """
    with transaction.atomic(durable=True):
        yield
        transaction.set_rollback(values["dry_run"])


class ExplainedIn(ChangeIn):
    """A change of the configuration with a reason, which the history keeps."""

    reason = ReasonText(max_length=255, default="", allow_blank=True, help_text="Reason, which the history keeps.")


class DeletionIn(StrictSerializer):
    """Parameters of the query of a deletion."""

    dry_run = serializers.BooleanField(
        default=False, help_text="Check and answer as for a deletion, and change nothing."
    )


class ConfirmedIn(ExplainedIn):
    """A change that may stop jobs."""

    confirmed = serializers.ListField(
        child=Text(max_length=500),
        max_length=_MOST_CONFIRMED,
        default=list,
        help_text="Sentences of a refusal `confirmation_needed` (`errors.confirmed`) that are meant.",
    )


class EndIn(StrictSerializer):
    """The end of a state: a time, or a duration from now."""

    until = ZonedTime(required=False, help_text="Time of its end, in RFC 3339 with a zone.")
    for_s = WholeNumber(min_value=1, max_value=MOST_S, required=False, help_text="Instead: seconds from now.")

    def validate_until(self, until: datetime) -> datetime:
        """Refuse an end that is further away than any duration."""
        if until - current_time() > timedelta(seconds=MOST_S):
            raise serializers.ValidationError(["This is more than ten years from now; give an earlier time."])
        return until

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Refuse two ends."""
        if "until" in values and "for_s" in values:
            raise serializers.ValidationError({"for_s": ["Give `until` or `for_s`, not both."]})
        return values


def end_in(values: Mapping[str, object], *, now: datetime) -> datetime | None:
    """Return the end that the validated values of an EndIn name; None: none."""
    until, for_s = values.get("until"), values.get("for_s")
    if isinstance(for_s, int):
        return now + timedelta(seconds=for_s)
    return until if isinstance(until, datetime) else None
