"""Write names in NFC, in which they are compared; signatures and ids of pools stay, for jobs name them."""

from django.db import migrations

COMPOSE = """
UPDATE taskqueues_taskqueue
   SET setup = normalize(setup, NFC),
       job_type = normalize(job_type, NFC),
       tags = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(tags) AS name ORDER BY 1)
 WHERE (setup || job_type || array_to_string(tags, ' ')) IS NOT NFC NORMALIZED;
UPDATE taskqueues_submitpool
   SET requirements = normalize(requirements::text, NFC)::jsonb
 WHERE requirements::text IS NOT NFC NORMALIZED;
UPDATE taskqueues_limit SET job_type = normalize(job_type, NFC) WHERE job_type IS NOT NFC NORMALIZED;
"""


class Migration(migrations.Migration):
    dependencies = [("taskqueues", "0012_index_of_jobs_held_back")]

    operations = [migrations.RunSQL(COMPOSE, migrations.RunSQL.noop)]
