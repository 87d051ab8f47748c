"""Permissions to remove ended jobs: an operator gives one for a VO, having seen what would be removed (ADR 100)."""

import logging
from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from matching.queries.retention import Due, due
from wms.accounts.models import VO, User
from wms.jobs.models import RemovalPermit, RemovalSweep
from wms.jobs.queries.retention import ages_days
from wms.kernel.errors import ConflictError, ForbiddenError

logger = logging.getLogger(__name__)


def look(vo: VO, *, now: datetime) -> Sequence[Due]:
    """Return what would be removed of a VO, allowed or not, and note that its present ages were seen."""
    found = due(vo, now=now)
    RemovalPermit.objects.update_or_create(vo=vo, defaults={"seen_at": now, "seen_days": ages_days(vo)})
    return found


@transaction.atomic(durable=True)
def permit(vo: VO, *, by: User, now: datetime) -> None:
    """Allow that ended jobs of a VO are removed at its present ages.

    Raises:
        ForbiddenError: *by* is no operator.
        ConflictError: nobody has looked since the ages were changed.
    """
    if not by.is_operator:
        raise ForbiddenError(f"{by.username} is not an operator; only operators allow the removal of jobs.")
    ages = ages_days(vo)
    seen = RemovalPermit.objects.filter(vo=vo, seen_days=ages)
    if not seen.update(permitted_at=now, permitted_by=by.username, permitted_days=ages):
        raise ConflictError(
            f"Nobody has looked at what would be removed at the present ages; run wms-server retention --vo {vo} first."
        )
    # The next run begins, or continues, a sweep.
    RemovalSweep.objects.update(rests_until=None)
    logger.warning("removal.permitted", extra={"vo": vo.name, "by": by.username, "ages_days": ages})


def withdraw(vo: VO) -> None:
    """Remove no more jobs of a VO."""
    RemovalPermit.objects.filter(vo=vo).update(permitted_at=None, permitted_by="", permitted_days=None)
    logger.warning("removal.stopped", extra={"vo": vo.name})
