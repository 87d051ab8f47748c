"""SQL statements that the ORM cannot express."""

import json
from collections.abc import Iterable, Mapping

from django.db import connection

from pilots.domain.pilot import PilotStatus
from wms.kernel.db import transaction_required

#: One statement with one parameter for all pilots of a cycle, which may be thousands: the ORM binds each value of each
#: row, which took longer than planning them.
_INSERT_PILOTS = """
INSERT INTO pilots_pilot (
       vo_id, group_id, owner_id, queue_id, setup, stamp, slot, submitted_at, status, batch_id, status_reason,
       host_name, node, drain_reason)
SELECT vo_id, group_id, owner_id, queue_id, setup, stamp, slot, submitted_at, %s, '', '', '', '{}', ''
  FROM json_populate_recordset(NULL::pilots_pilot, %s)
RETURNING id, stamp
"""
_INSERT_SECRETS = """
INSERT INTO pilots_pilotsecret (pilot_id, digest, expires_at)
SELECT pilot_id, digest, expires_at FROM json_populate_recordset(NULL::pilots_pilotsecret, %s)
"""
#: The lock lets nobody delete a CE before the transaction ends.
_STORE_DECISIONS = """
INSERT INTO pilots_directordecision AS stored (ce_id, decided_at, queues)
SELECT decision.ce_id, decision.decided_at, decision.queues
  FROM json_populate_recordset(NULL::pilots_directordecision, %s) AS decision
  JOIN resources_computingelement AS ce ON ce.id = decision.ce_id
 ORDER BY decision.ce_id
   FOR KEY SHARE OF ce
    ON CONFLICT (ce_id) DO UPDATE SET decided_at = excluded.decided_at, queues = excluded.queues
 WHERE stored.queues <> excluded.queues
"""


@transaction_required
def insert_pilots(rows: Iterable[Mapping[str, object]]) -> Mapping[str, int]:
    """Insert pilots to be submitted, each as {column: JSON value}; return {stamp: primary key}."""
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_PILOTS, [PilotStatus.SUBMITTED, json.dumps(list(rows))])
        return {stamp: pk for pk, stamp in cursor.fetchall()}


@transaction_required
def insert_secrets(digests: Mapping[int, bytes], *, expires_at: str) -> None:
    """Insert the secrets of pilots, given as {pilot's primary key: SHA-256 digest}."""
    rows = [
        {"pilot_id": pk, "digest": f"\\x{digest.hex()}", "expires_at": expires_at} for pk, digest in digests.items()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT_SECRETS, [json.dumps(rows)])


@transaction_required
def store_decisions(rows: Iterable[Mapping[str, object]]) -> None:
    """Store decisions about computing elements, each as {column: JSON value}; equal ones stay as they are stored."""
    with connection.cursor() as cursor:
        cursor.execute(_STORE_DECISIONS, [json.dumps(list(rows))])
