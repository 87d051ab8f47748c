"""Jobs with input data that waited before anybody asked where these are: the next look places them.

An empty list says that no site holds their data, as far as is known; a job that waits in spite of it is looked at.
"""

from django.db import migrations

_MARK = """
UPDATE jobs_job SET input_sites = '{}'
 WHERE status IN ('Waiting', 'Checking') AND input_sites IS NULL
   AND jsonb_typeof(description -> 'input_data') = 'array' AND description -> 'input_data' <> '[]'
"""


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0005_input_data"),
    ]

    operations = [
        # Backwards the column goes with the migration before.
        migrations.RunSQL(_MARK, migrations.RunSQL.noop),
    ]
