"""Install the database's functions, whose text is ``matching/sql/*.sql`` (ADR 50).

To change a function:

1. Edit its text. Name functions that the text has no longer in ``_DROP``.
2. Write a migration that depends on the newest one of each app whose tables the functions read, with the operation
   ``InstallFunctions(digest=...)``; ``tests/database/matching/test_functions.py`` says the digest.
3. Take this operation out of the migration that had it until then: its text is gone.

Comments may be changed without a migration.
"""

import re
from hashlib import sha256
from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"
_FILES = ("limits.sql", "places.sql", "claim.sql", "attempts.sql", "reports.sql")
_DROP = """
    DROP TYPE IF EXISTS wms_claimed, wms_room CASCADE;
    DROP FUNCTION IF EXISTS wms_possible_places, wms_why_not_at_unknown_place CASCADE;
    DROP FUNCTION IF EXISTS wms_input_sandboxes, wms_lock_pilot, wms_why_throttled, wms_limits_of, wms_held_jobs,
        wms_share_of_slot, wms_delay_is_over, wms_sum_up_limit, wms_job_leaves_limits, wms_limit_changes,
        wms_stop_counting, wms_counters_go, wms_heartbeat, wms_free_from, wms_avoided_places,
        wms_is_avoided, wms_asked_by, wms_required_by, wms_held_back_jobs, wms_lock_held_back_job, wms_held_back_until,
        wms_ordered_uuid, wms_reported_lease, wms_attempt, wms_move_leased_job,
        wms_renewed_until, wms_end_lease, wms_report_status, wms_finish,
        wms_code_of_amount, wms_thinned_samples, wms_sample_usage, wms_store_tails CASCADE;
    DROP FUNCTION IF EXISTS wms_why_closed, wms_open_leases CASCADE;
"""
#: A limit that was written before there was a trigger: it gets its counters.
_COUNT = """
    UPDATE taskqueues_limit AS a_limit SET running = running
     WHERE NOT EXISTS (SELECT FROM taskqueues_limitcount AS its WHERE its.limit_id = a_limit.id)
"""


def texts() -> list[str]:
    """Return the statements that make all functions; their bodies contain semicolons, so they are not split."""
    return [(SQL / name).read_text() for name in _FILES]


def digest_of(statements: list[str]) -> str:
    """Return the SHA-256 of statements without their comments and white space."""
    return sha256("".join(re.sub(r"--[^\n]*|\s+", "", text) for text in statements).encode()).hexdigest()


class InstallFunctions(migrations.RunSQL):
    """Replace all functions, types and triggers of the texts; an older form of them may be there.

    To go back one migration leaves them, as the one before needs them too.
    """

    def __init__(self, digest: str) -> None:
        self.digest = digest
        super().__init__([_DROP, *texts(), _COUNT], migrations.RunSQL.noop)


#: To go back to where there were none.
UNLOAD = migrations.RunSQL(migrations.RunSQL.noop, _DROP)
