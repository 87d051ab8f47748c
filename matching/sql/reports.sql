-- Ordinary reports of a status (Running, Completing) and ordinary ends of leases (Done, Failed): like the heartbeat, each
-- is one round trip that is one transaction. A function that returns nothing, or false, has changed nothing of lease and
-- job, and the services do the work instead: the lease has ended, is unknown, or its pilot was revoked; the job has none
-- of the statuses from which the new one is reached (it was killed, or has the new status already); the output that is
-- named was not uploaded for the job. If the lease ends at the same moment, an error (no_data_found) rolls back what was
-- written of the job. Which statuses are possible, and the words for the job's owner, are the caller's.
--
-- Locks: Sandbox → Pilot → Job → Match (ADR 17); counters of limits only get new rows, by the trigger of jobs.

-- Job and pilot of an open lease whose job has one of these statuses and whose pilot is not revoked; else nothing. The
-- pilot's last sign of life is written if the stored one is older than these seconds.
CREATE FUNCTION wms_reported_lease(
    the_match uuid, sources text[], seen_within_s double precision, right_now timestamptz
) RETURNS TABLE (job_id bigint, pilot_id bigint) LANGUAGE plpgsql AS $$
DECLARE
    seen_at timestamptz;
BEGIN
    SELECT its.job_id, its.pilot_id, pilot.last_seen_at INTO job_id, pilot_id, seen_at
      FROM matching_match AS its
      JOIN pilots_pilot AS pilot ON pilot.id = its.pilot_id
      JOIN jobs_job AS job ON job.id = its.job_id
     WHERE its.id = the_match AND its.ended_at IS NULL AND pilot.revoked_at IS NULL AND job.status = ANY (sources);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF (seen_at > right_now - make_interval(secs => seen_within_s)) IS NOT TRUE THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = pilot_id AND revoked_at IS NULL;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN NEXT;
END
$$;

-- Move the job to the reported status, renew the lease, and return the commands that are not acknowledged.
CREATE FUNCTION wms_report_status(
    the_match uuid,
    the_status text,
    -- Statuses from which it is reached.
    sources text[],
    the_minor_status text,
    -- Null: unchanged.
    the_application_status text,
    lease_s double precision,
    seen_within_s double precision
) RETURNS TABLE (lease_end timestamptz, orders jsonb) LANGUAGE plpgsql
-- Every table is read by a key; the planner may use outdated statistics of a table that was empty.
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    moved record;
BEGIN
    SELECT * INTO lease FROM wms_reported_lease(the_match, sources, seen_within_s, right_now);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE jobs_job
       SET status = the_status,
           minor_status = the_minor_status,
           application_status = coalesce(the_application_status, application_status),
           status_changed_at = right_now,
           started_at = CASE WHEN the_status = 'Running' THEN coalesce(started_at, right_now) ELSE started_at END
     WHERE id = lease.job_id AND status = ANY (sources)
    RETURNING application_status INTO moved;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE matching_match
       SET reported_status = the_status,
           -- Never shorter: the expirer may have extended it after its own outage.
           expires_at = CASE WHEN reported_at IS NULL THEN right_now + make_interval(secs => lease_s)
                             ELSE greatest(expires_at, right_now + make_interval(secs => lease_s)) END,
           reported_at = right_now
     WHERE id = the_match AND ended_at IS NULL
    RETURNING expires_at,
              (SELECT jsonb_agg(jsonb_build_array(command.id, command.name, command.arguments) ORDER BY command.id)
                 FROM jobs_jobcommand AS command
                WHERE command.job_id = lease.job_id AND command.acknowledged_at IS NULL)
         INTO lease_end, orders;
    IF NOT FOUND THEN
        RAISE NO_DATA_FOUND USING MESSAGE = 'The lease has just ended.';
    END IF;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (
        lease.job_id, right_now, the_status, the_minor_status, moved.application_status, 'pilot ' || lease.pilot_id
    );
    RETURN NEXT;
END
$$;

-- End the lease with the result of the payload; return whether that was done.
CREATE FUNCTION wms_end_lease(
    the_match uuid,
    -- The job's last one.
    the_status text,
    -- Statuses from which it is reached, of jobs that pilots have.
    sources text[],
    the_minor_status text,
    the_reason text,
    is_job_at_fault boolean,
    -- Null: none.
    the_exit_code integer,
    -- Null: not measured.
    the_cpu_s double precision,
    the_wall_s double precision,
    the_memory_mb double precision,
    the_disk_mb double precision,
    -- SHA-256 of the output sandbox; null: none.
    the_output_digest text,
    -- Its file name, with %s for the id of the job.
    the_output_name text,
    -- Last lines, compressed; null: unchanged.
    the_std_output bytea,
    the_std_error bytea,
    seen_within_s double precision
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    moved record;
    the_output bigint;
BEGIN
    IF the_output_digest IS NOT NULL THEN
        -- Uploaded for this job; locked against removal until the job refers to it.
        SELECT sandbox.id INTO the_output
          FROM matching_match AS its
          JOIN jobs_job AS job ON job.id = its.job_id
          JOIN jobs_sandbox AS sandbox ON sandbox.digest = the_output_digest
          JOIN jobs_sandboxupload AS upload
            ON upload.sandbox_id = sandbox.id AND upload.owner_id = job.owner_id
           AND upload.file_name = format(the_output_name, its.job_id)
         WHERE its.id = the_match
           FOR KEY SHARE OF sandbox;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    SELECT * INTO lease FROM wms_reported_lease(the_match, sources, seen_within_s, right_now);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE jobs_job
       SET status = the_status,
           minor_status = the_minor_status,
           status_changed_at = right_now,
           ended_at = right_now,
           heartbeat_at = right_now,
           -- The highest value, ignoring nulls: reports may arrive late.
           cpu_s = greatest(cpu_s, the_cpu_s),
           wall_s = greatest(wall_s, the_wall_s),
           max_memory_mb = greatest(max_memory_mb, the_memory_mb),
           max_disk_mb = greatest(max_disk_mb, the_disk_mb),
           exit_code = the_exit_code,
           output_sandbox_id = the_output
     WHERE id = lease.job_id AND status = ANY (sources)
    RETURNING application_status, reschedules INTO moved;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF the_std_output IS NOT NULL OR the_std_error IS NOT NULL THEN
        PERFORM wms_store_tails(lease.job_id, moved.reschedules, the_std_output, the_std_error);
    END IF;
    UPDATE matching_match
       SET ended_at = right_now, end_reason = the_reason, job_at_fault = is_job_at_fault
     WHERE id = the_match AND ended_at IS NULL;
    IF NOT FOUND THEN
        RAISE NO_DATA_FOUND USING MESSAGE = 'The lease has just ended.';
    END IF;
    -- Commands for this lease; they must not reach the next pilot of the job.
    UPDATE jobs_jobcommand SET acknowledged_at = right_now WHERE job_id = lease.job_id AND acknowledged_at IS NULL;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (
        lease.job_id, right_now, the_status, the_minor_status, moved.application_status, 'pilot ' || lease.pilot_id
    );
    RETURN true;
END
$$;
