"""Check and count the changes of single jobs at half the cost; a statement may count its many changes itself (ADR 53).

PostgreSQL parses and plans the condition of a trigger, and the text of a check constraint, anew with each statement that
changes a row; what a function in PL/pgSQL evaluates it keeps for the session.
"""

from importlib import import_module

from django.contrib.postgres.indexes import BTreeIndex
from django.db import migrations, models

_before = import_module("wms.jobs.migrations.0020_contents_of_submissions")

_COLUMNS = """
submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
status_after, site_after_id, exit_code_after, jobs
"""
DROP_TRIGGER = "DROP FUNCTION wms_job_is_counted_elsewhere CASCADE"
#: A statement that counts its changes itself says so (``jobs.sql.move``).
TRIGGER = f"""
CREATE FUNCTION wms_job_is_counted_elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before constant integer = wms_counted_exit_code(OLD.status, OLD.exit_code);
    after constant integer = wms_counted_exit_code(NEW.status, NEW.exit_code);
BEGIN
    IF (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type)
       = (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type) THEN
        IF OLD.status <> NEW.status OR OLD.site_id IS DISTINCT FROM NEW.site_id OR before IS DISTINCT FROM after THEN
            INSERT INTO jobs_jobcountchange ({_COLUMNS})
            VALUES (
                NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
                OLD.status, OLD.site_id, before, NEW.status, NEW.site_id, after, 1
            );
        END IF;
    ELSE
        INSERT INTO jobs_jobcountchange ({_COLUMNS})
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
    FOR EACH ROW WHEN (current_setting('wms.jobs_counted_by', true) IS DISTINCT FROM 'statement')
    EXECUTE FUNCTION wms_job_is_counted_elsewhere();
"""
#: That of 0020, whose other triggers stay.
TRIGGER_BEFORE = _before.TRIGGERS[
    _before.TRIGGERS.index("CREATE FUNCTION wms_job_is_counted_elsewhere") : _before.TRIGGERS.index(
        "CREATE FUNCTION wms_note_all_contents"
    )
]

#: With the parameters of the columns' own types, so that the constraint has no casts.
POSSIBLE = """
CREATE FUNCTION wms_job_is_possible(
    status varchar, ended_at timestamptz, priority smallint, reschedules smallint
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN status = ANY (
               CASE WHEN ended_at IS NULL
                    THEN '{Checking,Completing,Held,Matched,Received,Rescheduled,Running,Stalled,Waiting}'::text[]
                    ELSE '{Deleted,Done,Failed,Killed}'::text[] END
           )
       AND priority BETWEEN 0 AND 10 AND reschedules >= 0;
END
$$
"""
DROP_POSSIBLE = "DROP FUNCTION wms_job_is_possible"

#: Room for what follows: an entry for each status that a job of a new submission will have, and the next numbers of a
#: submission in the page of the present ones, without a new entry of the index. Existing pages stay as they are.
ROOM = """
ALTER INDEX job_of_submission SET (fillfactor = 50);
ALTER TABLE jobs_submissionjobcount SET (fillfactor = 50);
"""
NO_ROOM = """
ALTER INDEX job_of_submission RESET (fillfactor);
ALTER TABLE jobs_submissionjobcount RESET (fillfactor);
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0022_names_beside_descriptions")]

    operations = [
        migrations.RunSQL(DROP_TRIGGER, TRIGGER_BEFORE),
        migrations.RunSQL(TRIGGER, DROP_TRIGGER),
        migrations.RunSQL(POSSIBLE, DROP_POSSIBLE),
        migrations.AddConstraint(
            "Job",
            models.CheckConstraint(
                name="job_has_known_status_and_priority_and_ended_at_iff_final",
                condition=models.Func(
                    *(models.F(column) for column in ("status", "ended_at", "priority", "reschedules")),
                    function="wms_job_is_possible",
                    output_field=models.BooleanField(),
                ),
            ),
        ),
        migrations.RemoveConstraint("Job", "job_priority_is_0_to_10"),
        migrations.RemoveConstraint("Job", "job_status_is_known_and_ended_at_set_iff_final"),
        migrations.AlterField(
            "Job",
            "reschedules",
            models.SmallIntegerField(default=0, help_text="Number of times it went back to its queue."),
        ),
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(ROOM, NO_ROOM)],
            [
                migrations.RemoveIndex("Job", "job_of_submission"),
                migrations.AddIndex(
                    "Job",
                    BTreeIndex(
                        fields=["submission", "job_name"],
                        fillfactor=50,
                        name="job_of_submission",
                        opclasses=["uuid_ops", "varchar_pattern_ops"],
                    ),
                ),
            ],
        ),
    ]
