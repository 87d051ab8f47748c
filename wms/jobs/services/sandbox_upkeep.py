"""The quotas of sandboxes and outputs, and the removal of unused sandboxes.

A sandbox is used while a job that is not Deleted names it, as input or as output, and for WMS_SANDBOX_GRACE_S after
each upload. An upload, which lets its owner name the content and counts in the owner's quota, lasts while jobs of that
owner need it, or jobs of group mates who named it by this upload.
"""

import logging
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from wms.jobs.models import Sandbox, SandboxUpload
from wms.jobs.queries.amounts import stored_by, stored_in
from wms.jobs.services import sandbox_files
from wms.jobs.sql.sandboxes import (
    LEAST_BYTES,
    bytes_of_uploads,
    remove_expired_uploads,
    remove_unneeded_sandboxes,
    sandboxes_to_check,
)
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import ConflictError

logger = logging.getLogger(__name__)

#: How many times the quota of a user's sandboxes they may take if each content is counted under all its names.
_NAMES: Final = 10
#: Sandboxes checked in one transaction.
CHECKED_AT_ONCE: Final = 500
#: Transactions of one run; the next run continues.
PAGES_OF_RUN: Final = 40


class SandboxQuotaError(ConflictError):
    """With this content the sandboxes of the user, or of the VO, would exceed the quota."""

    code = "sandbox_quota_exceeded"


def grace() -> timedelta:
    """Return for how long after its upload an unused sandbox is kept."""
    return timedelta(seconds=settings.WMS_SANDBOX_GRACE_S)


@transaction_required
def refuse_beyond_quota(new: SandboxUpload, *, size_bytes: int, digest: str) -> None:
    """Refuse an upload beyond a quota; other uploads of its owner wait until the end of the transaction.

    A repeated upload adds nothing. An uploaded content counts once in the quota of its owner, whatever the number of
    its names, which all together may take ten times the quota; an output counts for its job. Both count in their VO,
    where uploads of several users at the same moment may exceed the quota by one each.

    Args:
        new: the upload, without its sandbox.
        size_bytes: of the content.
        digest: of the content.

    Raises:
        SandboxQuotaError: it would exceed the quota of its owner, or of its VO.
    """
    lock(LockKey.SANDBOX_QUOTA, of=new.owner_id)
    if SandboxUpload.objects.filter(owner=new.owner_id, sandbox__digest=digest, file_name=new.file_name).exists():
        return
    coming = max(size_bytes, LEAST_BYTES)
    if new.is_output:
        stored, quota = stored_by(owner=new.owner_id).outputs, settings.WMS_OUTPUT_QUOTA_BYTES
        whose = f"Outputs of jobs of {new.owner}"
    else:
        stored = bytes_of_uploads(new.owner_id, without=digest)
        quota, whose = settings.WMS_SANDBOX_QUOTA_BYTES, "Your sandboxes"
        # Further names of a content take no room, but count in the VO: one user could fill its quota.
        under_all_names = stored_by(owner=new.owner_id).inputs
        _refuse(f"{whose}, counted under each name,", under_all_names, coming=coming, quota=_NAMES * quota)
    _refuse(whose, stored, coming=coming, quota=quota)
    if new.vo_id is not None and settings.WMS_VO_QUOTA_BYTES:
        whose = f"Sandboxes and outputs of the VO {new.vo}"
        _refuse(whose, stored_in(vo=new.vo_id).both, coming=coming, quota=settings.WMS_VO_QUOTA_BYTES)


def _refuse(whose: str, stored: int, *, coming: int, quota: int) -> None:
    if 0 < quota < stored + coming:
        sentence = (
            f"{whose} take {stored:,} bytes on the server, and with this file they would take more than {quota:,}. "
            "Delete jobs that you no longer need: sandboxes that no other job names are removed within "
            f"{2 * settings.WMS_SANDBOX_GRACE_S / 3600:g} hours. Large files belong on a storage element."
        )
        raise SandboxQuotaError(sentence, errors={"file": [sentence]})


def remove_unused(*, now: datetime) -> int:
    """Remove unused sandboxes among those due for a check; return how many.

    A simultaneous submission that names one either keeps it or is refused.
    """
    removed = 0
    for _ in range(PAGES_OF_RUN):
        checked, digests = _remove_page(now=now)
        for digest in digests:
            sandbox_files.discard_unless_known(digest)
        removed += len(digests)
        if checked < CHECKED_AT_ONCE:
            break
    sandbox_files.remove_unfinished(before=now - grace())
    if removed:
        logger.info("sandboxes.removed", extra={"removed": removed})
    return removed


@transaction.atomic(durable=True)
def _remove_page(*, now: datetime) -> tuple[int, list[str]]:
    """Return the number of checked sandboxes, and the digests of the removed ones."""
    ids = sandboxes_to_check(now, at_most=CHECKED_AT_ONCE)
    # As separate statements: they see jobs committed while the rows were being locked.
    remove_expired_uploads(ids, before=now - grace())
    digests = remove_unneeded_sandboxes(ids)
    Sandbox.objects.filter(pk__among=ids).update(check_use_at=now + grace())
    return len(ids), digests
