"""Let claims go on to the lock of a throttle, so that its expression can be evaluated for a state that stays."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [("matching", "0013_match_whose_job_is_at_fault")]

    operations = [*LOAD]
