-- Reports of pilots on leases: heartbeats, status reports and ends. These functions are the whole rule (ADR 70): for each
-- state of lease, job and pilot they decide, write and answer, in one round trip that is one transaction, because
-- thousands of pilots send one every 30 s. One step is left to the caller, in the same transaction: if `goes_back` is
-- true, the job returns to a task queue, whose definition is made in Python.
--
-- A refused report changes nothing: its answer is the `code` of the error, with the facts for its sentence, and is given
-- before anything is written. No answer: the lease is unknown, or another pilot's. If the pilot is revoked, the lease ends,
-- or the job gets another status, while a report waits for a lock, an error (no_data_found, of INTO STRICT) rolls back
-- what was written, and the caller sends the report again.
--
-- Locks: Sandbox → Pilot → Job → Match (ADR 17). Rows about an attempt are written under the lock of the job; counters of
-- limits only get new rows, by the trigger of jobs. Every table is read by a key; the planner may use outdated statistics
-- of a table that was empty, so sequential scans are off. A function that is assigned, as is_done, costs less than one
-- that is performed.

-- The lease of a report, with its job and pilot; no row: it is unknown, or another pilot's. The planner puts this query
-- into that of the caller, without joins that the caller does not need.
CREATE FUNCTION wms_reported_lease(
    the_match uuid,
    -- Null: the caller has checked that the lease is its own.
    the_pilot bigint,
    -- Age in seconds from which on the pilot's last sign of life is written again.
    seen_within_s double precision,
    right_now timestamptz
) RETURNS TABLE (
    job_id bigint,
    pilot_id bigint,
    leased_at timestamptz,
    ended_at timestamptz,
    reported_at timestamptz,
    -- Reports that changed only the words of the job.
    changes smallint,
    -- Of the job.
    status text,
    is_leased boolean,
    is_unseen boolean,
    refusal json
) LANGUAGE sql STABLE AS $$
    SELECT its.job_id, its.pilot_id, its.leased_at, its.ended_at, its.reported_at, its.changes, job.status,
           job.status = ANY ('{Matched,Running,Stalled,Completing}'),
           (pilot.last_seen_at > right_now - make_interval(secs => seen_within_s)) IS NOT TRUE,
           CASE WHEN pilot.revoked_at IS NOT NULL THEN json_build_object('code', 'pilot_revoked')
                WHEN its.ended_at IS NOT NULL
                THEN json_build_object('code', 'lease_ended', 'end_reason', its.end_reason) END
      FROM matching_match AS its
      JOIN pilots_pilot AS pilot ON pilot.id = its.pilot_id
      LEFT JOIN jobs_job AS job ON job.id = its.job_id
     WHERE its.id = the_match AND (the_pilot IS NULL OR its.pilot_id = the_pilot)
$$;

-- Number of the attempt of a job; one that is rescheduled while its pilot has it is in the same attempt until the pilot
-- has stopped it.
CREATE FUNCTION wms_attempt(reschedules smallint, status text) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(0, reschedules - (status = 'Rescheduled')::integer)::smallint
$$;

-- Move a leased job to a status that its pilot has reported. Null: unchanged.
CREATE FUNCTION wms_move_leased_job(
    the_job bigint,
    the_pilot bigint,
    status_before text,
    the_status text,
    the_minor_status text,
    the_application_status text,
    right_now timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    moved record;
BEGIN
    UPDATE jobs_job
       SET status = the_status,
           minor_status = coalesce(the_minor_status, minor_status),
           application_status = coalesce(the_application_status, application_status),
           status_changed_at = right_now,
           started_at = CASE WHEN the_status = 'Running' THEN coalesce(started_at, right_now) ELSE started_at END
     WHERE id = the_job AND status = status_before
       -- Of two equal reports at once, one adds a line of history.
       AND (status_before <> the_status OR minor_status <> the_minor_status OR application_status <> the_application_status)
    RETURNING minor_status, application_status INTO STRICT moved;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (the_job, right_now, the_status, moved.minor_status, moved.application_status, 'pilot ' || the_pilot);
    RETURN true;
END
$$;

-- The time that a payload may have used by one processor: never negative, though the clock may have been set back.
CREATE FUNCTION wms_longest_use_s(
    leased_at timestamptz,
    until timestamptz,
    -- Allows for inexact clocks.
    usage_factor double precision
) RETURNS double precision LANGUAGE sql IMMUTABLE AS $$
    SELECT greatest(0, usage_factor * extract(epoch FROM until - leased_at)::double precision)
$$;

-- The CPU and wall-clock time that count: at most what the lease and its processors allow. A pilot that reports more gets a
-- note, one for each job.
CREATE FUNCTION wms_possible_usage(
    the_job bigint,
    the_pilot bigint,
    -- As returned by wms_longest_use_s.
    longest_s double precision,
    INOUT cpu_s double precision,
    INOUT wall_s double precision
) LANGUAGE plpgsql AS $$
DECLARE
    -- Of the job; of one that has its node alone, those of its queue. Unknown: one.
    processors CONSTANT double precision := coalesce((
        SELECT greatest((stored.description ->> 'processors')::double precision,
                        CASE WHEN stored.description -> 'tags' ? 'WholeNode' THEN queue.processors END)
          FROM jobs_job AS job
          JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
          LEFT JOIN pilots_pilot AS pilot ON pilot.id = the_pilot
          LEFT JOIN resources_queue AS queue ON queue.id = pilot.queue_id
         WHERE job.id = the_job
    ), 1);
    most_cpu_s CONSTANT double precision := processors * longest_s;
    note text;
BEGIN
    IF cpu_s > most_cpu_s THEN
        note := format('job %s: %s s of CPU time reported, %s s counted', the_job, round(cpu_s::numeric), round(most_cpu_s::numeric));
    ELSIF wall_s > longest_s THEN
        note := format('job %s: %s s of wall-clock time reported, %s s counted', the_job, round(wall_s::numeric), round(longest_s::numeric));
    END IF;
    UPDATE pilots_pilot SET cut_usage = note
     WHERE id = the_pilot AND note IS NOT NULL AND NOT starts_with(cut_usage, format('job %s:', the_job));
    cpu_s := least(cpu_s, most_cpu_s);
    wall_s := least(wall_s, longest_s);
END
$$;

-- The end of a lease that is renewed: never earlier, as the expirer may have extended it after its own outage; but the time
-- before the first report is another one.
CREATE FUNCTION wms_renewed_until(
    expires_at timestamptz, reported_at timestamptz, lease_s double precision, right_now timestamptz
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN reported_at IS NULL THEN right_now + make_interval(secs => lease_s)
                ELSE greatest(expires_at, right_now + make_interval(secs => lease_s)) END
$$;

-- End an open lease.
CREATE FUNCTION wms_end_lease(
    the_match uuid,
    the_reason text,
    -- Whether the node lacks what the job itself requires.
    is_job_at_fault boolean,
    -- Whether the pilot, or its process for the job, died; it counts if the payload ran.
    has_died boolean,
    right_now timestamptz
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    the_job bigint;
BEGIN
    UPDATE matching_match
       SET ended_at = right_now,
           end_reason = the_reason,
           job_at_fault = is_job_at_fault,
           died = has_died AND reported_status = 'Running'
     WHERE id = the_match AND ended_at IS NULL
    RETURNING job_id INTO STRICT the_job;
    -- Commands for this lease; they must not reach the next pilot of the job.
    UPDATE jobs_jobcommand SET acknowledged_at = right_now WHERE job_id = the_job AND acknowledged_at IS NULL;
    RETURN true;
END
$$;

-- Renew the lease, record the usage and the last lines of the payload, and return the commands that are not acknowledged.
-- An acknowledged kill command ends the lease: the payload is gone. An ordinary heartbeat writes no indexed column, so
-- that no index is written (HOT).
CREATE FUNCTION wms_heartbeat(
    the_match uuid,
    the_pilot bigint,
    -- Null: not measured.
    the_cpu_s double precision,
    the_wall_s double precision,
    the_memory_mb double precision,
    the_disk_mb double precision,
    -- Last lines, compressed; null: unchanged.
    the_std_output bytea,
    the_std_error bytea,
    -- Ids of commands that the pilot has executed; null: none.
    acknowledged bigint[],
    lease_s double precision,
    seen_within_s double precision,
    usage_factor double precision
) RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    its_job record;
    answer json;
    longest_s double precision;
    is_done boolean;
    is_killed boolean := false;
BEGIN
    SELECT its.job_id, its.pilot_id, its.leased_at, its.reported_at, its.is_unseen, its.refusal INTO lease
      FROM wms_reported_lease(the_match, the_pilot, seen_within_s, right_now) AS its;
    IF NOT FOUND OR lease.refusal IS NOT NULL THEN
        RETURN lease.refusal;
    END IF;
    IF lease.is_unseen THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id AND revoked_at IS NULL
        RETURNING id INTO STRICT lease.pilot_id;
    END IF;
    longest_s := wms_longest_use_s(lease.leased_at, right_now, usage_factor);
    IF the_cpu_s > longest_s OR the_wall_s > longest_s THEN
        SELECT * INTO the_cpu_s, the_wall_s
          FROM wms_possible_usage(lease.job_id, lease.pilot_id, longest_s, the_cpu_s, the_wall_s);
    END IF;
    UPDATE jobs_job
       SET heartbeat_at = right_now,
           -- The highest value, ignoring nulls: reports may arrive late.
           cpu_s = greatest(cpu_s, the_cpu_s),
           wall_s = greatest(wall_s, the_wall_s),
           max_memory_mb = greatest(max_memory_mb, the_memory_mb),
           max_disk_mb = greatest(max_disk_mb, the_disk_mb)
     WHERE id = lease.job_id
    RETURNING status, started_at, wms_attempt(reschedules, status) AS attempt INTO its_job;
    IF the_std_output IS NOT NULL OR the_std_error IS NOT NULL THEN
        PERFORM wms_store_tails(lease.job_id, its_job.attempt, the_std_output, the_std_error);
    END IF;
    is_done := wms_sample_usage(
        lease.job_id, its_job.attempt, its_job.started_at, lease.reported_at, right_now,
        the_cpu_s, the_memory_mb, the_disk_mb
    );
    IF its_job.status = 'Stalled' THEN
        is_done := wms_move_leased_job(
            lease.job_id, lease.pilot_id, its_job.status,
            (SELECT its.reported_status FROM matching_match AS its WHERE its.id = the_match),
            'Heartbeats resumed', NULL, right_now
        );
    ELSIF acknowledged IS NULL AND the_std_output IS NULL AND the_std_error IS NULL THEN
        -- Of the next heartbeat all is true again, and a lease that seems to end while the database was down is extended,
        -- so no answer waits until this one is on disk. Lines of output are sent once.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    IF acknowledged IS NOT NULL THEN
        WITH executed AS (
            UPDATE jobs_jobcommand AS command SET acknowledged_at = right_now
             WHERE command.job_id = lease.job_id AND command.id = ANY (acknowledged) AND command.acknowledged_at IS NULL
            RETURNING command.name
        )
        SELECT count(*) > 0 INTO is_killed FROM executed WHERE executed.name = 'kill';
    END IF;
    IF is_killed THEN
        is_done := wms_end_lease(the_match, 'killed', false, false, right_now);
        RETURN json_build_object('expires_at', right_now, 'goes_back', its_job.status = 'Rescheduled');
    END IF;
    UPDATE matching_match
       SET expires_at = wms_renewed_until(expires_at, reported_at, lease_s, right_now), reported_at = right_now
     WHERE id = the_match AND ended_at IS NULL
    -- Uses index: command_to_be_obeyed
    RETURNING json_build_object('expires_at', expires_at, 'commands', (
                  SELECT json_agg(json_build_array(command.id, command.name, command.arguments) ORDER BY command.id)
                    FROM jobs_jobcommand AS command
                   WHERE command.job_id = lease.job_id AND command.acknowledged_at IS NULL))
         INTO STRICT answer;
    RETURN answer;
END
$$;

-- Move the job to the reported status, or, if it has that already, change its words; renew the lease, and return the
-- commands that are not acknowledged. A job that was killed or rescheduled keeps its status.
CREATE FUNCTION wms_report_status(
    the_match uuid,
    the_pilot bigint,
    the_status text,
    -- Statuses from which it is reached.
    sources text[],
    -- Null: unchanged if the status is, else empty.
    the_minor_status text,
    -- Null: unchanged.
    the_application_status text,
    lease_s double precision,
    seen_within_s double precision,
    -- Reports of a lease that may change words only; 0: any number.
    most_changes integer
) RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    answer json;
    moves boolean;
    changes_words boolean;
    is_done boolean;
BEGIN
    SELECT * INTO lease FROM wms_reported_lease(the_match, the_pilot, seen_within_s, right_now);
    IF NOT FOUND OR lease.refusal IS NOT NULL THEN
        RETURN lease.refusal;
    END IF;
    moves := lease.is_leased AND lease.status <> the_status;
    IF moves AND NOT lease.status = ANY (sources) THEN
        RETURN json_build_object(
            'code', 'illegal_transition', 'job', lease.job_id, 'status', lease.status, 'target', the_status
        );
    END IF;
    changes_words := lease.is_leased AND lease.status = the_status AND EXISTS (
        SELECT FROM jobs_job AS job
         WHERE job.id = lease.job_id
           AND (job.minor_status <> the_minor_status OR job.application_status <> the_application_status)
    );
    IF changes_words AND most_changes > 0 AND lease.changes >= most_changes THEN
        RETURN json_build_object('code', 'too_many_changes', 'job', lease.job_id);
    END IF;
    IF lease.is_unseen THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id AND revoked_at IS NULL
        RETURNING id INTO STRICT lease.pilot_id;
    END IF;
    IF moves THEN
        is_done := wms_move_leased_job(
            lease.job_id, lease.pilot_id, lease.status, the_status,
            coalesce(the_minor_status, ''), the_application_status, right_now
        );
    ELSIF changes_words THEN
        is_done := wms_move_leased_job(
            lease.job_id, lease.pilot_id, lease.status, the_status,
            the_minor_status, the_application_status, right_now
        );
    ELSIF lease.is_leased THEN
        -- A job that becomes Stalled meanwhile is revived.
        SELECT job.status FROM jobs_job AS job
         WHERE job.id = lease.job_id AND job.status = lease.status
           FOR NO KEY UPDATE INTO STRICT lease.status;
    END IF;
    UPDATE matching_match
       SET expires_at = wms_renewed_until(expires_at, reported_at, lease_s, right_now), reported_status = the_status,
           reported_at = right_now,
           -- Without a bound their number may exceed the type.
           changes = least(changes + changes_words::integer, 32767)
     WHERE id = the_match AND ended_at IS NULL
    -- Uses index: command_to_be_obeyed
    RETURNING json_build_object('expires_at', expires_at, 'moved', moves, 'job', job_id, 'pilot', pilot_id, 'commands', (
                  SELECT json_agg(json_build_array(command.id, command.name, command.arguments) ORDER BY command.id)
                    FROM jobs_jobcommand AS command
                   WHERE command.job_id = lease.job_id AND command.acknowledged_at IS NULL))
         INTO STRICT answer;
    RETURN answer;
END
$$;

-- Record the end of the payload, end the lease, and return the status of the job. A job that was killed or rescheduled
-- keeps its status; usage, output and last lines are recorded all the same. To repeat the report is harmless.
CREATE FUNCTION wms_finish(
    the_match uuid,
    the_pilot bigint,
    -- The job's last one; null: the job returns to its task queue.
    the_status text,
    -- Statuses from which it is reached directly; from others by Completing, because a pilot may have been cut off while
    -- its payload ran.
    sources text[],
    the_minor_status text,
    is_job_at_fault boolean,
    has_died boolean,
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
    -- The line of them that tells why the payload failed, and the key of its kind; null: unknown.
    the_cause_line text,
    the_cause text,
    seen_within_s double precision,
    usage_factor double precision,
    -- Whether the caller can put the job back into a task queue; if it has to and cannot, nothing changes.
    may_go_back boolean
) RETURNS json LANGUAGE plpgsql
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    is_open boolean;
    ends_job boolean;
    goes_back boolean;
    longest_s double precision;
    the_output bigint;
    its_job record;
    is_done boolean;
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
    END IF;
    SELECT * INTO lease FROM wms_reported_lease(the_match, the_pilot, seen_within_s, right_now);
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    is_open := lease.refusal IS NULL;
    IF NOT is_open THEN
        IF lease.refusal ->> 'end_reason' = 'finished' THEN
            RETURN json_build_object('status', lease.status);
        END IF;
        -- After a kill command, the pilot that had the job last may still add usage and output (ADR 10).
        IF (lease.refusal ->> 'end_reason' = 'killed' AND lease.status = 'Killed' AND NOT EXISTS (
            SELECT FROM matching_match AS its JOIN matching_match AS later ON later.job_id = its.job_id
             WHERE its.id = the_match AND later.leased_at > its.leased_at
        )) IS NOT TRUE THEN
            RETURN lease.refusal;
        END IF;
    END IF;
    IF the_output_digest IS NOT NULL AND the_output IS NULL THEN
        RETURN json_build_object('code', 'unusable_sandbox');
    END IF;
    ends_job := is_open AND lease.is_leased AND the_status IS NOT NULL;
    goes_back := is_open AND (lease.status = 'Rescheduled' OR lease.is_leased AND the_status IS NULL);
    IF goes_back AND NOT may_go_back THEN
        RETURN json_build_object('goes_back', true);
    END IF;
    IF lease.is_unseen THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id AND revoked_at IS NULL
        RETURNING id INTO STRICT lease.pilot_id;
    END IF;
    longest_s := wms_longest_use_s(lease.leased_at, coalesce(lease.ended_at, right_now), usage_factor);
    IF the_cpu_s > longest_s OR the_wall_s > longest_s THEN
        SELECT * INTO the_cpu_s, the_wall_s
          FROM wms_possible_usage(lease.job_id, lease.pilot_id, longest_s, the_cpu_s, the_wall_s);
    END IF;
    UPDATE jobs_job
       SET status = CASE WHEN ends_job THEN the_status ELSE status END,
           minor_status = CASE WHEN ends_job THEN the_minor_status ELSE minor_status END,
           status_changed_at = CASE WHEN ends_job THEN right_now ELSE status_changed_at END,
           ended_at = CASE WHEN ends_job THEN right_now ELSE ended_at END,
           heartbeat_at = right_now,
           -- The highest value, ignoring nulls: reports may arrive late.
           cpu_s = greatest(cpu_s, the_cpu_s),
           wall_s = greatest(wall_s, the_wall_s),
           max_memory_mb = greatest(max_memory_mb, the_memory_mb),
           max_disk_mb = greatest(max_disk_mb, the_disk_mb),
           exit_code = the_exit_code,
           output_sandbox_id = the_output
     WHERE id = lease.job_id AND status = lease.status
    RETURNING status, application_status, wms_attempt(reschedules, status) AS attempt INTO STRICT its_job;
    IF the_std_output IS NOT NULL OR the_std_error IS NOT NULL OR the_cause IS NOT NULL THEN
        PERFORM wms_store_tails(
            lease.job_id, its_job.attempt, the_std_output, the_std_error, the_cause_line, the_cause
        );
    END IF;
    IF is_open THEN
        is_done := wms_end_lease(the_match, 'finished', is_job_at_fault, has_died, right_now);
    END IF;
    IF ends_job THEN
        IF NOT lease.status = ANY (sources) THEN
            INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
            VALUES (
                lease.job_id, right_now, 'Completing', '', its_job.application_status, 'pilot ' || lease.pilot_id
            );
        END IF;
        INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
        VALUES (
            lease.job_id, right_now, the_status, the_minor_status, its_job.application_status,
            'pilot ' || lease.pilot_id
        );
    END IF;
    RETURN json_build_object(
        'status', its_job.status, 'goes_back', goes_back, 'moved', ends_job, 'job', lease.job_id, 'pilot', lease.pilot_id
    );
END
$$;
