"""Note what the jobs of a submission have in common, and count jobs by exit code too (ADR 53, ADR 59).

Triggers, views and counters are made anew; the jobs that exist are counted.
"""

from importlib import import_module

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_before = import_module("wms.jobs.migrations.0016_counted_jobs")

#: What jobs of one submission have in common, of the rows of a table of jobs.
COMMON = """
SELECT submission_id, min(owner_id), min(group_id), min(vo_id),
       CASE WHEN min(submitted_at) = max(submitted_at) THEN min(submitted_at) END,
       CASE WHEN min(job_type) = max(job_type) THEN min(job_type) END,
       CASE WHEN min(job_group) = max(job_group) THEN min(job_group) END,
       CASE WHEN min(job_name) = max(job_name) THEN min(job_name)
            WHEN min(rtrim(job_name, '0123456789')) = max(rtrim(job_name, '0123456789'))
            THEN min(rtrim(job_name, '0123456789'))
            ELSE wms_common_prefix(min(job_name COLLATE "C"), max(job_name COLLATE "C")) END,
       CASE WHEN min(job_name) = max(job_name) THEN 'nothing'
            WHEN min(rtrim(job_name, '0123456789')) = max(rtrim(job_name, '0123456789')) THEN 'digits'
            ELSE 'anything' END,
       min(id), max(id)
  FROM {rows} GROUP BY submission_id
"""
COLUMNS = """
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
"""
#: Adds rows of jobs to what is known of their submissions.
NOTE = f"""
INSERT INTO jobs_submissioncontent AS known ({COLUMNS}) {COMMON}
    ON CONFLICT (submission_id) DO UPDATE SET
       (owner_id, group_id, vo_id) = (excluded.owner_id, excluded.group_id, excluded.vo_id),
       submitted_at = CASE WHEN known.submitted_at = excluded.submitted_at THEN known.submitted_at END,
       job_type = CASE WHEN known.job_type = excluded.job_type THEN known.job_type END,
       job_group = CASE WHEN known.job_group = excluded.job_group THEN known.job_group END,
       name_prefix = CASE
           WHEN (known.name_rest, excluded.name_rest, known.name_prefix) = ('nothing', 'nothing', excluded.name_prefix)
           THEN known.name_prefix
           WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest)
                AND rtrim(known.name_prefix, '0123456789') = rtrim(excluded.name_prefix, '0123456789')
           THEN rtrim(known.name_prefix, '0123456789')
           ELSE wms_common_prefix(known.name_prefix, excluded.name_prefix) END,
       name_rest = CASE
           WHEN (known.name_rest, excluded.name_rest, known.name_prefix) = ('nothing', 'nothing', excluded.name_prefix)
           THEN 'nothing'
           WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest)
                AND rtrim(known.name_prefix, '0123456789') = rtrim(excluded.name_prefix, '0123456789')
           THEN 'digits' ELSE 'anything' END,
       first_job_id = least(known.first_job_id, excluded.first_job_id),
       last_job_id = greatest(known.last_job_id, excluded.last_job_id)
"""
FUNCTIONS = """
CREATE FUNCTION wms_common_prefix(one text, other text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT left(one, coalesce(max(length), 0))
      FROM generate_series(1, least(length(one), length(other))) AS length
     WHERE left(one, length) = left(other, length)
$$;
-- The exit code by which a job is counted: it may be written shortly before the status that goes with it.
CREATE FUNCTION wms_counted_exit_code(status text, exit_code integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN status <> ALL ('{Received,Waiting,Held,Matched,Running,Stalled}') THEN exit_code END
$$;
"""
DROP_FUNCTIONS = "DROP FUNCTION wms_common_prefix, wms_counted_exit_code"

_CHANGE = """
INSERT INTO jobs_jobcountchange (
    submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
    status_after, site_after_id, exit_code_after, jobs
)
"""
TRIGGERS = f"""
CREATE FUNCTION wms_jobs_come() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {NOTE.format(rows="changed")};
    {_CHANGE}
    SELECT submission_id, owner_id, group_id, vo_id, job_type, NULL, NULL, NULL,
           status, site_id, wms_counted_exit_code(status, exit_code), count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id, 11;
    RETURN NULL;
END
$$;
CREATE FUNCTION wms_jobs_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {_CHANGE}
    SELECT submission_id, owner_id, group_id, vo_id, job_type,
           status, site_id, wms_counted_exit_code(status, exit_code), NULL, NULL, NULL, count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id, 8;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_come AFTER INSERT ON jobs_job REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_come();
CREATE TRIGGER jobs_go AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_go();

CREATE FUNCTION wms_job_is_counted_elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before constant integer = wms_counted_exit_code(OLD.status, OLD.exit_code);
    after constant integer = wms_counted_exit_code(NEW.status, NEW.exit_code);
BEGIN
    IF (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type)
       = (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type) THEN
        {_CHANGE}
        VALUES (
            NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
            OLD.status, OLD.site_id, before, NEW.status, NEW.site_id, after, 1
        );
    ELSE
        {_CHANGE}
        VALUES (
            OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type,
            OLD.status, OLD.site_id, before, NULL, NULL, NULL, 1
        ), (
            NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
            NULL, NULL, NULL, NEW.status, NEW.site_id, after, 1
        );
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER job_is_counted_elsewhere
    AFTER UPDATE OF status, site_id, submission_id, owner_id, group_id, vo_id, job_type, exit_code ON jobs_job
    FOR EACH ROW WHEN (
        (
            OLD.status, OLD.site_id, OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type,
            wms_counted_exit_code(OLD.status, OLD.exit_code)
        ) IS DISTINCT FROM (
            NEW.status, NEW.site_id, NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
            wms_counted_exit_code(NEW.status, NEW.exit_code)
        )
    )
    EXECUTE FUNCTION wms_job_is_counted_elsewhere();

CREATE FUNCTION wms_note_all_contents() RETURNS void LANGUAGE sql AS $$
    DELETE FROM jobs_submissioncontent;
    INSERT INTO jobs_submissioncontent ({COLUMNS}) {COMMON.format(rows="jobs_job")};
$$;
CREATE FUNCTION wms_job_is_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    {NOTE.format(rows="(SELECT NEW.*) AS changed")};
    RETURN NULL;
END
$$;
CREATE TRIGGER job_is_edited
    AFTER UPDATE OF submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, job_name ON jobs_job
    FOR EACH ROW WHEN (
        (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.submitted_at, OLD.job_type, OLD.job_group, OLD.job_name)
        IS DISTINCT FROM
        (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.submitted_at, NEW.job_type, NEW.job_group, NEW.job_name)
    )
    EXECUTE FUNCTION wms_job_is_edited();
"""
DROP_TRIGGERS = """
DROP FUNCTION wms_jobs_come, wms_jobs_go, wms_job_is_counted_elsewhere, wms_job_is_edited, wms_note_all_contents CASCADE
"""

VIEWS = """
CREATE OR REPLACE VIEW jobs_currentjobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, job_type, exit_code FROM jobs_jobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, job_type, exit_code_after
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, job_type, exit_code_before
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
CREATE OR REPLACE VIEW jobs_currentsubmissionjobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, submission_id, exit_code FROM jobs_submissionjobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, submission_id, exit_code_after
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, submission_id, exit_code_before
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
CREATE VIEW jobs_currentcontentjobcount AS
    SELECT count.owner_id, count.group_id, count.vo_id, count.status, count.jobs, count.submission_id, count.exit_code,
           content.submitted_at, content.job_type, content.job_group, content.name_prefix, content.name_rest
      FROM jobs_currentsubmissionjobcount AS count JOIN jobs_submissioncontent AS content USING (submission_id);
"""
BACK_TO_OLD_VIEWS = f"DROP VIEW jobs_currentcontentjobcount; {_before.DROP_VIEWS}; {_before.VIEWS}"

EMPTY = """
DELETE FROM jobs_jobcountchange;
DELETE FROM jobs_jobcount;
DELETE FROM jobs_sitejobcount;
DELETE FROM jobs_submissionjobcount;
"""
#: The jobs of the last version. The triggers, made in the same transaction, have locked the table.
COUNT = """
INSERT INTO jobs_jobcount (owner_id, group_id, vo_id, job_type, status, exit_code, jobs)
SELECT owner_id, group_id, vo_id, job_type, status, wms_counted_exit_code(status, exit_code), count(*)
  FROM jobs_job GROUP BY 1, 2, 3, 4, 5, 6;
INSERT INTO jobs_sitejobcount (owner_id, group_id, vo_id, site_id, status, jobs)
SELECT owner_id, group_id, vo_id, site_id, status, count(*) FROM jobs_job GROUP BY 1, 2, 3, 4, 5;
INSERT INTO jobs_submissionjobcount (submission_id, owner_id, group_id, vo_id, status, exit_code, jobs)
SELECT submission_id, owner_id, group_id, vo_id, status, wms_counted_exit_code(status, exit_code), count(*)
  FROM jobs_job GROUP BY 1, 2, 3, 4, 5, 6;
SELECT wms_note_all_contents();
"""


def _copy_of(model: str) -> "models.ForeignKey[models.Model, models.Model]":
    return models.ForeignKey(
        db_constraint=False,
        db_index=False,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name="+",
        to=model,
    )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0011_plain_help_texts"),
        ("jobs", "0019_fewer_indexes"),
        ("resources", "0019_plain_help_texts"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        # Of the counters of the last version; backwards, the last step is to make its triggers again.
        migrations.RunSQL(_before.DROP_TRIGGERS, _before.TRIGGERS),
        migrations.RunSQL(EMPTY, _before.COUNT),
        migrations.CreateModel(
            name="CurrentContentJobCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("owner", _copy_of(settings.AUTH_USER_MODEL)),
                ("group", _copy_of("accounts.group")),
                ("vo", _copy_of("accounts.vo")),
                ("status", models.CharField(max_length=16)),
                ("jobs", models.BigIntegerField()),
                ("submission", _copy_of("jobs.submission")),
                ("exit_code", models.IntegerField(null=True)),
                ("submitted_at", models.DateTimeField(null=True)),
                ("job_type", models.CharField(max_length=255, null=True)),
                ("job_group", models.CharField(max_length=255, null=True)),
                ("name_prefix", models.CharField(max_length=255)),
                ("name_rest", models.CharField(max_length=8)),
            ],
            options={
                "db_table": "jobs_currentcontentjobcount",
                "managed": False,
            },
        ),
        migrations.CreateModel(
            name="SubmissionContent",
            fields=[
                (
                    "submission",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="content",
                        serialize=False,
                        to="jobs.submission",
                    ),
                ),
                ("owner", _copy_of(settings.AUTH_USER_MODEL)),
                ("group", _copy_of("accounts.group")),
                ("vo", _copy_of("accounts.vo")),
                ("submitted_at", models.DateTimeField(null=True)),
                ("job_type", models.CharField(max_length=255, null=True)),
                ("job_group", models.CharField(max_length=255, null=True)),
                ("name_prefix", models.CharField(help_text="Beginning of the names of all jobs.", max_length=255)),
                (
                    "name_rest",
                    models.CharField(
                        choices=[("nothing", "Nothing"), ("digits", "Digits"), ("anything", "Anything")],
                        help_text="What follows on it.",
                        max_length=8,
                    ),
                ),
                ("first_job_id", models.BigIntegerField()),
                ("last_job_id", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="jobcount",
            name="job_count_is_one_row",
        ),
        migrations.RemoveConstraint(
            model_name="submissionjobcount",
            name="submission_job_count_is_one_row",
        ),
        migrations.AddField(
            model_name="jobcount",
            name="exit_code",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="jobcountchange",
            name="exit_code_after",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="jobcountchange",
            name="exit_code_before",
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name="submissionjobcount",
            name="exit_code",
            field=models.IntegerField(null=True),
        ),
        migrations.AlterField(
            model_name="job",
            name="submission",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="jobs.submission"
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                fields=["submission", "job_name"],
                name="job_of_submission",
                opclasses=["uuid_ops", "varchar_pattern_ops"],
            ),
        ),
        migrations.AddConstraint(
            model_name="jobcount",
            constraint=models.UniqueConstraint(
                fields=("owner", "group", "job_type", "status", "exit_code"),
                name="job_count_is_one_row",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="submissionjobcount",
            constraint=models.UniqueConstraint(
                fields=("submission", "owner", "group", "status", "exit_code"),
                name="submission_job_count_is_one_row",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="submissioncontent",
            index=models.Index(fields=["owner"], name="content_of_owner"),
        ),
        migrations.AddIndex(
            model_name="submissioncontent",
            index=models.Index(fields=["job_group"], name="content_with_label"),
        ),
        migrations.AddIndex(
            model_name="submissioncontent",
            index=models.Index(fields=["name_prefix"], name="content_with_name", opclasses=["varchar_pattern_ops"]),
        ),
        migrations.AddIndex(
            model_name="submissioncontent",
            index=models.Index(fields=["submitted_at"], name="content_since"),
        ),
        migrations.RemoveIndex(model_name="job", name="job_with_exit_code"),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        migrations.RunSQL(VIEWS, BACK_TO_OLD_VIEWS),
        migrations.RunSQL(TRIGGERS, DROP_TRIGGERS),
        migrations.RunSQL(COUNT, EMPTY),
    ]
