"""Single-use secrets: what a director hands over to a pilot, to be exchanged for the pilot's token (DESIGN §3.7)."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings

from pilots.domain import PILOT_SECRET_PREFIX, SecretCredential
from pilots.models import Pilot, PilotSecret
from wms.accounts.domain import digest_of
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError


class SecretUsedError(ConflictError):
    """The secret has opened its one registration already; whoever comes second is not let in."""

    code = "secret_used"


@transaction_required
def issue_secrets(pilots: Sequence[Pilot], *, now: datetime) -> Mapping[int, str]:
    """Return {pilot id: its new secret}; they are shown this once."""
    made = {pilot.pk: PILOT_SECRET_PREFIX + secrets.token_urlsafe(32) for pilot in pilots}
    expires_at = now + timedelta(seconds=settings.WMS_PILOT_SECRET_S)
    PilotSecret.objects.bulk_create(
        PilotSecret(pilot_id=pilot_id, digest=digest_of(secret), expires_at=expires_at)
        for pilot_id, secret in made.items()
    )
    return made


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
