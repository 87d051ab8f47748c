"""Limits that the constraints of the next migration would not accept: earlier releases stored any."""

from django.db import migrations

WITHIN_REASON = """
UPDATE taskqueues_limit SET delay_s = CASE WHEN delay_s > 0 AND delay_s <> 'NaN' THEN 86400 ELSE 0 END
 WHERE NOT delay_s BETWEEN 0 AND 86400;
UPDATE taskqueues_limit SET burst = CASE WHEN burst < 1 THEN 1 ELSE 100000 END WHERE NOT burst BETWEEN 1 AND 100000;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("taskqueues", "0007_stale_submit_pools"),
    ]

    operations = [migrations.RunSQL(WITHIN_REASON, migrations.RunSQL.noop)]
