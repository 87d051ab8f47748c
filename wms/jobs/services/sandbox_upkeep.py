"""How much of sandboxes a user may have stored, and the removal of those that nothing needs any more.

A sandbox is needed while a job names it that is not Deleted, as input or as output, and for WMS_SANDBOX_GRACE_S after
each upload. An upload, by which its owner may name the content and in whose quota it counts, lasts no longer than jobs
of that owner need it, or of mates who named it by this upload.
"""

import logging
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import transaction

from wms.accounts.models import User
from wms.jobs import sql
from wms.jobs.models import Sandbox
from wms.jobs.services import sandbox_files
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import ConflictError

logger = logging.getLogger(__name__)

#: Each takes at least a block of the disk, and a row.
LEAST_BYTES: Final = 4096
#: Sandboxes of one transaction.
CHECKED_AT_ONCE: Final = 500
#: Transactions of one run; the next one goes on after them.
PAGES_OF_RUN: Final = 40


class SandboxQuotaError(ConflictError):
    """With this content the user would have stored more than the quota allows."""

    code = "sandbox_quota_exceeded"


def grace() -> timedelta:
    """Return how long after its upload a sandbox is kept that no job names."""
    return timedelta(seconds=settings.WMS_SANDBOX_GRACE_S)


@transaction_required
def refuse_beyond_quota(new: Sandbox, *, owner: User) -> None:
    """Return if *owner* may store the content; other uploads of the owner wait until the end of the transaction.

    A content counts once for each owner, however often and under however many names it was uploaded.

    Raises:
        SandboxQuotaError: it would be too much.
    """
    lock(LockKey.SANDBOX_QUOTA, of=owner.pk)
    stored_bytes = sql.bytes_of_uploads(owner.pk, without=new.digest, least_bytes=LEAST_BYTES)
    quota_bytes = settings.WMS_SANDBOX_QUOTA_BYTES
    if stored_bytes + max(new.size_bytes, LEAST_BYTES) > quota_bytes:
        sentence = (
            f"Your sandboxes take {stored_bytes:,} bytes on the server, and with this file they would take more than "
            f"{quota_bytes:,}. Delete jobs that you no longer need: sandboxes that no other job names are removed "
            f"within {2 * settings.WMS_SANDBOX_GRACE_S / 3600:g} hours. Large files belong on a storage element."
        )
        raise SandboxQuotaError(sentence, errors={"file": [sentence]})


def remove_unused(*, now: datetime) -> int:
    """Remove the sandboxes, due to be looked at, that nothing needs; return how many.

    A submission that names one at the same time either keeps it or is refused.
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
    """Return how many sandboxes were looked at, and the digests of those that were removed."""
    ids = sql.sandboxes_to_check(now, at_most=CHECKED_AT_ONCE)
    # In statements of their own: they see the jobs that came while the rows were being locked.
    sql.remove_expired_uploads(ids, before=now - grace())
    digests = sql.remove_unneeded_sandboxes(ids)
    Sandbox.objects.filter(pk__among=ids).update(check_use_at=now + grace())
    return len(ids), digests
