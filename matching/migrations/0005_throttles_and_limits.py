"""Have claims ask throttles and limits, which stand below now."""

from django.db import migrations

from matching.migrations._functions import UNLOAD

#: What jobs that are held already count in: claims did not note the computing element.
PLACE = """
    UPDATE jobs_job AS job SET ce_id = queue.ce_id FROM resources_queue AS queue
     WHERE queue.id = job.queue_id AND job.ce_id IS NULL
       AND job.status = ANY ('{Completing,Matched,Running,Stalled}'::text[])
"""
#: A limit on waiting jobs of a place, which was stored though nothing waits at a place, is none; nor was it checked then
#: whether delays come to an end.
MOVE = """
    INSERT INTO taskqueues_limit
           (vo_id, site_id, ce_id, group_id, user_id, job_type, running, waiting, cpu_s_per_day, delay_s, burst)
    SELECT vo_id, site_id, ce_id, group_id, user_id, job_type, running,
           CASE WHEN site_id IS NULL AND ce_id IS NULL THEN waiting END, cpu_s_per_day,
           CASE WHEN delay_s IS NOT NULL THEN greatest(0, least(delay_s, 86400)) END,
           CASE WHEN burst IS NOT NULL THEN greatest(1, least(burst, 100000)) END
      FROM matching_limit
     WHERE running IS NOT NULL OR cpu_s_per_day IS NOT NULL OR delay_s IS NOT NULL
        OR (waiting IS NOT NULL AND site_id IS NULL AND ce_id IS NULL)
     ORDER BY id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0004_where_jobs_are_held"),
        ("matching", "0004_what_the_claim_writes"),
        ("resources", "0002_throttle_states"),
        ("taskqueues", "0005_limits"),
    ]

    operations = [
        # Functions are installed by the newest migration that changed one, and count these limits (ADR 50).
        UNLOAD,
        migrations.RunSQL(PLACE, migrations.RunSQL.noop),
        migrations.RunSQL(MOVE, migrations.RunSQL.noop),
        migrations.DeleteModel(name="Limit"),
    ]
