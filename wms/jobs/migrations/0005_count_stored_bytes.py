"""Count what is stored already; outputs in the VOs of their jobs."""

from django.db import migrations

_NAME_VOS = """
    UPDATE jobs_sandboxupload AS upload SET vo_id = job.vo_id
      FROM jobs_job AS job
     WHERE upload.is_output AND upload.file_name = format('job-%s-output.tar.gz', job.id)
"""
_COUNT = """
    INSERT INTO jobs_storedbytes (owner_id, vo_id, input_bytes, output_bytes)
    SELECT upload.owner_id, upload.vo_id,
           coalesce(sum(greatest(sandbox.size_bytes, 4096)) FILTER (WHERE NOT upload.is_output), 0),
           coalesce(sum(greatest(sandbox.size_bytes, 4096)) FILTER (WHERE upload.is_output), 0)
      FROM jobs_sandboxupload AS upload JOIN jobs_sandbox AS sandbox ON sandbox.id = upload.sandbox_id
     GROUP BY upload.owner_id, upload.vo_id
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_stored_bytes")]
    operations = [
        migrations.RunSQL(_NAME_VOS, migrations.RunSQL.noop),
        # Uploads since the migration before are counted here, too.
        migrations.RunSQL(["DELETE FROM jobs_storedbytes", _COUNT], migrations.RunSQL.noop),
    ]
