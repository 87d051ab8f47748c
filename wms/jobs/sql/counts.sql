-- Jobs are counted by changes (ADR 53): triggers write a row for each change, which a task adds to the counters, and
-- views have both. A statement that inserts or deletes jobs writes a row for each kind of job; an update one row for each
-- job, because a trigger for each row costs such an update a third of what one for the statement costs.

-- The exit code by which a job is counted: it may be written shortly before the status that goes with it.
CREATE FUNCTION wms_counted_exit_code(status text, exit_code integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN status <> ALL ('{Received,Waiting,Held,Matched,Running,Stalled}') THEN exit_code END
$$;

CREATE FUNCTION wms_jobs_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO jobs_jobcountchange (
        submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
        status_after, site_after_id, exit_code_after, jobs
    )
    SELECT submission_id, owner_id, group_id, vo_id, job_type,
           status, site_id, wms_counted_exit_code(status, exit_code), NULL, NULL, NULL, count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id, 8;
    RETURN NULL;
END
$$;
CREATE TRIGGER jobs_go AFTER DELETE ON jobs_job REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_jobs_go();

CREATE FUNCTION wms_job_is_counted_elsewhere() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before constant integer = wms_counted_exit_code(OLD.status, OLD.exit_code);
    after constant integer = wms_counted_exit_code(NEW.status, NEW.exit_code);
BEGIN
    IF (OLD.submission_id, OLD.owner_id, OLD.group_id, OLD.vo_id, OLD.job_type)
       = (NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type) THEN
        IF OLD.status <> NEW.status OR OLD.site_id IS DISTINCT FROM NEW.site_id OR before IS DISTINCT FROM after THEN
            INSERT INTO jobs_jobcountchange (
                submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
                status_after, site_after_id, exit_code_after, jobs
            )
            VALUES (
                NEW.submission_id, NEW.owner_id, NEW.group_id, NEW.vo_id, NEW.job_type,
                OLD.status, OLD.site_id, before, NEW.status, NEW.site_id, after, 1
            );
        END IF;
    ELSE
        INSERT INTO jobs_jobcountchange (
            submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
            status_after, site_after_id, exit_code_after, jobs
        )
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
-- A statement that counts its changes itself says so (jobs.sql.changes.move). The function compares, because PostgreSQL
-- plans the condition of a trigger anew with each statement.
CREATE TRIGGER job_is_counted_elsewhere
    AFTER UPDATE OF status, site_id, submission_id, owner_id, group_id, vo_id, job_type, exit_code ON jobs_job
    FOR EACH ROW WHEN (current_setting('wms.jobs_counted_by', true) IS DISTINCT FROM 'statement')
    EXECUTE FUNCTION wms_job_is_counted_elsewhere();

CREATE VIEW jobs_currentjobcount AS
    SELECT owner_id, group_id, vo_id, status, jobs, job_type, exit_code FROM jobs_jobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, job_type, exit_code_after
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, job_type, exit_code_before
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
    SELECT owner_id, group_id, vo_id, status, jobs, submission_id, exit_code FROM jobs_submissionjobcount
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_after, jobs, submission_id, exit_code_after
      FROM jobs_jobcountchange WHERE status_after IS NOT NULL
    UNION ALL
    SELECT owner_id, group_id, vo_id, status_before, -jobs, submission_id, exit_code_before
      FROM jobs_jobcountchange WHERE status_before IS NOT NULL;
-- The owner, group and VO are those of the content, which has indexes for them.
CREATE VIEW jobs_currentcontentjobcount AS
    SELECT content.owner_id, content.group_id, content.vo_id, count.status, count.jobs, count.submission_id,
           count.exit_code, content.submitted_at, content.job_type, content.job_group, content.name_prefix,
           content.name_rest
      FROM jobs_currentsubmissionjobcount AS count JOIN jobs_submissioncontent AS content USING (submission_id);
-- What quotas bound (taskqueues.models.WaitingJobCount).
CREATE VIEW taskqueues_waitingjobcount AS
    SELECT owner_id, group_id, vo_id, job_type, jobs FROM jobs_currentjobcount WHERE status = 'Waiting';
