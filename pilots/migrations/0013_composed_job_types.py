"""Write job types in NFC, in which they are compared."""

from django.db import migrations

COMPOSE = """
UPDATE pilots_director
   SET job_types = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(job_types) AS name ORDER BY 1)
 WHERE array_to_string(job_types, ' ') IS NOT NFC NORMALIZED;
"""


class Migration(migrations.Migration):
    dependencies = [("pilots", "0012_place_of_pilots_made_by_hand")]

    operations = [migrations.RunSQL(COMPOSE, migrations.RunSQL.noop)]
