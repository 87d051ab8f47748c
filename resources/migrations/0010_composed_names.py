"""Write names and values in NFC, in which they are compared."""

from django.db import migrations

COMPOSE = """
UPDATE resources_site
   SET parameters = normalize(parameters::text, NFC)::jsonb, vo_parameters = normalize(vo_parameters::text, NFC)::jsonb
 WHERE (parameters::text || vo_parameters::text) IS NOT NFC NORMALIZED;
UPDATE resources_computingelement
   SET parameters = normalize(parameters::text, NFC)::jsonb, vo_parameters = normalize(vo_parameters::text, NFC)::jsonb
 WHERE (parameters::text || vo_parameters::text) IS NOT NFC NORMALIZED;
UPDATE resources_queue
   SET parameters = normalize(parameters::text, NFC)::jsonb, vo_parameters = normalize(vo_parameters::text, NFC)::jsonb
 WHERE (parameters::text || vo_parameters::text) IS NOT NFC NORMALIZED;
UPDATE resources_queue
   SET tags = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(tags) AS name ORDER BY 1),
       required_tags = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(required_tags) AS name ORDER BY 1),
       job_types = ARRAY(SELECT DISTINCT normalize(name, NFC) COLLATE "C" FROM unnest(job_types) AS name ORDER BY 1)
 WHERE array_to_string(tags || required_tags || job_types, ' ') IS NOT NFC NORMALIZED;
"""


class Migration(migrations.Migration):
    dependencies = [("resources", "0009_grid_middleware_of_a_ce")]

    operations = [migrations.RunSQL(COMPOSE, migrations.RunSQL.noop)]
