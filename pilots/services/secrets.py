"""Single-use secrets: a director gives one to each pilot, which exchanges it for its token.

A secret is derived from the pilot's row and the server's secret key. So it need not be stored or pass the broker
between planning and submission, and a submission whose reply was lost can be repeated.
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
    """The secret was used for a registration already."""

    code = "secret_used"


def secret_of(pilot: Pilot) -> str:
    """Return the secret of a pilot; valid only once it was issued."""
    digest = salted_hmac("pilots.secret", f"{pilot.pk}:{pilot.stamp}", algorithm="sha256").digest()
    return PILOT_SECRET_PREFIX + urlsafe_b64encode(digest).decode().rstrip("=")


@transaction_required
def issue_secrets(pilots: Sequence[Pilot], *, now: datetime) -> None:
    """Make the secrets of new pilots valid for one registration each; only their SHA-256 is stored."""
    expires_at = now + timedelta(seconds=settings.WMS_PILOT_SECRET_S)
    digests = {pilot.pk: digest_of(secret_of(pilot)) for pilot in pilots}
    sql.insert_secrets(digests, expires_at=expires_at.isoformat())


def secret_credential(secret: str, *, now: datetime) -> SecretCredential | None:
    """Return the credential of *secret*; None: unknown or expired.

    ``use_secret`` checks whether it was used already.
    """
    row = PilotSecret.objects.filter(digest=digest_of(secret), expires_at__gt=now).first()
    return None if row is None else SecretCredential(pilot_id=row.pilot_id)


@transaction_required
def use_secret(pilot_id: int, *, now: datetime) -> None:
    """Mark the pilot's secret as used; a rollback of the transaction leaves it unused.

    Raises:
        SecretUsedError: it was used before.
    """
    if not PilotSecret.objects.filter(pilot=pilot_id, used_at__isnull=True).update(used_at=now):
        raise SecretUsedError("This secret was used already; a pilot registers once.")
