"""Write the names in descriptions in NFC, in which they are compared when a job is put into a queue again."""

from django.db import migrations

COMPOSE = """
UPDATE jobs_job
   SET job_type = normalize(job_type, NFC),
       description = description || (
           SELECT coalesce(jsonb_object_agg(key, normalize(value::text, NFC)::jsonb), '{}')
             FROM jsonb_each(description)
            WHERE key IN ('job_name', 'job_group', 'job_type', 'setup', 'output_se', 'tags', 'sites', 'banned_sites',
                          'grid_ces', 'platforms', 'pilot_types', 'submit_pools', 'grid_middlewares', 'requirements'))
 WHERE description::text IS NOT NFC NORMALIZED;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0010_jobs_carry_what_holds_them_back")]

    operations = [migrations.RunSQL(COMPOSE, migrations.RunSQL.noop)]
