"""Counters of jobs: additions of changes, recounts and comparison (ADR 53)."""

from typing import Final

from django.db import connection

from wms.kernel.db import transaction_required

#: One statement, so that every snapshot holds each change once: in its own row or in the counters.
_ADD_COUNT_CHANGES: Final = """
    WITH taken AS (
        DELETE FROM jobs_jobcountchange RETURNING *
    ), sided AS MATERIALIZED (
        SELECT submission_id, owner_id, group_id, vo_id, job_type, side.*
          FROM taken, LATERAL (
               VALUES (status_before, site_before_id, exit_code_before, -jobs),
                      (status_after, site_after_id, exit_code_after, jobs)
               ) AS side (status, site_id, exit_code, jobs)
         WHERE side.status IS NOT NULL
    ), by_job_type AS (
        INSERT INTO jobs_jobcount (owner_id, group_id, vo_id, job_type, status, exit_code, jobs)
        SELECT owner_id, group_id, vo_id, job_type, status, exit_code, sum(jobs) FROM sided GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(jobs) <> 0
        ON CONFLICT (owner_id, group_id, job_type, status, exit_code)
        DO UPDATE SET jobs = jobs_jobcount.jobs + excluded.jobs
    ), by_site AS (
        INSERT INTO jobs_sitejobcount (owner_id, group_id, vo_id, site_id, status, jobs)
        SELECT owner_id, group_id, vo_id, site_id, status, sum(jobs) FROM sided GROUP BY 1, 2, 3, 4, 5
        HAVING sum(jobs) <> 0
        ON CONFLICT (owner_id, group_id, site_id, status) DO UPDATE SET jobs = jobs_sitejobcount.jobs + excluded.jobs
    ), by_submission AS (
        INSERT INTO jobs_submissionjobcount (submission_id, owner_id, group_id, vo_id, status, exit_code, jobs)
        SELECT submission_id, owner_id, group_id, vo_id, status, exit_code, sum(jobs)
          FROM sided GROUP BY 1, 2, 3, 4, 5, 6
        HAVING sum(jobs) <> 0
        ON CONFLICT (submission_id, owner_id, group_id, status, exit_code)
        DO UPDATE SET jobs = jobs_submissionjobcount.jobs + excluded.jobs
        RETURNING submission_id
    )
    SELECT (SELECT count(*) FROM taken), ARRAY(SELECT DISTINCT submission_id FROM by_submission)
"""

#: Each submission passes through several statuses.
_FORGET_ZEROS: Final = "DELETE FROM jobs_submissionjobcount WHERE submission_id = ANY(%s) AND jobs = 0"

#: All jobs come again (``wms_jobs_come``), those of one submission at a time.
_RECOUNT_JOBS: Final = """
    LOCK TABLE jobs_job IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM jobs_jobcountchange;
    DELETE FROM jobs_jobcount;
    DELETE FROM jobs_sitejobcount;
    DELETE FROM jobs_submissionjobcount;
    DELETE FROM jobs_submissioncontent;
    CREATE TEMPORARY TABLE jobs_coming (LIKE jobs_job);
    CREATE TRIGGER jobs_come AFTER INSERT ON jobs_coming REFERENCING NEW TABLE AS changed
        FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_come();
    DO $$
    DECLARE
        submission uuid;
    BEGIN
        FOR submission IN SELECT id FROM jobs_submission LOOP
            INSERT INTO jobs_coming SELECT * FROM jobs_job WHERE submission_id = submission;
            TRUNCATE jobs_coming;
        END LOOP;
    END
    $$;
    DROP TABLE jobs_coming;
"""

#: One statement, so that jobs and counters are of one snapshot. Owner, group, VO and status are columns of each.
_WRONG_JOB_COUNTS: Final = """
    SELECT count(*) FROM (
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, job_type, wms_counted_exit_code(status, exit_code), -1
              FROM jobs_job
            UNION ALL SELECT owner_id, group_id, vo_id, status, job_type, exit_code, jobs FROM jobs_currentjobcount
        ) AS both_sides (owner_id, group_id, vo_id, status, job_type, exit_code, jobs)
         GROUP BY owner_id, group_id, vo_id, status, job_type, exit_code HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, site_id, -1 AS jobs FROM jobs_job
            UNION ALL SELECT owner_id, group_id, vo_id, status, site_id, jobs FROM jobs_currentsitejobcount
        ) AS both_sides GROUP BY owner_id, group_id, vo_id, status, site_id HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM (
            SELECT owner_id, group_id, vo_id, status, submission_id, wms_counted_exit_code(status, exit_code), -1
              FROM jobs_job
            UNION ALL
            SELECT owner_id, group_id, vo_id, status, submission_id, exit_code, jobs FROM jobs_currentsubmissionjobcount
        ) AS both_sides (owner_id, group_id, vo_id, status, submission_id, exit_code, jobs)
         GROUP BY owner_id, group_id, vo_id, status, submission_id, exit_code HAVING sum(jobs) <> 0
        UNION ALL
        SELECT FROM jobs_job AS job LEFT JOIN jobs_submissioncontent AS content USING (submission_id)
         WHERE content.submission_id IS NULL OR job.id NOT BETWEEN content.first_job_id AND content.last_job_id
            OR (content.owner_id, content.group_id, content.vo_id) <> (job.owner_id, job.group_id, job.vo_id)
            OR content.submitted_at <> job.submitted_at OR content.job_type <> job.job_type
            OR content.job_group <> job.job_group OR NOT starts_with(job.job_name, content.name_prefix)
            OR CASE content.name_rest
               WHEN 'nothing' THEN job.job_name <> content.name_prefix
               WHEN 'digits' THEN rtrim(job.job_name, '0123456789') <> content.name_prefix END
            OR (content.labels IS NULL) <> (content.job_group IS NOT NULL)
            OR (content.name_stems IS NULL) <> (content.name_rest <> 'anything')
            OR content.labels <> '{}' AND job.job_group <> ALL (content.labels)
            OR content.name_stems <> '{}' AND rtrim(job.job_name, '0123456789') <> ALL (content.name_stems)
    ) AS wrong
"""


@transaction_required
def add_count_changes() -> int:
    """Add all committed changes of the numbers of jobs to the counters; return the number of rows of changes."""
    with connection.cursor() as cursor:
        # The changes of some seconds are several megabytes, which would be written to temporary files, each time.
        cursor.execute("SET LOCAL work_mem = '64MB'")
        cursor.execute(_ADD_COUNT_CHANGES)
        changes, submissions = cursor.fetchone()
        cursor.execute(_FORGET_ZEROS, [submissions])
    return int(changes)


@transaction_required
def recount_jobs() -> None:
    """Replace the counters by the numbers of the jobs in the table; until the transaction ends no job can change."""
    with connection.cursor() as cursor:
        cursor.execute(_RECOUNT_JOBS)
    add_count_changes()


def wrong_job_counts() -> int:
    """Return how many current numbers of jobs, of all counters, differ from those of the jobs in the table."""
    with connection.cursor() as cursor:
        cursor.execute(_WRONG_JOB_COUNTS)
        (wrong,) = cursor.fetchone()
    return int(wrong)
