"""Drop two indexes that each change of a status wrote and nothing read (ADR 57)."""

from django.db import migrations

_KEYS = """
    ALTER TABLE jobs_jobhistory DROP CONSTRAINT jobs_jobhistory_pkey, ADD PRIMARY KEY (job_id, id);
    ALTER TABLE jobs_jobcountchange DROP CONSTRAINT jobs_jobcountchange_pkey;
"""
_FORMER_KEYS = """
    ALTER TABLE jobs_jobhistory DROP CONSTRAINT jobs_jobhistory_pkey, ADD PRIMARY KEY (id);
    ALTER TABLE jobs_jobcountchange ADD PRIMARY KEY (id);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_narrow_jobs")]

    operations = [
        migrations.RemoveIndex(model_name="jobhistory", name="history_of_job"),
        # The models keep their ids, which the ORM takes for primary keys.
        migrations.RunSQL(_KEYS, _FORMER_KEYS),
    ]
