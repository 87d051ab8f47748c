"""The database's functions as they are now: every migration that changes them loads all of them anew."""

from pathlib import Path

from django.db import migrations

SQL = Path(__file__).parent.parent / "sql"
# The texts have semicolons inside of functions, and are not to be taken apart.
_FUNCTIONS = [(SQL / name).read_text() for name in ("limits.sql", "places.sql", "claim.sql", "heartbeat.sql")]
_DROP = """
    DROP TYPE IF EXISTS wms_claimed, wms_room CASCADE;
    DROP FUNCTION IF EXISTS wms_possible_places, wms_why_not_at_unknown_place CASCADE;
    DROP FUNCTION IF EXISTS wms_input_sandboxes, wms_lock_pilot, wms_why_throttled, wms_limits_of, wms_held_jobs,
        wms_share_of_slot, wms_delay_is_over, wms_sum_up_limit, wms_job_leaves_limits, wms_limit_changes,
        wms_stop_counting, wms_counters_go, wms_heartbeat, wms_free_from, wms_avoided_places,
        wms_is_avoided, wms_asked_by, wms_held_back_jobs, wms_lock_held_back_job, wms_held_back_until CASCADE;
"""
#: They may be there, in an older form. To go back one migration leaves them, as the one before needs them too.
LOAD = (
    migrations.RunSQL(_DROP, migrations.RunSQL.noop),
    migrations.RunSQL(_FUNCTIONS, migrations.RunSQL.noop),
)
#: To go back to where there were none.
UNLOAD = migrations.RunSQL(migrations.RunSQL.noop, _DROP)
