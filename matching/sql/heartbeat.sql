-- The ordinary heartbeat: one round trip that is one transaction, because thousands of pilots send one every 30 s. It
-- renews the lease and records the usage of the payload. It returns nothing, and has changed nothing of lease and job,
-- if more is to be done: the lease has ended, is unknown or another pilot's, the pilot was revoked, the job is Stalled.
-- If the lease ends at the same moment, an error (no_data_found) rolls back what was written of the job.
--
-- Locks: Pilot → Job → Match; rows about the attempt are written under the lock of the job. No indexed column is written,
-- so that no index is (HOT).
CREATE FUNCTION wms_heartbeat(
    the_match uuid,
    -- Null: the caller has checked that the lease is its own.
    the_pilot bigint,
    -- Null: not measured.
    the_cpu_s double precision,
    the_wall_s double precision,
    the_memory_mb double precision,
    the_disk_mb double precision,
    -- Last lines, compressed; null: unchanged.
    the_std_output bytea,
    the_std_error bytea,
    lease_s double precision,
    -- Age in seconds from which on the pilot's own last sign of life is written again.
    seen_within_s double precision
) RETURNS TABLE (lease_end timestamptz, orders jsonb) LANGUAGE plpgsql
-- Every table is read by a key; the planner may use outdated statistics of a table that was empty.
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    its_job record;
    is_sampled boolean;
BEGIN
    SELECT its.job_id, its.pilot_id, its.reported_at, pilot.last_seen_at INTO lease
      FROM matching_match AS its JOIN pilots_pilot AS pilot ON pilot.id = its.pilot_id
     WHERE its.id = the_match AND its.ended_at IS NULL AND pilot.revoked_at IS NULL
       AND (the_pilot IS NULL OR its.pilot_id = the_pilot);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF (lease.last_seen_at > right_now - make_interval(secs => seen_within_s)) IS NOT TRUE THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id AND revoked_at IS NULL;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF the_std_output IS NULL AND the_std_error IS NULL THEN
        -- Of the next heartbeat all is true again, and a lease that seems to end while the database was down is extended,
        -- so no answer waits until this one is on disk. Lines of output are sent once.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    UPDATE jobs_job
       SET heartbeat_at = right_now,
           -- The highest value, ignoring nulls: reports may arrive late.
           cpu_s = greatest(cpu_s, the_cpu_s),
           wall_s = greatest(wall_s, the_wall_s),
           max_memory_mb = greatest(max_memory_mb, the_memory_mb),
           max_disk_mb = greatest(max_disk_mb, the_disk_mb)
     WHERE id = lease.job_id AND status <> 'Stalled'
    -- One that is rescheduled while its pilot has it is in the same attempt until the pilot has stopped it.
    RETURNING started_at, greatest(0, reschedules - (status = 'Rescheduled')::integer)::smallint AS attempt INTO its_job;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF the_std_output IS NOT NULL OR the_std_error IS NOT NULL THEN
        PERFORM wms_store_tails(lease.job_id, its_job.attempt, the_std_output, the_std_error);
    END IF;
    is_sampled := wms_sample_usage(
        lease.job_id, its_job.attempt, its_job.started_at, lease.reported_at, right_now,
        the_cpu_s, the_memory_mb, the_disk_mb
    );
    UPDATE matching_match
       -- Never shorter: the expirer may have extended it after its own outage.
       SET expires_at = CASE WHEN reported_at IS NULL THEN right_now + make_interval(secs => lease_s)
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
    RETURN NEXT;
END
$$;
