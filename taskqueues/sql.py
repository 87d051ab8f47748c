"""The statements that the ORM cannot say."""

from collections.abc import Collection

from django.db import connection

from wms.kernel.db import transaction_required

#: Django's select_for_update knows no FOR KEY SHARE, the one lock that keeps a queue from being removed but lets any
#: number of submissions put jobs into it side by side.
_KEEP_QUEUES = """
SELECT signature, id
  FROM taskqueues_taskqueue
 WHERE signature = ANY(%s)
 ORDER BY id
   FOR KEY SHARE
"""


@transaction_required
def keep_queues(signatures: Collection[bytes]) -> dict[bytes, int]:
    """Return {signature: id} of those queues that exist, none of which can be removed in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_QUEUES, [list(signatures)])
        return {bytes(signature): pk for signature, pk in cursor.fetchall()}


_KEEP_POOL = """
SELECT id FROM taskqueues_submitpool WHERE id = %s FOR KEY SHARE
"""


@transaction_required
def keep_pool(pool_id: str) -> bool:
    """Return whether the submit pool exists, which then cannot be removed in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(_KEEP_POOL, [pool_id])
        return cursor.fetchone() is not None
