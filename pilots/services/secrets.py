"""Single-use secrets: what a director hands over to a pilot, to be exchanged for the pilot's token (DESIGN §3.7).

Made of the pilot's row and the server's secret key, so that none has to be kept, or to pass the broker, between the
decision to send a pilot and its submission, and so that a submission whose answer was lost can be repeated.
"""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.crypto import salted_hmac

from pilots import sql
from pilots.domain.pilot import PILOT_SECRET_PREFIX, SecretCredential
from pilots.models import Pilot, PilotSecret
from wms.accounts.domain import digest_of
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError


class SecretUsedError(ConflictError):
    """The secret has opened its one registration already; whoever comes second is not let in."""

    code = "secret_used"


def secret_of(pilot: Pilot) -> str:
    """Return the secret of a pilot; it opens nothing unless it was issued."""
    made = salted_hmac("pilots.secret", f"{pilot.pk}:{pilot.stamp}", algorithm="sha256").digest()
    return PILOT_SECRET_PREFIX + urlsafe_b64encode(made).decode().rstrip("=")


@transaction_required
def issue_secrets(pilots: Sequence[Pilot], *, now: datetime) -> None:
    """Let the secrets of new pilots open a registration each; only their SHA-256 is stored."""
    expires_at = now + timedelta(seconds=settings.WMS_PILOT_SECRET_S)
    digests = {pilot.pk: digest_of(secret_of(pilot)) for pilot in pilots}
    sql.insert_secrets(digests, expires_at=expires_at.isoformat())


def secret_credential(secret: str, *, now: datetime) -> SecretCredential | None:
    """Return what *secret* opens; None: it was not made here, or has expired.

    Whether it was used already is seen where it is used.
    """
    row = PilotSecret.objects.filter(digest=digest_of(secret), expires_at__gt=now).first()
    return None if row is None else SecretCredential(pilot_id=row.pilot_id)


@transaction_required
def use_secret(pilot_id: int, *, now: datetime) -> None:
    """Use the pilot's secret up; what else happens in the transaction decides whether that is so.

    Raises:
        SecretUsedError: it was used before.
    """
    if not PilotSecret.objects.filter(pilot=pilot_id, used_at__isnull=True).update(used_at=now):
        raise SecretUsedError("This secret was used already; a pilot registers once.")
