"""For how long ended jobs and pilots are kept (ADR 100)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import RemovalPermit

#: Stands for pilots where the others are final statuses of jobs.
PILOTS: Final = "Pilots"


def ages_days(vo: VO) -> dict[str, int]:
    """Return {final status of jobs, or PILOTS: days from their end for which the VO keeps them; 0: for ever}."""
    return {
        **{status: _age_days(vo, status) for status in sorted(FINAL)},
        PILOTS: int(settings.WMS_KEEP_PILOTS_DAYS),
    }


def _age_days(vo: VO, status: JobStatus) -> int:
    own: int | None = getattr(vo, f"keep_{status.lower()}_days")
    if own is not None:
        return own
    return int(settings.WMS_KEEP_DELETED_JOBS_DAYS if status is JobStatus.DELETED else settings.WMS_KEEP_JOBS_DAYS)


def removed_after_days(permit: RemovalPermit) -> dict[str, int]:
    """Return {final status, or PILOTS: age at which those of the VO are removed}; what is kept for ever is left out.

    So is a status whose age is shorter than the one that an operator has allowed.
    """
    allowed: Mapping[str, int] = permit.permitted_days or {}
    return {kind: days for kind, days in ages_days(permit.vo).items() if 0 < allowed.get(kind, 0) <= days}


def ends_of_keeping(*, now: datetime) -> Mapping[tuple[int, str], datetime]:
    """Return {(VO id, final status, or PILOTS): what ended before this time is to be removed}."""
    return {
        (permit.vo_id, kind): now - timedelta(days=days)
        for permit in RemovalPermit.objects.filter(permitted_days__isnull=False).select_related("vo")
        for kind, days in removed_after_days(permit).items()
    }


def removed_of(vo_id: int) -> dict[JobStatus, int]:
    """Return {final status: age in days at which jobs of a VO are removed}; none where no operator has allowed it."""
    permit = RemovalPermit.objects.filter(vo=vo_id).select_related("vo").first()
    kinds = {} if permit is None else removed_after_days(permit)
    return {status: kinds[status] for status in sorted(FINAL & kinds.keys())}
