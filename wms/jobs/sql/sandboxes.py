"""Use, quota and removal of sandboxes."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from django.db import connection

from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import array_of, transaction_required

#: Bytes that a smaller content counts as: it takes a block of the disk and a row (``stored_bytes.sql`` has it, too).
LEAST_BYTES: Final = 4096

_HOLD_SANDBOXES: Final = "SELECT id FROM jobs_sandbox WHERE id = ANY(%s::bigint[]) ORDER BY id FOR KEY SHARE"

_BYTES_OF_UPLOADS: Final = """
    SELECT coalesce(sum(greatest(sandbox.size_bytes, %s)), 0)
      FROM jobs_sandbox AS sandbox
     WHERE sandbox.digest <> %s
       AND sandbox.id IN (SELECT sandbox_id FROM jobs_sandboxupload WHERE owner_id = %s AND NOT is_output)
"""

_WRONG_STORED_BYTES: Final = """
    SELECT DISTINCT owner_id
      FROM (SELECT owner_id, vo_id, input_bytes, output_bytes FROM jobs_storedbytes
            UNION ALL
            SELECT upload.owner_id, upload.vo_id,
                   CASE WHEN NOT upload.is_output THEN -greatest(sandbox.size_bytes, %(least_bytes)s) ELSE 0 END,
                   CASE WHEN upload.is_output THEN -greatest(sandbox.size_bytes, %(least_bytes)s) ELSE 0 END
              FROM jobs_sandboxupload AS upload JOIN jobs_sandbox AS sandbox ON sandbox.id = upload.sandbox_id
           ) AS difference
     GROUP BY owner_id, vo_id
    HAVING sum(input_bytes) <> 0 OR sum(output_bytes) <> 0
     ORDER BY owner_id
"""

#: Rows locked by a current submission are checked the next time.
_SANDBOXES_TO_CHECK: Final = """
    SELECT id FROM jobs_sandbox WHERE check_use_at <= %s ORDER BY check_use_at LIMIT %s FOR UPDATE SKIP LOCKED
"""

#: A job of an owner without an upload of the content uses the upload of a group mate.
_REMOVE_EXPIRED_UPLOADS: Final = """
    DELETE FROM jobs_sandboxupload AS upload
     WHERE upload.sandbox_id = ANY(%(ids)s::bigint[]) AND upload.uploaded_at < %(before)s
       AND NOT EXISTS (
           SELECT FROM jobs_job AS job
            WHERE job.output_sandbox_id = upload.sandbox_id AND job.owner_id = upload.owner_id
              AND job.status <> %(deleted)s
       )
       AND NOT EXISTS (
           SELECT FROM jobs_inputsandbox AS input JOIN jobs_job AS job ON job.id = input.job_id
            WHERE input.sandbox_id = upload.sandbox_id AND job.status <> %(deleted)s
              AND (
                  job.owner_id = upload.owner_id
                  OR NOT EXISTS (
                      SELECT FROM jobs_sandboxupload AS own
                       WHERE own.sandbox_id = input.sandbox_id AND own.owner_id = job.owner_id
                  )
              )
       )
"""

# Uses index: job_of_output_sandbox
_UNNEEDED_SANDBOXES: Final = """
    SELECT id FROM jobs_sandbox AS sandbox
     WHERE sandbox.id = ANY(%(ids)s::bigint[])
       AND NOT EXISTS (SELECT FROM jobs_sandboxupload AS upload WHERE upload.sandbox_id = sandbox.id)
       AND NOT EXISTS (
           SELECT FROM jobs_job AS job WHERE job.output_sandbox_id = sandbox.id AND job.status <> %(deleted)s
       )
       AND NOT EXISTS (
           SELECT FROM jobs_inputsandbox AS input JOIN jobs_job AS job ON job.id = input.job_id
            WHERE input.sandbox_id = sandbox.id AND job.status <> %(deleted)s
       )
"""

_FORGET_INPUT: Final = "DELETE FROM jobs_inputsandbox WHERE sandbox_id = ANY(%s::bigint[])"

_FORGET_OUTPUT: Final = "UPDATE jobs_job SET output_sandbox_id = NULL WHERE output_sandbox_id = ANY(%s::bigint[])"

_REMOVE_SANDBOXES: Final = "DELETE FROM jobs_sandbox WHERE id = ANY(%s::bigint[]) RETURNING digest"


def held_sandboxes(ids: Iterable[int]) -> frozenset[int]:
    """Return which of the sandboxes exist, and lock them against removal until the end of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLD_SANDBOXES, [array_of(ids)])
        return frozenset(pk for (pk,) in cursor.fetchall())


def bytes_of_uploads(owner_id: int, *, without: str) -> int:
    """Return the bytes of the contents that a user uploaded, each once, without the content of this digest.

    A smaller content counts as LEAST_BYTES; outputs of jobs do not count.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BYTES_OF_UPLOADS, [LEAST_BYTES, without, owner_id])
        (total,) = cursor.fetchone()
    return int(total)


def wrong_stored_bytes() -> list[int]:
    """Return the ids of users whose StoredBytes differ from the sizes of their uploads."""
    with connection.cursor() as cursor:
        cursor.execute(_WRONG_STORED_BYTES, {"least_bytes": LEAST_BYTES})
        return [owner_id for (owner_id,) in cursor.fetchall()]


@transaction_required
def sandboxes_to_check(now: datetime, *, at_most: int) -> list[int]:
    """Return the ids of sandboxes that are due for a check, locked."""
    with connection.cursor() as cursor:
        cursor.execute(_SANDBOXES_TO_CHECK, [now, at_most])
        return [pk for (pk,) in cursor.fetchall()]


@transaction_required
def remove_expired_uploads(ids: Sequence[int], *, before: datetime) -> None:
    """Remove the uploads of these sandboxes from before a time, if only Deleted jobs used them."""
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE_EXPIRED_UPLOADS, {"ids": array_of(ids), "before": before, "deleted": JobStatus.DELETED})


@transaction_required
def remove_unneeded_sandboxes(ids: Sequence[int]) -> list[str]:
    """Remove those of these sandboxes without upload and without a job that is not Deleted; return their digests."""
    with connection.cursor() as cursor:
        cursor.execute(_UNNEEDED_SANDBOXES, {"ids": array_of(ids), "deleted": JobStatus.DELETED})
        unneeded = array_of(pk for (pk,) in cursor.fetchall())
        cursor.execute(_FORGET_INPUT, [unneeded])
        cursor.execute(_FORGET_OUTPUT, [unneeded])
        cursor.execute(_REMOVE_SANDBOXES, [unneeded])
        return [digest for (digest,) in cursor.fetchall()]
