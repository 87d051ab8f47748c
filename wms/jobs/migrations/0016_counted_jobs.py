"""Count jobs by their properties: triggers write each change, which a task adds to the counters (ADR 53)."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

#: Each statement that inserts or deletes jobs writes a row for each kind of job; each update of a job one row, because a
#: trigger for each row costs such an update a third of what one for the statement costs.
TRIGGERS = """
CREATE FUNCTION wms_jobs_come_or_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_jobcountchange (
        submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, status_after, site_after_id, jobs
    )
    SELECT submission_id, owner_id, group_id, vo_id, job_type,
           CASE WHEN TG_OP = 'DELETE' THEN status END, CASE WHEN TG_OP = 'DELETE' THEN site_id END,
           CASE WHEN TG_OP = 'INSERT' THEN status END, CASE WHEN TG_OP = 'INSERT' THEN site_id END, count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_come AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_come_or_go();
CREATE TRIGGER jobs_go AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_come_or_go();

CREATE FUNCTION wms_job_is_counted_elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type)
       = (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type) THEN
        INSERT INTO jobs_jobcountchange (
            submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, status_after, site_after_id, jobs
        )
        VALUES (
            NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
            OLD.status, OLD.site_id, NEW.status, NEW.site_id, 1
        );
    ELSE
        INSERT INTO jobs_jobcountchange (
            submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, status_after, site_after_id, jobs
        )
        VALUES (
            OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type, OLD.status, OLD.site_id, NULL, NULL, 1
        ), (
            NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type, NULL, NULL, NEW.status, NEW.site_id, 1
        );
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER job_is_counted_elsewhere
    AFTER UPDATE OF status, site_id, submission_id, owner_id, group_id, vo_id, job_type ON jobs_job
    FOR EACH ROW WHEN (
        (OLD.status, OLD.site_id, OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type)
        IS DISTINCT FROM
        (NEW.status, NEW.site_id, NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type)
    )
    EXECUTE FUNCTION wms_job_is_counted_elsewhere();
"""
DROP_TRIGGERS = "DROP FUNCTION IF EXISTS wms_jobs_come_or_go, wms_job_is_counted_elsewhere CASCADE"

VIEWS = """
CREATE VIEW jobs_currentjobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, job_type FROM jobs_jobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, job_type
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, job_type
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
CREATE VIEW jobs_currentsitejobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, site_id FROM jobs_sitejobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, site_after_id
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, site_before_id
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
CREATE VIEW jobs_currentsubmissionjobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, submission_id FROM jobs_submissionjobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, submission_id
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, submission_id
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
-- What quotas bound (taskqueues.models.WaitingJobCount).
CREATE VIEW taskqueues_waitingjobcount AS
    SELECT owner_id, group_id, vo_id, job_type, jobs FROM jobs_currentjobcount WHERE status = 'Waiting';
"""
DROP_VIEWS = """
DROP VIEW taskqueues_waitingjobcount, jobs_currentjobcount, jobs_currentsitejobcount, jobs_currentsubmissionjobcount
"""

#: The jobs of the last version. The triggers, made in the same transaction, have locked the table.
COUNT = """
INSERT INTO jobs_jobcount (owner_id, group_id, vo_id, job_type, status, jobs)
SELECT owner_id, group_id, vo_id, job_type, status, count(*) FROM jobs_job GROUP BY 1, 2, 3, 4, 5;
INSERT INTO jobs_sitejobcount (owner_id, group_id, vo_id, site_id, status, jobs)
SELECT owner_id, group_id, vo_id, site_id, status, count(*) FROM jobs_job GROUP BY 1, 2, 3, 4, 5;
INSERT INTO jobs_submissionjobcount (submission_id, owner_id, group_id, vo_id, status, jobs)
SELECT submission_id, owner_id, group_id, vo_id, status, count(*) FROM jobs_job GROUP BY 1, 2, 3, 4, 5;
"""


def _copy_of(model: str, *, null: bool = False) -> "models.ForeignKey[Any, Any]":
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        null=null,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name="+",
        to=model,
    )


def _fields(name: str, field: "models.Field[Any, Any]") -> list[tuple[str, "models.Field[Any, Any]"]]:
    return [
        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
        ("owner", _copy_of(settings.AUTH_USER_MODEL)),
        ("group", _copy_of("accounts.group")),
        ("vo", _copy_of("accounts.vo")),
        ("status", models.CharField(max_length=16)),
        ("jobs", models.BigIntegerField()),
        (name, field),
    ]


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0011_plain_help_texts"),
        ("jobs", "0015_plain_help_texts"),
        ("resources", "0019_plain_help_texts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel("JobCount", _fields("job_type", models.CharField(max_length=255))),
        migrations.CreateModel("SiteJobCount", _fields("site", _copy_of("resources.site", null=True))),
        migrations.CreateModel("SubmissionJobCount", _fields("submission", _copy_of("jobs.submission"))),
        migrations.CreateModel(
            "CurrentJobCount",
            _fields("job_type", models.CharField(max_length=255)),
            {"db_table": "jobs_currentjobcount", "managed": False},
        ),
        migrations.CreateModel(
            "CurrentSiteJobCount",
            _fields("site", _copy_of("resources.site", null=True)),
            {"db_table": "jobs_currentsitejobcount", "managed": False},
        ),
        migrations.CreateModel(
            "CurrentSubmissionJobCount",
            _fields("submission", _copy_of("jobs.submission")),
            {"db_table": "jobs_currentsubmissionjobcount", "managed": False},
        ),
        migrations.CreateModel(
            "JobCountChange",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("submission_id", models.UUIDField()),
                ("owner_id", models.BigIntegerField()),
                ("group_id", models.BigIntegerField()),
                ("vo_id", models.BigIntegerField()),
                ("job_type", models.CharField(max_length=255)),
                ("status_before", models.CharField(help_text="Null: the jobs are new.", max_length=16, null=True)),
                ("site_before_id", models.BigIntegerField(null=True)),
                ("status_after", models.CharField(help_text="Null: the jobs are deleted.", max_length=16, null=True)),
                ("site_after_id", models.BigIntegerField(null=True)),
                ("jobs", models.BigIntegerField()),
            ],
        ),
        migrations.AddConstraint(
            "JobCount",
            models.UniqueConstraint(fields=("owner", "group", "job_type", "status"), name="job_count_is_one_row"),
        ),
        migrations.AddConstraint(
            "SiteJobCount",
            models.UniqueConstraint(
                fields=("owner", "group", "site", "status"), name="site_job_count_is_one_row", nulls_distinct=False
            ),
        ),
        migrations.AddIndex("SiteJobCount", models.Index(fields=["site", "status"], name="job_count_of_site")),
        migrations.AddConstraint(
            "SubmissionJobCount",
            models.UniqueConstraint(
                fields=("submission", "owner", "group", "status"), name="submission_job_count_is_one_row"
            ),
        ),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
        migrations.RunSQL(VIEWS, DROP_VIEWS),
        migrations.RunSQL(COUNT, migrations.RunSQL.noop),
        migrations.RemoveIndex("Job", "job_held_at_site"),
    ]
