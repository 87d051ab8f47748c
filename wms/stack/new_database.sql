-- Migrations: 43cef22822b9a983e0d7360a2fd7dd1ae522f5b44335d55296857cf8d9d0a36c
-- Written by `python -m tests.new_database` from what all migrations make (ADR 69); never edited.
SELECT pg_catalog.set_config('search_path', '', true);
SET LOCAL check_function_bodies = false;

CREATE TYPE public.wms_claimed AS (
	answer text,
	reason text,
	limit_id bigint,
	remaining integer,
	opens_at timestamp with time zone,
	ordinal smallint,
	match_id uuid,
	expires_at timestamp with time zone,
	job_id bigint,
	owner text,
	group_name text,
	description jsonb,
	input_sandboxes jsonb
);

CREATE TYPE public.wms_room AS (
	full_limit bigint,
	slots bigint[],
	paced bigint[]
);

CREATE FUNCTION public.wms_attempt(reschedules smallint, status text) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT greatest(0, reschedules - (status = 'Rescheduled')::integer)::smallint
$$;

CREATE FUNCTION public.wms_avoided_places(the_task_queue bigint, the_user_priority smallint) RETURNS TABLE(queue_ids bigint[], host text, first_not_before timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
    -- Uses index: queued_job_by_avoided_place
    WITH RECURSIVE place AS (
        (SELECT coalesce(waiting.avoided_queue_ids, '{}') AS queue_ids, coalesce(waiting.avoided_host, '') AS host,
                waiting.not_before
           FROM taskqueues_queuedjob AS waiting
          WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
            AND waiting.is_held_back
          ORDER BY coalesce(waiting.avoided_queue_ids, '{}'), coalesce(waiting.avoided_host, ''), waiting.not_before
          LIMIT 1)
        UNION ALL
        SELECT following.queue_ids, following.host, following.not_before
          FROM place
         CROSS JOIN LATERAL (
              SELECT coalesce(waiting.avoided_queue_ids, '{}') AS queue_ids, coalesce(waiting.avoided_host, '') AS host,
                     waiting.not_before
                FROM taskqueues_queuedjob AS waiting
               WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                 AND waiting.is_held_back
                 AND (coalesce(waiting.avoided_queue_ids, '{}'), coalesce(waiting.avoided_host, ''))
                     > (place.queue_ids, place.host)
               ORDER BY coalesce(waiting.avoided_queue_ids, '{}'), coalesce(waiting.avoided_host, ''), waiting.not_before
               LIMIT 1
         ) AS following
    )
    SELECT place.queue_ids, place.host::text, place.not_before FROM place
$$;

CREATE FUNCTION public.wms_claim(the_pilot bigint, the_request uuid, the_ordinal smallint, the_match uuid, the_task_queue bigint, the_user_priority smallint, chance double precision, may_wait boolean, the_site bigint, the_ce bigint, the_queue bigint, first_lease_s double precision, seen_within_s double precision, seen_version bigint, seen_matched integer, the_ce_name text, the_queue_name text, locks_throttle boolean DEFAULT false, the_slot jsonb DEFAULT '{}'::jsonb) RETURNS SETOF public.wms_claimed
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    claimed wms_claimed;
    pilot record;
    facts record;
    held_jobs bigint[];
    requirements jsonb;
    room wms_room;
    moved record;
    oldest bigint[];
    -- Whether held-back jobs wait at the level.
    some_held_back boolean;
    many integer;
BEGIN
    claimed.answer := 'closed';
    -- Checked before anything is written, because closed places are common. A repeated request that already has a lease
    -- gets it from wms_close_request.
    SELECT task_queue.cpu_time_s, task_queue.submit_pools, task_queue.vo_id, task_queue.group_id, task_queue.owner_id,
           task_queue.job_type, owner.username AS owner, job_group.name AS group_name,
           -- Jobs of a suspended owner wait, and those of one who is no longer a member of the group.
           owner.is_active AND membership.id IS NOT NULL AS owner_is_active_member,
           site.name AS site_name,
           coalesce(site.throttle_policy, '') <> '' AS is_throttled,
           the_site IS NULL OR (site.state = 'active' OR site.state_until <= right_now) IS TRUE AS site_is_open,
           the_ce IS NULL OR (ce.state = 'active' OR ce.state_until <= right_now) IS TRUE AS ce_is_open,
           the_queue IS NULL OR (queue.state = 'active' OR queue.state_until <= right_now) IS TRUE AS queue_is_open,
           -- Null: the site names none, and serves all.
           (SELECT bool_or(served.vo_id = task_queue.vo_id) FROM resources_site_vos AS served
             WHERE served.site_id = the_site) AS serves_vo
      INTO facts
      FROM taskqueues_taskqueue AS task_queue
      JOIN accounts_user AS owner ON owner.id = task_queue.owner_id
      JOIN accounts_group AS job_group ON job_group.id = task_queue.group_id
      LEFT JOIN accounts_membership AS membership
        ON membership.user_id = task_queue.owner_id AND membership.group_id = task_queue.group_id
      LEFT JOIN resources_site AS site ON site.id = the_site
      LEFT JOIN resources_computingelement AS ce ON ce.id = the_ce
      LEFT JOIN resources_queue AS queue ON queue.id = the_queue
     WHERE task_queue.id = the_task_queue;
    IF NOT FOUND THEN
        claimed.answer := 'gone';
        RETURN NEXT claimed;
        RETURN;
    END IF;
    claimed.reason := CASE
        WHEN NOT facts.site_is_open THEN 'site'
        WHEN NOT facts.ce_is_open THEN 'ce'
        WHEN NOT facts.queue_is_open THEN 'queue'
        WHEN NOT facts.serves_vo THEN 'vo'
        WHEN NOT facts.owner_is_active_member THEN 'owner'
        WHEN facts.is_throttled THEN wms_why_throttled(the_site, seen_version, seen_matched, right_now)
        ELSE ''
    END;
    IF locks_throttle AND claimed.reason = 'throttle_moved' THEN
        claimed.reason := '';
    END IF;
    IF claimed.reason = '' AND the_queue IS NOT NULL AND cardinality(facts.submit_pools) > 0 THEN
        PERFORM FROM taskqueues_submitpool_queues AS member
          WHERE member.queue_id = the_queue AND member.submitpool_id = ANY (facts.submit_pools);
        claimed.reason := CASE WHEN FOUND THEN '' ELSE 'pool' END;
    END IF;
    IF claimed.reason = '' AND the_queue IS NULL THEN
        claimed.reason := coalesce(
            (SELECT wms_why_not_at_unknown_place(
                        task_queue, the_site, the_ce, the_ce_name, the_queue_name, right_now
                    )
               FROM taskqueues_taskqueue AS task_queue WHERE task_queue.id = the_task_queue),
            ''
        );
    END IF;
    IF claimed.reason <> '' THEN
        RETURN NEXT claimed;
        RETURN;
    END IF;

    -- Which jobs pilots hold is about to change (limits.sql).
    PERFORM pg_advisory_xact_lock_shared(7);
    -- A concurrent repetition of the request waits here.
    SELECT status, last_seen_at, matched_at, answered_request_id, host_name,
           ended_at IS NULL AND revoked_at IS NULL AND drained_at IS NULL AND black_hole_id IS NULL AS may_go_on
      INTO pilot
      FROM pilots_pilot WHERE id = the_pilot FOR NO KEY UPDATE;
    IF pilot.may_go_on IS NOT TRUE THEN
        claimed.reason := wms_lock_pilot(the_pilot);
        RETURN NEXT claimed;
        RETURN;
    END IF;
    -- Rare; looking for the whole lease at once would take half of the claim's time.
    IF EXISTS (
        SELECT FROM matching_match AS lease
         WHERE lease.pilot_id = the_pilot AND lease.request_id = the_request AND lease.ordinal = the_ordinal
    ) THEN
        RETURN QUERY SELECT * FROM wms_leases(the_pilot, the_request) AS lease WHERE lease.ordinal = the_ordinal;
        RETURN;
    END IF;
    IF pilot.answered_request_id = the_request THEN
        claimed.reason := 'request_answered';
        RETURN NEXT claimed;
        RETURN;
    END IF;

    -- Whatever it offers, and however many requests it sends at once: they wait for its lock. Most pilots have no open
    -- lease, and a query of one table is planned in a fraction of the time of a join.
    IF the_slot <> '{}' THEN
        -- Uses index: match_open
        SELECT array_agg(lease.job_id)
          INTO held_jobs
          FROM matching_match AS lease
         WHERE lease.pilot_id = the_pilot AND lease.ended_at IS NULL;
        IF held_jobs IS NOT NULL THEN
            SELECT to_jsonb(task_queue) INTO requirements
              FROM taskqueues_taskqueue AS task_queue WHERE task_queue.id = the_task_queue;
            PERFORM FROM wms_required_by(held_jobs, ARRAY(SELECT jsonb_object_keys(the_slot))) AS held
              WHERE held.required + (requirements ->> held.name)::bigint > (the_slot ->> held.name)::bigint;
            IF FOUND THEN
                claimed.reason := 'slot';
                RETURN NEXT claimed;
                RETURN;
            END IF;
        END IF;
    END IF;

    LOOP
        -- Read without locks: if all ten were locked, other claims would find none.
        SELECT ARRAY(
                   SELECT waiting.job_id FROM taskqueues_queuedjob AS waiting
                    WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                      AND NOT waiting.is_held_back
                    ORDER BY waiting.job_id LIMIT 10
               ),
               EXISTS (
                   SELECT FROM taskqueues_queuedjob AS waiting
                    WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                      AND waiting.is_held_back
               )
          INTO oldest, some_held_back;
        IF some_held_back THEN
            oldest := ARRAY(
                SELECT candidate.job_id
                  FROM (
                      SELECT unnest(oldest) AS job_id
                      UNION
                      SELECT * FROM wms_held_back_jobs(
                          the_task_queue, the_user_priority, the_queue, pilot.host_name, right_now
                      )
                  ) AS candidate
                 ORDER BY candidate.job_id LIMIT 10
            );
        END IF;
        many := cardinality(oldest);
        IF many = 0 AND some_held_back THEN
            SELECT held_for, opens_at INTO claimed.reason, claimed.opens_at
              FROM wms_held_back_until(the_task_queue, the_user_priority, the_queue, pilot.host_name, right_now);
            -- Null: they have been taken, or withdrawn, in the meantime.
            IF claimed.opens_at IS NOT NULL THEN
                claimed.answer := 'held_back';
                RETURN NEXT claimed;
                RETURN;
            END IF;
        END IF;
        IF many = 0 THEN
            claimed.answer := 'empty_level';
            RETURN NEXT claimed;
            RETURN;
        END IF;
        FOR step IN 0 .. many - 1 LOOP
            -- Still of the level, and free: since it was read, a job may have moved to another task queue, which was
            -- not compared, or been given back by the pilot that was faster.
            SELECT waiting.job_id INTO claimed.job_id FROM taskqueues_queuedjob AS waiting
             WHERE waiting.job_id = oldest[1 + (floor(chance * many)::integer + step) % many]
               AND waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
               AND (NOT waiting.is_held_back
                    OR wms_free_from(
                        waiting.not_before, waiting.avoided_until, waiting.avoided_queue_ids, waiting.avoided_host,
                        the_queue, pilot.host_name
                    ) <= right_now)
               FOR UPDATE SKIP LOCKED;
            EXIT WHEN FOUND;
        END LOOP;
        IF claimed.job_id IS NULL THEN
            SELECT waiting.job_id INTO claimed.job_id FROM taskqueues_queuedjob AS waiting
             WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
               AND NOT waiting.is_held_back
             ORDER BY waiting.job_id LIMIT 1
               FOR UPDATE SKIP LOCKED;
        END IF;
        IF claimed.job_id IS NULL AND some_held_back THEN
            claimed.job_id := wms_lock_held_back_job(
                the_task_queue, the_user_priority, the_queue, pilot.host_name, right_now
            );
        END IF;
        EXIT WHEN claimed.job_id IS NOT NULL;
        IF NOT may_wait THEN
            claimed.answer := 'contended';
            RETURN NEXT claimed;
            RETURN;
        END IF;
        -- Until the claim that holds the oldest has ended.
        PERFORM FROM taskqueues_queuedjob AS waiting
          WHERE waiting.job_id = oldest[1]
            AND waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
            FOR UPDATE;
    END LOOP;

    -- Counters are locked before anything is written: if there is no room, nothing must be rolled back.
    IF EXISTS (SELECT FROM taskqueues_limit) THEN
        room := wms_room_in_limits(
            facts.vo_id, the_site, the_ce, facts.group_id, facts.owner_id, facts.job_type, the_pilot, right_now
        );
        IF room.full_limit IS NOT NULL THEN
            claimed.reason := 'limit';
            claimed.limit_id := room.full_limit;
            claimed.job_id := NULL;
            RETURN NEXT claimed;
            RETURN;
        END IF;
    END IF;
    IF facts.is_throttled THEN
        PERFORM FROM resources_throttlestate WHERE site_id = the_site FOR NO KEY UPDATE;
        claimed.reason := wms_why_throttled(the_site, seen_version, seen_matched, right_now);
        IF claimed.reason <> '' THEN
            claimed.job_id := NULL;
            RETURN NEXT claimed;
            RETURN;
        END IF;
    END IF;

    DELETE FROM taskqueues_queuedjob AS taken WHERE taken.job_id = claimed.job_id;
    UPDATE jobs_job
       SET status = 'Matched',
           minor_status = coalesce('At ' || facts.site_name, ''),
           status_changed_at = right_now,
           site_id = the_site,
           ce_id = the_ce,
           queue_id = the_queue,
           pilot_id = the_pilot,
           matched_at = right_now
     WHERE id = claimed.job_id AND status = 'Waiting'
    RETURNING minor_status, application_status,
              (SELECT stored.description || jsonb_build_object('job_name', jobs_job.job_name)
                 FROM jobs_storeddescription AS stored
                WHERE stored.id = jobs_job.stored_description_id) AS description,
              (SELECT * FROM wms_input_sandboxes(jobs_job.id)) AS input_sandboxes
         INTO moved;
    IF NOT FOUND THEN
        -- Invariant violated: a queued job was not Waiting. It stays dequeued, so that it blocks no others.
        claimed.answer := 'contended';
        claimed.reason := 'job_does_not_wait';
        RETURN NEXT claimed;
        RETURN;
    END IF;
    IF room IS DISTINCT FROM NULL THEN
        PERFORM wms_count_in_limits(room, right_now);
    END IF;
    IF facts.is_throttled THEN
        UPDATE resources_throttlestate SET matched = matched + 1 WHERE site_id = the_site;
    END IF;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (
        claimed.job_id, right_now, 'Matched', moved.minor_status, moved.application_status, 'pilot ' || the_pilot
    );
    claimed.match_id := the_match;
    claimed.expires_at := right_now + make_interval(secs => first_lease_s);
    INSERT INTO matching_match (
        id, job_id, pilot_id, request_id, ordinal, queue_id, cpu_segment_s, leased_at, expires_at, reported_status,
        end_reason
    )
    VALUES (
        claimed.match_id, claimed.job_id, the_pilot, the_request, the_ordinal, the_queue, facts.cpu_time_s,
        right_now, claimed.expires_at, 'Matched', ''
    );
    -- A pilot that requests is running, and "any pilot job receiving a payload is immediately flagged" (PIL §2.3). Its row
    -- is wide, so it is not written for a sign of life that is hardly newer.
    IF pilot.matched_at IS NULL OR pilot.status <> 'Running'
       OR (pilot.last_seen_at > right_now - make_interval(secs => seen_within_s)) IS NOT TRUE THEN
        UPDATE pilots_pilot
           SET status = 'Running',
               started_at = coalesce(started_at, right_now),
               last_seen_at = right_now,
               matched_at = coalesce(matched_at, right_now)
         WHERE id = the_pilot;
    END IF;
    claimed.answer := 'leased';
    claimed.ordinal := the_ordinal;
    claimed.remaining := CASE WHEN many < 10 THEN many - 1 END;
    IF claimed.remaining = 0 AND some_held_back THEN
        -- The level is not empty while a held-back job waits there.
        SELECT count(*) INTO claimed.remaining
          FROM (
              SELECT FROM taskqueues_queuedjob AS waiting
               WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority LIMIT 1
          ) AS left_there;
    END IF;
    claimed.description := moved.description;
    claimed.input_sandboxes := moved.input_sandboxes;
    claimed.owner := facts.owner;
    claimed.group_name := facts.group_name;
    RETURN NEXT claimed;
END
$$;

CREATE FUNCTION public.wms_close_request(the_pilot bigint, the_request uuid, nothing jsonb) RETURNS SETOF public.wms_claimed
    LANGUAGE plpgsql
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    refused CONSTANT text := wms_lock_pilot(the_pilot);
    has_some boolean;
BEGIN
    IF refused IN ('black_hole', 'pilot_drained') THEN
        -- Repeated because its answer was lost, it gets its leases all the same.
        RETURN QUERY SELECT * FROM wms_leases(the_pilot, the_request);
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    IF refused <> '' THEN
        RETURN QUERY SELECT 'closed', refused, NULL::bigint, NULL::integer, NULL::timestamptz, NULL::smallint, NULL::uuid, NULL::timestamptz,
                            NULL::bigint, NULL::text, NULL::text, NULL::jsonb, NULL::jsonb;
        RETURN;
    END IF;
    RETURN QUERY SELECT * FROM wms_leases(the_pilot, the_request);
    has_some := FOUND;
    IF NOT has_some THEN
        -- Not needed after a crash, so matches elsewhere need not wait until it is on disk.
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    UPDATE pilots_pilot
       SET status = 'Running',
           started_at = coalesce(started_at, right_now),
           last_seen_at = right_now,
           answered_request_id = CASE WHEN has_some THEN the_request ELSE answered_request_id END,
           nothing_at = CASE WHEN has_some THEN nothing_at ELSE right_now END,
           nothing_left = CASE WHEN has_some THEN nothing_left ELSE nothing END
     WHERE id = the_pilot;
END
$$;

CREATE FUNCTION public.wms_code_of_amount(amount double precision) RETURNS smallint
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (CASE WHEN amount >= 0 THEN least(32767, round(1600 * ln(1 + amount))) ELSE -1 END)::smallint
$$;

CREATE FUNCTION public.wms_common_prefix(one text, other text) RETURNS text
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT left(one, coalesce(max(length), 0))
      FROM generate_series(1, least(length(one), length(other))) AS length
     WHERE left(one, length) = left(other, length)
$$;

CREATE FUNCTION public.wms_configuration_changes() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) VALUES (0, 0);
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_count_in_limits(room public.wms_room, right_now timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF cardinality(room.slots) > 0 THEN
        UPDATE taskqueues_limitslot SET used = used + 1 WHERE id = ANY (room.slots);
    END IF;
    IF cardinality(room.paced) > 0 THEN
        UPDATE taskqueues_limitcount AS whole
           SET free_at = greatest(whole.free_at, right_now) + make_interval(secs => a_limit.delay_s)
          FROM taskqueues_limit AS a_limit
         WHERE whole.limit_id = ANY (room.paced) AND a_limit.id = whole.limit_id;
    END IF;
END
$$;

CREATE FUNCTION public.wms_counted_exit_code(status text, exit_code integer) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN status <> ALL ('{Received,Waiting,Held,Matched,Running,Stalled}') THEN exit_code END
$$;

CREATE FUNCTION public.wms_counters_go() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM wms_stop_counting();
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_credentials_end() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE accounts_apitoken SET revoked_at = now() WHERE user_id = NEW.id AND revoked_at IS NULL;
    DELETE FROM accounts_passwordlink WHERE user_id = NEW.id;
    RETURN NULL;
END
$$;

CREATE TABLE public.taskqueues_limit (
    id bigint NOT NULL,
    job_type character varying(255) NOT NULL,
    running integer,
    waiting integer,
    cpu_s_per_day bigint,
    delay_s double precision,
    burst integer,
    ce_id bigint,
    group_id bigint,
    site_id bigint,
    user_id bigint,
    vo_id bigint,
    CONSTRAINT limit_burst_is_at_least_one_and_not_endless CHECK (((burst >= 1) AND (burst <= 100000))),
    CONSTRAINT limit_delay_is_at_most_a_day CHECK (((delay_s >= (0.0)::double precision) AND (delay_s <= (86400.0)::double precision))),
    CONSTRAINT limit_limits_something CHECK (((running IS NOT NULL) OR (waiting IS NOT NULL) OR (cpu_s_per_day IS NOT NULL) OR (delay_s IS NOT NULL))),
    CONSTRAINT limit_on_waiting_names_no_place CHECK (((waiting IS NULL) OR ((ce_id IS NULL) AND (site_id IS NULL)))),
    CONSTRAINT taskqueues_limit_burst_check CHECK ((burst >= 0)),
    CONSTRAINT taskqueues_limit_cpu_s_per_day_check CHECK ((cpu_s_per_day >= 0)),
    CONSTRAINT taskqueues_limit_running_check CHECK ((running >= 0)),
    CONSTRAINT taskqueues_limit_waiting_check CHECK ((waiting >= 0))
);

CREATE FUNCTION public.wms_delay_is_over(a_limit public.taskqueues_limit, free_at timestamp with time zone, right_now timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT coalesce(a_limit.delay_s, 0) = 0
        OR (free_at > right_now + make_interval(secs => (coalesce(a_limit.burst, 1) - 1) * a_limit.delay_s)) IS NOT TRUE
$$;

CREATE FUNCTION public.wms_end_lease(the_match uuid, the_reason text, is_job_at_fault boolean, has_died boolean, right_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.wms_few(texts text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN count(*) BETWEEN 1 AND 16 THEN array_agg(each ORDER BY each COLLATE "C") ELSE '{}' END
      FROM (SELECT DISTINCT each FROM unnest(texts) AS each) AS different
$$;

CREATE FUNCTION public.wms_few_of_both(one text[], other text[]) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN '{}' IN (one, other) THEN '{}' ELSE wms_few(one || other) END
$$;

CREATE FUNCTION public.wms_finish(the_match uuid, the_pilot bigint, the_status text, sources text[], the_minor_status text, is_job_at_fault boolean, has_died boolean, the_exit_code integer, the_cpu_s double precision, the_wall_s double precision, the_memory_mb double precision, the_disk_mb double precision, the_output_digest text, the_output_name text, the_std_output bytea, the_std_error bytea, seen_within_s double precision, may_go_back boolean) RETURNS json
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    is_open boolean;
    ends_job boolean;
    goes_back boolean;
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
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id;
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
    IF the_std_output IS NOT NULL OR the_std_error IS NOT NULL THEN
        PERFORM wms_store_tails(lease.job_id, its_job.attempt, the_std_output, the_std_error);
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
    RETURN json_build_object('status', its_job.status, 'goes_back', goes_back);
END
$$;

CREATE FUNCTION public.wms_free_from(not_before timestamp with time zone, avoided_until timestamp with time zone, avoided_queue_ids bigint[], avoided_host text, the_queue bigint, the_host text) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT CASE WHEN the_queue = ANY (avoided_queue_ids) AND (avoided_host IS NULL OR avoided_host = the_host)
                THEN greatest(not_before, avoided_until) ELSE not_before END
$$;

CREATE FUNCTION public.wms_heartbeat(the_match uuid, the_pilot bigint, the_cpu_s double precision, the_wall_s double precision, the_memory_mb double precision, the_disk_mb double precision, the_std_output bytea, the_std_error bytea, acknowledged bigint[], lease_s double precision, seen_within_s double precision) RETURNS json
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    its_job record;
    answer json;
    is_done boolean;
    is_killed boolean := false;
BEGIN
    SELECT its.job_id, its.pilot_id, its.reported_at, its.is_unseen, its.refusal INTO lease
      FROM wms_reported_lease(the_match, the_pilot, seen_within_s, right_now) AS its;
    IF NOT FOUND OR lease.refusal IS NOT NULL THEN
        RETURN lease.refusal;
    END IF;
    IF lease.is_unseen THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id;
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

CREATE FUNCTION public.wms_held_back_jobs(the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamp with time zone) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET enable_sort TO 'off'
    AS $$
BEGIN
    -- Uses index: queued_job_open_to_all
    RETURN QUERY
    SELECT waiting.job_id FROM taskqueues_queuedjob AS waiting
     WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
       AND waiting.is_held_back AND greatest(waiting.not_before, waiting.avoided_until) <= right_now
     ORDER BY greatest(waiting.not_before, waiting.avoided_until), waiting.job_id LIMIT 10;
    -- Uses index: queued_job_by_avoided_place
    RETURN QUERY
    SELECT elsewhere.job_id
      FROM wms_avoided_places(the_task_queue, the_user_priority) AS place
     CROSS JOIN LATERAL (
          SELECT waiting.job_id FROM taskqueues_queuedjob AS waiting
           WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
             AND waiting.is_held_back
             AND coalesce(waiting.avoided_queue_ids, '{}') = place.queue_ids
             AND coalesce(waiting.avoided_host, '') = place.host
             AND waiting.not_before <= right_now
           ORDER BY waiting.not_before, waiting.job_id LIMIT 10
     ) AS elsewhere
     WHERE place.first_not_before <= right_now
       AND NOT wms_is_avoided(place.queue_ids, place.host, the_queue, the_host)
     LIMIT 10;
END
$$;

CREATE FUNCTION public.wms_held_back_until(the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamp with time zone, OUT held_for text, OUT opens_at timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET enable_sort TO 'off'
    AS $$
BEGIN
    SELECT CASE WHEN min(place.first_not_before) > right_now THEN 'delay'
                WHEN bool_or(place.host <> '' AND place.host = the_host) THEN 'host'
                ELSE 'place' END,
           -- While all are delayed, the answer applies to every pilot.
           CASE WHEN min(place.first_not_before) > right_now THEN min(place.first_not_before)
                ELSE least(
                    min(place.first_not_before) FILTER (
                        WHERE NOT wms_is_avoided(place.queue_ids, place.host, the_queue, the_host)
                    ),
                    -- Uses index: queued_job_open_to_all
                    (SELECT greatest(waiting.not_before, waiting.avoided_until)
                       FROM taskqueues_queuedjob AS waiting
                      WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                        AND waiting.is_held_back
                      ORDER BY greatest(waiting.not_before, waiting.avoided_until) LIMIT 1)
                ) END
      INTO held_for, opens_at
      FROM wms_avoided_places(the_task_queue, the_user_priority) AS place;
END
$$;

CREATE FUNCTION public.wms_held_jobs(the_limit bigint) RETURNS bigint
    LANGUAGE sql STABLE
    AS $$
    SELECT count(*)
      FROM taskqueues_limit AS a_limit
      JOIN jobs_job AS job
        ON job.status = ANY ('{Completing,Matched,Running,Stalled}'::text[])
       AND (a_limit.vo_id IS NULL OR a_limit.vo_id = job.vo_id)
       AND (a_limit.site_id IS NULL OR a_limit.site_id = job.site_id)
       AND (a_limit.ce_id IS NULL OR a_limit.ce_id = job.ce_id)
       AND (a_limit.group_id IS NULL OR a_limit.group_id = job.group_id)
       AND (a_limit.user_id IS NULL OR a_limit.user_id = job.owner_id)
       AND (a_limit.job_type = '' OR a_limit.job_type = job.job_type)
     WHERE a_limit.id = the_limit
$$;

CREATE FUNCTION public.wms_input_sandboxes(the_job bigint) RETURNS SETOF jsonb
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
               jsonb_agg(
                   jsonb_build_object(
                       'sandbox', 'sha256:' || digest,
                       'file_name', file_name,
                       'is_archive', is_archive,
                       'size_bytes', size_bytes
                   )
                   ORDER BY given.id
               ),
               '[]'::jsonb
           )
      FROM jobs_inputsandbox AS given JOIN jobs_sandbox AS sandbox ON sandbox.id = given.sandbox_id
     WHERE given.job_id = the_job
$$;

CREATE FUNCTION public.wms_is_avoided(queue_ids bigint[], host text, the_queue bigint, the_host text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    AS $$
    SELECT (the_queue = ANY (queue_ids) AND (host = '' OR host = the_host)) IS TRUE
$$;

CREATE FUNCTION public.wms_job_is_counted_elsewhere() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.wms_job_is_edited() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        
    INSERT INTO jobs_submissioncontent AS known (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
, labels, name_stems) SELECT common.*, CASE WHEN common.job_group IS NULL THEN 
        wms_few(ARRAY(
            SELECT DISTINCT job.job_group FROM (SELECT NEW.*) AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END, CASE WHEN common.name_rest = 'anything' THEN 
        wms_few(ARRAY(
            SELECT DISTINCT rtrim(job.job_name, '0123456789') FROM (SELECT NEW.*) AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END FROM (
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
  FROM (SELECT NEW.*) AS job GROUP BY submission_id
) AS common (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
)
    
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
,
       labels = CASE WHEN known.job_group = excluded.job_group THEN NULL ELSE wms_few_of_both(
           coalesce(known.labels, ARRAY[known.job_group]), coalesce(excluded.labels, ARRAY[excluded.job_group])
       ) END,
       name_stems = CASE
           WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest)
                AND rtrim(known.name_prefix, '0123456789') = rtrim(excluded.name_prefix, '0123456789') THEN NULL
           ELSE wms_few_of_both(
               coalesce(known.name_stems, ARRAY[rtrim(known.name_prefix, '0123456789')]),
               coalesce(excluded.name_stems, ARRAY[rtrim(excluded.name_prefix, '0123456789')])
           ) END
    ;
        RETURN NULL;
    END
    $$;

CREATE FUNCTION public.wms_job_is_possible(status character varying, ended_at timestamp with time zone, priority smallint, reschedules smallint) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    RETURN status = ANY (
               CASE WHEN ended_at IS NULL
                    THEN '{Checking,Completing,Held,Matched,Received,Rescheduled,Running,Stalled,Waiting}'::text[]
                    ELSE '{Deleted,Done,Failed,Killed}'::text[] END
           )
       AND priority BETWEEN 0 AND 10 AND reschedules >= 0;
END
$$;

CREATE FUNCTION public.wms_job_leaves_limits() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    has_left CONSTANT integer := (
        OLD.status = ANY ('{Completing,Matched,Running,Stalled}'::text[])
        AND NEW.status <> ALL ('{Completing,Matched,Running,Stalled}'::text[])
    )::integer;
    used_s CONSTANT double precision := greatest(0, coalesce(NEW.cpu_s, 0) - coalesce(OLD.cpu_s, 0));
BEGIN
    -- CPU time alone comes with each heartbeat; it does not change which jobs pilots hold.
    IF has_left = 0 AND used_s = 0 THEN
        RETURN NULL;
    END IF;
    IF has_left = 0 AND NOT EXISTS (SELECT FROM taskqueues_limit WHERE cpu_s_per_day IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7);
    INSERT INTO taskqueues_limitevent (limit_id, jobs_left, cpu_s, happened_at)
    SELECT id, CASE WHEN running IS NULL THEN 0 ELSE has_left END,
           CASE WHEN cpu_s_per_day IS NULL THEN 0 ELSE used_s END, wms_now()
      FROM wms_limits_of(OLD.vo_id, OLD.site_id, OLD.ce_id, OLD.group_id, OLD.owner_id, OLD.job_type)
     WHERE (running IS NOT NULL AND has_left > 0) OR (cpu_s_per_day IS NOT NULL AND used_s > 0);
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_jobs_come() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    
    INSERT INTO jobs_submissioncontent AS known (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
, labels, name_stems) SELECT common.*, CASE WHEN common.job_group IS NULL THEN 
        wms_few(ARRAY(
            SELECT DISTINCT job.job_group FROM changed AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END, CASE WHEN common.name_rest = 'anything' THEN 
        wms_few(ARRAY(
            SELECT DISTINCT rtrim(job.job_name, '0123456789') FROM changed AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END FROM (
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
  FROM changed AS job GROUP BY submission_id
) AS common (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
)
    
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
,
       labels = CASE WHEN known.job_group = excluded.job_group THEN NULL ELSE wms_few_of_both(
           coalesce(known.labels, ARRAY[known.job_group]), coalesce(excluded.labels, ARRAY[excluded.job_group])
       ) END,
       name_stems = CASE
           WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest)
                AND rtrim(known.name_prefix, '0123456789') = rtrim(excluded.name_prefix, '0123456789') THEN NULL
           ELSE wms_few_of_both(
               coalesce(known.name_stems, ARRAY[rtrim(known.name_prefix, '0123456789')]),
               coalesce(excluded.name_stems, ARRAY[rtrim(excluded.name_prefix, '0123456789')])
           ) END
    ;
    
INSERT INTO jobs_jobcountchange (
    submission_id, owner_id, group_id, vo_id, job_type, status_before, site_before_id, exit_code_before,
    status_after, site_after_id, exit_code_after, jobs
)

    SELECT submission_id, owner_id, group_id, vo_id, job_type, NULL, NULL, NULL,
           status, site_id, wms_counted_exit_code(status, exit_code), count(*)
      FROM changed GROUP BY submission_id, owner_id, group_id, vo_id, job_type, status, site_id, 11;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_jobs_go() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION public.wms_leases(the_pilot bigint, the_request uuid) RETURNS SETOF public.wms_claimed
    LANGUAGE sql STABLE
    AS $$
    SELECT 'leased', '', NULL::bigint, NULL::integer, NULL::timestamptz, lease.ordinal, lease.id, lease.expires_at, job.id, owner.username,
           job_group.name, stored.description || jsonb_build_object('job_name', job.job_name),
           (SELECT * FROM wms_input_sandboxes(job.id))
      FROM matching_match AS lease
      JOIN jobs_job AS job ON job.id = lease.job_id
      JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
      JOIN accounts_user AS owner ON owner.id = job.owner_id
      JOIN accounts_group AS job_group ON job_group.id = job.group_id
     WHERE lease.pilot_id = the_pilot AND lease.request_id = the_request
     ORDER BY lease.ordinal
$$;

CREATE FUNCTION public.wms_limit_changes() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
DECLARE
    -- One row is enough for claims at one site; those of a whole VO would wait for each other.
    slots CONSTANT bigint := CASE WHEN NEW.running IS NULL THEN 0
                                  WHEN NEW.site_id IS NOT NULL OR NEW.ce_id IS NOT NULL THEN 1
                                  ELSE greatest(1, least(16, NEW.running)) END;
    held bigint;
BEGIN
    PERFORM wms_stop_counting();
    DELETE FROM taskqueues_limitslot WHERE limit_id = NEW.id;
    DELETE FROM taskqueues_limitevent WHERE limit_id = NEW.id AND cpu_s = 0;
    UPDATE taskqueues_limitevent SET jobs_left = 0 WHERE limit_id = NEW.id;
    INSERT INTO taskqueues_limitcount (limit_id, cpu_s) VALUES (NEW.id, 0) ON CONFLICT DO NOTHING;
    IF TG_OP = 'UPDATE' THEN
        -- Counts of another scope are of no use; and a shorter delay need not keep the time of the old one.
        IF (NEW.vo_id, NEW.site_id, NEW.ce_id, NEW.group_id, NEW.user_id, NEW.job_type)
           IS DISTINCT FROM (OLD.vo_id, OLD.site_id, OLD.ce_id, OLD.group_id, OLD.user_id, OLD.job_type) THEN
            DELETE FROM taskqueues_limitevent WHERE limit_id = NEW.id;
            DELETE FROM taskqueues_limithour WHERE limit_id = NEW.id;
            UPDATE taskqueues_limitcount SET cpu_s = 0, free_at = NULL WHERE limit_id = NEW.id;
        ELSIF (NEW.delay_s, NEW.burst) IS DISTINCT FROM (OLD.delay_s, OLD.burst) THEN
            UPDATE taskqueues_limitcount SET free_at = NULL WHERE limit_id = NEW.id;
        END IF;
    END IF;
    held := wms_held_jobs(NEW.id);
    INSERT INTO taskqueues_limitslot (limit_id, number, part, used)
    SELECT NEW.id, number, wms_share_of_slot(NEW.running, slots, number), wms_share_of_slot(held, slots, number)
      FROM generate_series(0, slots - 1) AS number;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_limits_of(the_vo bigint, the_site bigint, the_ce bigint, the_group bigint, the_user bigint, the_job_type text) RETURNS SETOF public.taskqueues_limit
    LANGUAGE sql STABLE
    AS $$
    SELECT * FROM taskqueues_limit AS a_limit
     WHERE (a_limit.vo_id IS NULL OR a_limit.vo_id = the_vo)
       AND (a_limit.site_id IS NULL OR a_limit.site_id = the_site)
       AND (a_limit.ce_id IS NULL OR a_limit.ce_id = the_ce)
       AND (a_limit.group_id IS NULL OR a_limit.group_id = the_group)
       AND (a_limit.user_id IS NULL OR a_limit.user_id = the_user)
       AND (a_limit.job_type = '' OR a_limit.job_type = the_job_type)
     ORDER BY a_limit.id
$$;

CREATE FUNCTION public.wms_lock_held_back_job(the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_sort TO 'off'
    AS $$
DECLARE
    locked bigint;
BEGIN
    SELECT waiting.job_id INTO locked FROM taskqueues_queuedjob AS waiting
     WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
       AND waiting.is_held_back AND greatest(waiting.not_before, waiting.avoided_until) <= right_now
     ORDER BY greatest(waiting.not_before, waiting.avoided_until), waiting.job_id LIMIT 1
       FOR UPDATE SKIP LOCKED;
    IF locked IS NULL THEN
        SELECT elsewhere.job_id INTO locked
          FROM wms_avoided_places(the_task_queue, the_user_priority) AS place
         CROSS JOIN LATERAL (
              SELECT waiting.job_id FROM taskqueues_queuedjob AS waiting
               WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                 AND waiting.is_held_back
                 AND coalesce(waiting.avoided_queue_ids, '{}') = place.queue_ids
                 AND coalesce(waiting.avoided_host, '') = place.host
                 AND waiting.not_before <= right_now
               ORDER BY waiting.not_before, waiting.job_id LIMIT 1
                 FOR UPDATE SKIP LOCKED
         ) AS elsewhere
         WHERE place.first_not_before <= right_now
           AND NOT wms_is_avoided(place.queue_ids, place.host, the_queue, the_host)
         LIMIT 1;
    END IF;
    RETURN locked;
END
$$;

CREATE FUNCTION public.wms_lock_pilot(the_pilot bigint) RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    pilot record;
BEGIN
    SELECT ended_at, revoked_at, drained_at, black_hole_id INTO pilot
      FROM pilots_pilot WHERE id = the_pilot FOR NO KEY UPDATE;
    RETURN CASE
        WHEN NOT FOUND THEN 'pilot_unknown'
        WHEN pilot.revoked_at IS NOT NULL THEN 'pilot_revoked'
        WHEN pilot.ended_at IS NOT NULL THEN 'pilot_ended'
        -- Pilots in these two states keep their leases.
        WHEN pilot.black_hole_id IS NOT NULL THEN 'black_hole'
        WHEN pilot.drained_at IS NOT NULL THEN 'pilot_drained'
        ELSE ''
    END;
END
$$;

CREATE FUNCTION public.wms_membership_changes_task_queues() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM changed) THEN
        RETURN NULL;
    END IF;
    WITH theirs AS (
        SELECT task_queue.id, task_queue.group_id
          FROM changed
          JOIN taskqueues_taskqueue AS task_queue
            ON task_queue.owner_id = changed.user_id AND task_queue.group_id = changed.group_id
    ), marked AS (
        INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT DISTINCT group_id, wms_now() FROM theirs
    )
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) SELECT id, 0 FROM theirs UNION ALL SELECT 0, 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_memberships_go_with_pool() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM taskqueues_submitpool_queues AS member USING gone WHERE member.submitpool_id = gone.id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_memberships_go_with_queue() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    DELETE FROM taskqueues_submitpool_queues AS member USING gone WHERE member.queue_id = gone.id;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_move_leased_job(the_job bigint, the_pilot bigint, status_before text, the_status text, the_minor_status text, the_application_status text, right_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
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
    RETURNING minor_status, application_status INTO STRICT moved;
    INSERT INTO jobs_jobhistory (job_id, changed_at, status, minor_status, application_status, source)
    VALUES (the_job, right_now, the_status, moved.minor_status, moved.application_status, 'pilot ' || the_pilot);
    RETURN true;
END
$$;

CREATE FUNCTION public.wms_none_serves_all_by_a_deletion() RETURNS trigger
    LANGUAGE plpgsql
    AS $_$
DECLARE
    served_table CONSTANT text := TG_ARGV[0];
    reference CONSTANT text := TG_ARGV[1];
    name text;
BEGIN
    IF EXISTS (SELECT FROM accounts_vo WHERE id = OLD.vo_id) THEN
        RETURN NULL;
    END IF;
    EXECUTE format(
        'SELECT served.name FROM %I AS served WHERE served.id = $1'
        ' AND NOT EXISTS (SELECT FROM %I AS link WHERE link.%I = served.id)',
        served_table, TG_TABLE_NAME, reference
    ) INTO name USING (to_jsonb(OLD) ->> reference)::bigint;
    IF name IS NOT NULL THEN
        RAISE EXCEPTION '% serves only a VO that is being deleted, and would then serve all: delete it, or choose '
            'another VO for it, first.', name USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NULL;
END
$_$;

CREATE FUNCTION public.wms_note_all_contents() RETURNS void
    LANGUAGE sql
    AS $$
        DELETE FROM jobs_submissioncontent;
        INSERT INTO jobs_submissioncontent (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
, labels, name_stems) SELECT common.*, CASE WHEN common.job_group IS NULL THEN 
        wms_few(ARRAY(
            SELECT DISTINCT job.job_group FROM jobs_job AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END, CASE WHEN common.name_rest = 'anything' THEN 
        wms_few(ARRAY(
            SELECT DISTINCT rtrim(job.job_name, '0123456789') FROM jobs_job AS job WHERE job.submission_id = common.submission_id LIMIT 17
        ))
     END FROM (
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
  FROM jobs_job AS job GROUP BY submission_id
) AS common (
submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, name_prefix, name_rest, first_job_id,
last_job_id
);
    $$;

CREATE FUNCTION public.wms_now() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
                SELECT statement_timestamp()
                     + make_interval(secs => coalesce(nullif(current_setting('wms.clock_offset_s', true), ''), '0')
                                             ::double precision)
            $$;

CREATE FUNCTION public.wms_possible_places(the_vo bigint, the_site bigint, the_ce bigint, the_ce_name text, the_queue_name text, right_now timestamp with time zone) RETURNS TABLE(site_id bigint, ce_id bigint, queue_id bigint, is_open boolean, is_throttled boolean)
    LANGUAGE sql STABLE
    AS $$
    SELECT site.id, ce.id, queue.id,
           (site.state = 'active' OR site.state_until <= right_now) IS TRUE
           AND (ce.id IS NULL OR (ce.state = 'active' OR ce.state_until <= right_now) IS TRUE)
           AND (queue.id IS NULL OR (queue.state = 'active' OR queue.state_until <= right_now) IS TRUE),
           coalesce(site.throttle_policy, '') <> ''
      FROM resources_site AS site
      LEFT JOIN resources_computingelement AS ce ON ce.site_id = site.id
      LEFT JOIN resources_queue AS queue ON queue.ce_id = ce.id
     WHERE (the_site IS NULL OR site.id = the_site)
       AND (the_ce IS NULL OR ce.id = the_ce)
       AND (the_ce_name IS NULL OR ce.name = the_ce_name)
       AND (the_queue_name IS NULL OR queue.name = the_queue_name)
       AND (SELECT coalesce(bool_or(served.vo_id = the_vo), true) FROM resources_site_vos AS served
             WHERE served.site_id = site.id)
$$;

CREATE FUNCTION public.wms_renewed_until(expires_at timestamp with time zone, reported_at timestamp with time zone, lease_s double precision, right_now timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN reported_at IS NULL THEN right_now + make_interval(secs => lease_s)
                ELSE greatest(expires_at, right_now + make_interval(secs => lease_s)) END
$$;

CREATE FUNCTION public.wms_report_status(the_match uuid, the_pilot bigint, the_status text, sources text[], the_minor_status text, the_application_status text, lease_s double precision, seen_within_s double precision) RETURNS json
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET plan_cache_mode TO 'force_generic_plan'
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    lease record;
    answer json;
    is_done boolean;
BEGIN
    SELECT * INTO lease FROM wms_reported_lease(the_match, the_pilot, seen_within_s, right_now);
    IF NOT FOUND OR lease.refusal IS NOT NULL THEN
        RETURN lease.refusal;
    END IF;
    IF lease.is_leased AND lease.status <> the_status AND NOT lease.status = ANY (sources) THEN
        RETURN json_build_object(
            'code', 'illegal_transition', 'job', lease.job_id, 'status', lease.status, 'target', the_status
        );
    END IF;
    IF lease.is_unseen THEN
        UPDATE pilots_pilot SET last_seen_at = right_now WHERE id = lease.pilot_id;
    END IF;
    IF lease.is_leased AND lease.status <> the_status THEN
        is_done := wms_move_leased_job(
            lease.job_id, lease.pilot_id, lease.status, the_status,
            coalesce(the_minor_status, ''), the_application_status, right_now
        );
    ELSIF lease.is_leased AND EXISTS (
        SELECT FROM jobs_job AS job
         WHERE job.id = lease.job_id
           AND (job.minor_status <> the_minor_status OR job.application_status <> the_application_status)
    ) THEN
        is_done := wms_move_leased_job(
            lease.job_id, lease.pilot_id, lease.status, the_status,
            the_minor_status, the_application_status, right_now
        );
    END IF;
    UPDATE matching_match
       SET expires_at = wms_renewed_until(expires_at, reported_at, lease_s, right_now), reported_status = the_status,
           reported_at = right_now
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

CREATE FUNCTION public.wms_reported_lease(the_match uuid, the_pilot bigint, seen_within_s double precision, right_now timestamp with time zone) RETURNS TABLE(job_id bigint, pilot_id bigint, reported_at timestamp with time zone, status text, is_leased boolean, is_unseen boolean, refusal json)
    LANGUAGE sql STABLE
    AS $$
    SELECT its.job_id, its.pilot_id, its.reported_at, job.status,
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

CREATE FUNCTION public.wms_required_by(the_jobs bigint[], the_amounts text[]) RETURNS TABLE(name text, required bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT amount.name, coalesce(sum((stored.description ->> amount.name)::bigint), 0)::bigint
      FROM unnest(the_amounts) AS amount (name)
      LEFT JOIN jobs_job AS job ON job.id = ANY (the_jobs)
      LEFT JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
     GROUP BY amount.name
$$;

CREATE FUNCTION public.wms_room_in_limits(the_vo bigint, the_site bigint, the_ce bigint, the_group bigint, the_user bigint, the_job_type text, the_pilot bigint, right_now timestamp with time zone) RETURNS public.wms_room
    LANGUAGE plpgsql
    AS $$
DECLARE
    room wms_room := (NULL, '{}', '{}');
    a_limit taskqueues_limit;
    caught_up timestamptz;
    slot bigint;
BEGIN
    FOR a_limit IN SELECT * FROM wms_limits_of(the_vo, the_site, the_ce, the_group, the_user, the_job_type) LOOP
        room.full_limit := a_limit.id;
        IF a_limit.cpu_s_per_day IS NOT NULL AND a_limit.cpu_s_per_day <= (
            SELECT whole.cpu_s
                   + coalesce((SELECT sum(event.cpu_s) FROM taskqueues_limitevent AS event
                                WHERE event.limit_id = a_limit.id), 0)
              FROM taskqueues_limitcount AS whole WHERE whole.limit_id = a_limit.id
        ) THEN
            RETURN room;
        END IF;
        IF a_limit.delay_s > 0 THEN
            SELECT free_at INTO caught_up FROM taskqueues_limitcount WHERE limit_id = a_limit.id FOR NO KEY UPDATE;
            IF NOT wms_delay_is_over(a_limit, caught_up, right_now) THEN
                RETURN room;
            END IF;
            room.paced := room.paced || a_limit.id;
        END IF;
        IF a_limit.running IS NOT NULL THEN
            -- Pilots begin at different slots, and skip those locked by others.
            SELECT id INTO slot FROM taskqueues_limitslot
             WHERE limit_id = a_limit.id AND used < part
             ORDER BY (number + the_pilot) % 16 LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                RETURN room;
            END IF;
            room.slots := room.slots || slot;
        END IF;
    END LOOP;
    room.full_limit := NULL;
    RETURN room;
END
$$;

CREATE FUNCTION public.wms_sample_usage(the_job bigint, the_attempt smallint, started_at timestamp with time zone, reported_at timestamp with time zone, right_now timestamp with time zone, the_cpu_s double precision, the_memory_mb double precision, the_disk_mb double precision) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    -- One heartbeat: a job of three minutes has three samples or four.
    first_step_s CONSTANT integer := 30;
    -- Of the first step that has a sample: the shape of a job of a minute is of no interest, and its row would be most of
    -- what its heartbeats write.
    first_number CONSTANT integer := 3;
    -- Half of them or more are there however long the job runs: 17 of a job of 36 hours, in 192 bytes at most.
    most_samples CONSTANT integer := 24;
    -- Samples for which there is room at first; it is doubled when it is full. One that is written into the room changes
    -- eight bytes of the row; one that makes the row longer writes all of them to the WAL again.
    first_room CONSTANT integer := 6;
    -- Of a sample.
    numbers CONSTANT integer := 4;
    -- In the place of a number of a sample that is not taken yet.
    free CONSTANT smallint := -2;
    -- Whole, as they are read.
    elapsed_s CONSTANT bigint := floor(extract(epoch FROM right_now - started_at));
    before_s CONSTANT bigint := floor(extract(epoch FROM reported_at - started_at));
    the_step_s integer := first_step_s;
    stored record;
    is_stored boolean;
    kept smallint[] := '{}';
    room integer := numbers * first_room;
BEGIN
    IF (elapsed_s / first_step_s > greatest(first_number - 1, before_s / first_step_s)) IS NOT TRUE THEN
        RETURN false;
    END IF;
    WHILE elapsed_s >= most_samples * the_step_s LOOP
        the_step_s := 2 * the_step_s;
    END LOOP;
    IF elapsed_s / the_step_s <= before_s / the_step_s THEN
        RETURN false;
    END IF;
    SELECT its.step_s, its.samples INTO stored
      FROM jobs_usagesamples AS its WHERE its.job_id = the_job AND its.attempt = the_attempt;
    is_stored := FOUND;
    IF is_stored THEN
        kept := stored.samples[1:coalesce(array_position(stored.samples, free) - 1, cardinality(stored.samples))];
        IF stored.step_s < the_step_s THEN
            kept := wms_thinned_samples(kept, the_step_s / stored.step_s);
        END IF;
        -- Clocks may be set back.
        IF kept[cardinality(kept) - numbers + 1] / 1024 >= elapsed_s / greatest(the_step_s, stored.step_s) THEN
            RETURN false;
        END IF;
        the_step_s := greatest(the_step_s, stored.step_s);
    END IF;
    kept := kept || ARRAY[
        (elapsed_s * 1024 / the_step_s)::smallint, wms_code_of_amount(the_cpu_s), wms_code_of_amount(the_memory_mb),
        wms_code_of_amount(the_disk_mb)
    ];
    WHILE room < cardinality(kept) LOOP
        room := 2 * room;
    END LOOP;
    kept := kept || array_fill(free, ARRAY[room - cardinality(kept)]);
    IF is_stored THEN
        UPDATE jobs_usagesamples AS its SET step_s = the_step_s, samples = kept
         WHERE its.job_id = the_job AND its.attempt = the_attempt;
    ELSE
        INSERT INTO jobs_usagesamples (job_id, attempt, step_s, samples)
        VALUES (the_job, the_attempt, the_step_s, kept);
    END IF;
    RETURN true;
END
$$;

CREATE FUNCTION public.wms_share_of_slot(amount bigint, slots bigint, number bigint) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS $$
    -- A limit not on running jobs has no slots, but the planner evaluates constants.
    SELECT (sign(amount) * (abs(amount) / nullif(slots, 0) + (number < abs(amount) % nullif(slots, 0))::integer))::integer
$$;

CREATE FUNCTION public.wms_stop_counting() RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    waited_for CONSTANT text := current_setting('lock_timeout');
BEGIN
    -- Waiting for the lock blocks later transactions, and may be for one of them: short attempts.
    PERFORM set_config('lock_timeout', '100ms', true);
    FOR attempt IN 1 .. 100 LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(7);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            IF attempt = 100 THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(0.05);
    END LOOP;
    PERFORM set_config('lock_timeout', waited_for, true);
END
$$;

CREATE FUNCTION public.wms_store_tails(the_job bigint, the_attempt smallint, the_std_output bytea, the_std_error bytea) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE jobs_outputtail AS its
       SET std_output = coalesce(the_std_output, its.std_output),
           std_error = coalesce(the_std_error, its.std_error)
     WHERE its.job_id = the_job AND its.attempt = the_attempt;
    IF NOT FOUND THEN
        -- Nobody else inserts the row of a locked job. ON CONFLICT would log each insertion twice.
        INSERT INTO jobs_outputtail (job_id, attempt, std_output, std_error)
        VALUES (the_job, the_attempt, the_std_output, the_std_error);
    END IF;
END
$$;

CREATE FUNCTION public.wms_sum_up_limit(the_limit bigint) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    gone bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(7);
    PERFORM FROM taskqueues_limitcount WHERE limit_id = the_limit FOR NO KEY UPDATE;
    PERFORM FROM taskqueues_limitslot WHERE limit_id = the_limit ORDER BY number FOR NO KEY UPDATE;
    WITH event AS (
        DELETE FROM taskqueues_limitevent WHERE limit_id = the_limit RETURNING jobs_left, cpu_s, happened_at
    ), hour AS (
        INSERT INTO taskqueues_limithour AS known (limit_id, began_at, cpu_s)
        SELECT the_limit, date_trunc('hour', happened_at), sum(cpu_s) FROM event WHERE cpu_s > 0 GROUP BY 2
            ON CONFLICT (limit_id, began_at) DO UPDATE SET cpu_s = known.cpu_s + excluded.cpu_s
    )
    SELECT coalesce(sum(jobs_left), 0) INTO gone FROM event;
    UPDATE taskqueues_limitslot AS slot
       SET used = slot.part - wms_share_of_slot(whole.room + gone, whole.slots, slot.number)
      FROM (SELECT sum(part - used) AS room, count(*) AS slots
              FROM taskqueues_limitslot WHERE limit_id = the_limit) AS whole
     WHERE slot.limit_id = the_limit;
    -- An hour counts until all of it is a day ago.
    DELETE FROM taskqueues_limithour WHERE limit_id = the_limit AND began_at <= right_now - interval '25 hours';
    UPDATE taskqueues_limitcount
       SET cpu_s = coalesce((SELECT sum(hour.cpu_s) FROM taskqueues_limithour AS hour
                              WHERE hour.limit_id = the_limit), 0)
     WHERE limit_id = the_limit;
    RETURN (
        SELECT (a_limit.running IS NULL
                OR 0 < (SELECT sum(part - used) FROM taskqueues_limitslot AS slot WHERE slot.limit_id = the_limit))
           AND (a_limit.cpu_s_per_day IS NULL OR a_limit.cpu_s_per_day > whole.cpu_s)
           AND wms_delay_is_over(a_limit, whole.free_at, right_now)
          FROM taskqueues_limit AS a_limit JOIN taskqueues_limitcount AS whole ON whole.limit_id = a_limit.id
         WHERE a_limit.id = the_limit
    );
END
$$;

CREATE FUNCTION public.wms_suspension_changes_task_queues() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    WITH theirs AS (
        SELECT id, group_id FROM taskqueues_taskqueue WHERE owner_id = NEW.id
    ), marked AS (
        INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT DISTINCT group_id, wms_now() FROM theirs
    )
    -- 0: what is remembered of the configuration, which suspended users are part of.
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) SELECT id, 0 FROM theirs UNION ALL SELECT 0, 0;
    RETURN NULL;
END
$$;

CREATE FUNCTION public.wms_suspensions_count() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.suspensions := OLD.suspensions + (OLD.is_active AND NOT NEW.is_active)::int;
    RETURN NEW;
END
$$;

CREATE FUNCTION public.wms_thinned_samples(samples smallint[], times integer) RETURNS smallint[]
    LANGUAGE sql
    AS $$
    SELECT array_agg(
               (samples[place + number] / CASE number WHEN 0 THEN times ELSE 1 END)::smallint ORDER BY place, number
           )
      FROM (
          SELECT min(place) AS place FROM generate_series(1, cardinality(samples), 4) AS its (place)
           GROUP BY samples[place] / (1024 * times)
      ) AS of_step, generate_series(0, 3) AS its (number)
$$;

CREATE FUNCTION public.wms_waiting_jobs(task_queue_ids bigint[]) RETURNS TABLE(task_queue_id bigint, jobs_of_level integer[])
    LANGUAGE plpgsql STABLE ROWS 10000
    SET plan_cache_mode TO 'force_custom_plan'
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT task_queue_id,
           ARRAY[
               count(*) FILTER (WHERE user_priority = 0),
               count(*) FILTER (WHERE user_priority = 1),
               count(*) FILTER (WHERE user_priority = 2),
               count(*) FILTER (WHERE user_priority = 3),
               count(*) FILTER (WHERE user_priority = 4),
               count(*) FILTER (WHERE user_priority = 5),
               count(*) FILTER (WHERE user_priority = 6),
               count(*) FILTER (WHERE user_priority = 7),
               count(*) FILTER (WHERE user_priority = 8),
               count(*) FILTER (WHERE user_priority = 9),
               count(*) FILTER (WHERE user_priority = 10)
           ]::integer[]
      FROM taskqueues_queuedjob
     WHERE task_queue_ids IS NULL OR task_queue_id = ANY(task_queue_ids)
     GROUP BY task_queue_id;
END
$$;

COMMENT ON FUNCTION public.wms_waiting_jobs(task_queue_ids bigint[]) IS 'Jobs of user priority 0 to 10 that wait in each of these queues, or in all (null); a queue without any is missing.';

CREATE TABLE public.taskqueues_taskqueue (
    id bigint NOT NULL,
    signature bytea NOT NULL,
    setup character varying(64) NOT NULL,
    cpu_time_s integer NOT NULL,
    submit_pools character varying(255)[] NOT NULL,
    pilot_types character varying(255)[] NOT NULL,
    sites character varying(255)[] NOT NULL,
    banned_sites character varying(255)[] NOT NULL,
    grid_ces character varying(255)[] NOT NULL,
    grid_middlewares character varying(255)[] NOT NULL,
    platforms character varying(255)[] NOT NULL,
    job_type character varying(255) NOT NULL,
    tags character varying(255)[] NOT NULL,
    processors integer NOT NULL,
    memory_mb integer NOT NULL,
    priority double precision NOT NULL,
    created_at timestamp with time zone NOT NULL,
    group_id bigint NOT NULL,
    owner_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    jobs_of_level integer[] NOT NULL,
    weight double precision NOT NULL,
    container boolean NOT NULL,
    disk_mb integer NOT NULL,
    gpus integer NOT NULL,
    wall_time_s integer NOT NULL,
    software character varying(1024)[] NOT NULL,
    CONSTRAINT task_queue_bans_no_site_beside_a_list_of_sites CHECK (((sites = '{}'::character varying(255)[]) OR (banned_sites = '{}'::character varying(255)[]))),
    CONSTRAINT task_queue_priority_is_not_negative CHECK ((priority >= (0.0)::double precision)),
    CONSTRAINT taskqueues_taskqueue_cpu_time_s_check CHECK ((cpu_time_s >= 0)),
    CONSTRAINT taskqueues_taskqueue_disk_mb_check CHECK ((disk_mb >= 0)),
    CONSTRAINT taskqueues_taskqueue_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT taskqueues_taskqueue_memory_mb_check CHECK ((memory_mb >= 0)),
    CONSTRAINT taskqueues_taskqueue_processors_check CHECK ((processors >= 0)),
    CONSTRAINT taskqueues_taskqueue_wall_time_s_check CHECK ((wall_time_s >= 0))
)
WITH (fillfactor='70');

CREATE FUNCTION public.wms_why_not_at_unknown_place(the_task_queue public.taskqueues_taskqueue, the_site bigint, the_ce bigint, the_ce_name text, the_queue_name text, right_now timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    WITH place AS MATERIALIZED (
        SELECT * FROM wms_possible_places(the_task_queue.vo_id, the_site, the_ce, the_ce_name, the_queue_name, right_now)
    )
    SELECT CASE
        WHEN EXISTS (SELECT FROM place WHERE NOT is_open) THEN 'place'
        WHEN the_site IS NULL AND EXISTS (SELECT FROM place WHERE is_throttled) THEN 'throttle_elsewhere'
        WHEN cardinality(the_task_queue.submit_pools) > 0 AND (
            NOT EXISTS (SELECT FROM place)
            OR EXISTS (
                SELECT FROM place WHERE NOT EXISTS (
                    SELECT FROM taskqueues_submitpool_queues AS member
                     WHERE member.queue_id = place.queue_id
                       AND member.submitpool_id = ANY (the_task_queue.submit_pools)
                )
            )
        ) THEN 'pool'
        WHEN EXISTS (
            SELECT FROM taskqueues_limit AS a_limit JOIN place
                ON (a_limit.site_id IS NULL OR a_limit.site_id = place.site_id)
               AND (a_limit.ce_id IS NULL OR a_limit.ce_id = place.ce_id)
             -- Those of the known place are counted.
             WHERE ((a_limit.site_id IS NOT NULL AND the_site IS NULL) OR (a_limit.ce_id IS NOT NULL AND the_ce IS NULL))
               AND (a_limit.vo_id IS NULL OR a_limit.vo_id = the_task_queue.vo_id)
               AND (a_limit.group_id IS NULL OR a_limit.group_id = the_task_queue.group_id)
               AND (a_limit.user_id IS NULL OR a_limit.user_id = the_task_queue.owner_id)
               AND (a_limit.job_type = '' OR a_limit.job_type = the_task_queue.job_type)
               AND num_nonnulls(a_limit.running, a_limit.cpu_s_per_day, a_limit.delay_s) > 0
        ) THEN 'limit_elsewhere'
        ELSE ''
    END
$$;

CREATE FUNCTION public.wms_why_throttled(the_site bigint, seen_version bigint, seen_matched integer, right_now timestamp with time zone) RETURNS text
    LANGUAGE sql STABLE
    AS $$
    SELECT coalesce(
        (SELECT CASE
                    WHEN state.expires_at <= right_now THEN 'throttle_expired'
                    WHEN state.room IS NULL THEN
                        CASE WHEN state.version = seen_version AND state.matched = seen_matched THEN ''
                             ELSE 'throttle_moved' END
                    WHEN state.matched < state.room THEN ''
                    WHEN state.advertised_at IS NULL THEN 'throttle_counted'
                    ELSE 'throttle'
                END
           FROM resources_throttlestate AS state WHERE state.site_id = the_site),
        'throttle_expired'
    )
$$;

CREATE TABLE public.account_emailaddress (
    id integer NOT NULL,
    email character varying(254) NOT NULL,
    verified boolean NOT NULL,
    "primary" boolean NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.account_emailaddress ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailaddress_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.account_emailconfirmation (
    id integer NOT NULL,
    created timestamp with time zone NOT NULL,
    sent timestamp with time zone,
    key character varying(64) NOT NULL,
    email_address_id integer NOT NULL
);

ALTER TABLE public.account_emailconfirmation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.account_emailconfirmation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_apitoken (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    user_id bigint NOT NULL,
    last_used_at timestamp with time zone,
    name character varying(100) NOT NULL,
    scope character varying(16) NOT NULL,
    CONSTRAINT api_token_scope_is_known CHECK (((scope)::text = ANY ((ARRAY['read'::character varying, 'submit'::character varying, 'manage'::character varying])::text[])))
);

ALTER TABLE public.accounts_apitoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_apitoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_failedlogin (
    id bigint NOT NULL,
    name_digest bytea NOT NULL,
    address character varying(64) NOT NULL,
    failed_at timestamp with time zone NOT NULL,
    device character varying(32) NOT NULL,
    of_code boolean NOT NULL
);

ALTER TABLE public.accounts_failedlogin ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_failedlogin_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_group (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    priority double precision NOT NULL,
    properties character varying(32)[] NOT NULL,
    vo_id bigint NOT NULL,
    CONSTRAINT group_priority_is_finite_and_not_negative CHECK (((priority >= (0.0)::double precision) AND (priority <= (1000000000000.0)::double precision)))
);

ALTER TABLE public.accounts_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_invitation (
    id bigint NOT NULL,
    username character varying(150) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    declined_at timestamp with time zone,
    group_id bigint NOT NULL,
    invited_by_id bigint
);

ALTER TABLE public.accounts_invitation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_invitation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_membership (
    id bigint NOT NULL,
    group_id bigint NOT NULL,
    user_id bigint NOT NULL,
    by_claim_of_id integer,
    confirmed_at timestamp with time zone,
    CONSTRAINT membership_confirmed_at_set_iff_by_claim CHECK ((((by_claim_of_id IS NULL) AND (confirmed_at IS NULL)) OR ((by_claim_of_id IS NOT NULL) AND (confirmed_at IS NOT NULL))))
);

ALTER TABLE public.accounts_membership ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_membership_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_passwordlink (
    id bigint NOT NULL,
    digest bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_passwordlink ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_passwordlink_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_securityevent (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind character varying(40) NOT NULL,
    actor_name character varying(150) NOT NULL,
    address character varying(64) NOT NULL,
    target character varying(250) NOT NULL,
    facts jsonb NOT NULL,
    times bigint NOT NULL,
    actor_id bigint,
    CONSTRAINT accounts_securityevent_times_check CHECK ((times >= 0))
);

ALTER TABLE public.accounts_securityevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_securityevent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_user (
    id bigint NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    operator boolean NOT NULL,
    default_group_id bigint,
    suspensions integer NOT NULL,
    mail_when character varying(8) NOT NULL,
    waits_since timestamp with time zone,
    CONSTRAINT accounts_user_suspensions_check CHECK ((suspensions >= 0)),
    CONSTRAINT user_mail_when_is_known CHECK (((mail_when)::text = ANY ((ARRAY['never'::character varying, 'ended'::character varying, 'failed'::character varying])::text[])))
);

CREATE TABLE public.accounts_user_groups (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    group_id integer NOT NULL
);

ALTER TABLE public.accounts_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.accounts_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_user_user_permissions (
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.accounts_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_userdn (
    id bigint NOT NULL,
    dn character varying(255) NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_userdn ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_userdn_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_vo (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    setup character varying(64) NOT NULL,
    setups character varying(64)[] NOT NULL,
    any_segment_fraction double precision NOT NULL,
    history_fair_share boolean NOT NULL,
    max_stalled_s integer,
    stalled_cpu_fraction double precision,
    stalled_s integer,
    CONSTRAINT accounts_vo_max_stalled_s_check CHECK ((max_stalled_s >= 0)),
    CONSTRAINT accounts_vo_stalled_s_check CHECK ((stalled_s >= 0)),
    CONSTRAINT vo_any_segment_fraction_is_0_to_1 CHECK (((any_segment_fraction >= (0.0)::double precision) AND (any_segment_fraction <= (1.0)::double precision))),
    CONSTRAINT vo_default_setup_is_one_of_its_setups CHECK ((setups @> ARRAY[setup])),
    CONSTRAINT vo_stalled_cpu_fraction_is_0_to_1 CHECK (((stalled_cpu_fraction >= (0.0)::double precision) AND (stalled_cpu_fraction <= (1.0)::double precision)))
);

ALTER TABLE public.accounts_vo ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_vo_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.accounts_vo_managers (
    id bigint NOT NULL,
    vo_id bigint NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.accounts_vo_managers ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.accounts_vo_managers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);

ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);

ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);

ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_admin_log (
    id integer NOT NULL,
    action_time timestamp with time zone NOT NULL,
    object_id text,
    object_repr character varying(200) NOT NULL,
    action_flag smallint NOT NULL,
    change_message text NOT NULL,
    content_type_id integer,
    user_id bigint NOT NULL,
    CONSTRAINT django_admin_log_action_flag_check CHECK ((action_flag >= 0))
);

ALTER TABLE public.django_admin_log ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_admin_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);

ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);

ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);

CREATE TABLE public.jobs_accounting (
    id smallint NOT NULL,
    seen text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    sampled_at timestamp with time zone,
    runs bigint NOT NULL,
    CONSTRAINT accounting_has_one_row CHECK ((id = 1)),
    CONSTRAINT jobs_accounting_id_check CHECK ((id >= 0))
);

CREATE TABLE public.jobs_jobcountchange (
    id bigint NOT NULL,
    submission_id uuid NOT NULL,
    owner_id bigint NOT NULL,
    group_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    job_type character varying(255) NOT NULL,
    status_before character varying(16),
    site_before_id bigint,
    status_after character varying(16),
    site_after_id bigint,
    jobs bigint NOT NULL,
    exit_code_after integer,
    exit_code_before integer
);

CREATE TABLE public.jobs_submissionjobcount (
    id bigint NOT NULL,
    owner_id bigint NOT NULL,
    group_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    status character varying(16) NOT NULL,
    jobs bigint NOT NULL,
    submission_id uuid NOT NULL,
    exit_code integer
)
WITH (fillfactor='50');

CREATE VIEW public.jobs_currentsubmissionjobcount AS
 SELECT jobs_submissionjobcount.owner_id,
    jobs_submissionjobcount.group_id,
    jobs_submissionjobcount.vo_id,
    jobs_submissionjobcount.status,
    jobs_submissionjobcount.jobs,
    jobs_submissionjobcount.submission_id,
    jobs_submissionjobcount.exit_code
   FROM public.jobs_submissionjobcount
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_after AS status,
    jobs_jobcountchange.jobs,
    jobs_jobcountchange.submission_id,
    jobs_jobcountchange.exit_code_after AS exit_code
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_after IS NOT NULL)
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_before AS status,
    (- jobs_jobcountchange.jobs) AS jobs,
    jobs_jobcountchange.submission_id,
    jobs_jobcountchange.exit_code_before AS exit_code
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_before IS NOT NULL);

CREATE TABLE public.jobs_submissioncontent (
    submission_id uuid NOT NULL,
    owner_id bigint NOT NULL,
    group_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    submitted_at timestamp with time zone,
    job_type character varying(255),
    job_group character varying(255),
    name_prefix character varying(255) NOT NULL,
    name_rest character varying(8) NOT NULL,
    first_job_id bigint NOT NULL,
    last_job_id bigint NOT NULL,
    labels character varying(255)[],
    name_stems character varying(255)[]
);

CREATE VIEW public.jobs_currentcontentjobcount AS
 SELECT content.owner_id,
    content.group_id,
    content.vo_id,
    count.status,
    count.jobs,
    count.submission_id,
    count.exit_code,
    content.submitted_at,
    content.job_type,
    content.job_group,
    content.name_prefix,
    content.name_rest
   FROM (public.jobs_currentsubmissionjobcount count
     JOIN public.jobs_submissioncontent content USING (submission_id));

CREATE TABLE public.jobs_jobcount (
    id bigint NOT NULL,
    owner_id bigint NOT NULL,
    group_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    status character varying(16) NOT NULL,
    jobs bigint NOT NULL,
    job_type character varying(255) NOT NULL,
    exit_code integer
);

CREATE VIEW public.jobs_currentjobcount AS
 SELECT jobs_jobcount.owner_id,
    jobs_jobcount.group_id,
    jobs_jobcount.vo_id,
    jobs_jobcount.status,
    jobs_jobcount.jobs,
    jobs_jobcount.job_type,
    jobs_jobcount.exit_code
   FROM public.jobs_jobcount
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_after AS status,
    jobs_jobcountchange.jobs,
    jobs_jobcountchange.job_type,
    jobs_jobcountchange.exit_code_after AS exit_code
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_after IS NOT NULL)
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_before AS status,
    (- jobs_jobcountchange.jobs) AS jobs,
    jobs_jobcountchange.job_type,
    jobs_jobcountchange.exit_code_before AS exit_code
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_before IS NOT NULL);

CREATE TABLE public.jobs_sitejobcount (
    id bigint NOT NULL,
    owner_id bigint NOT NULL,
    group_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    status character varying(16) NOT NULL,
    jobs bigint NOT NULL,
    site_id bigint
);

CREATE VIEW public.jobs_currentsitejobcount AS
 SELECT jobs_sitejobcount.owner_id,
    jobs_sitejobcount.group_id,
    jobs_sitejobcount.vo_id,
    jobs_sitejobcount.status,
    jobs_sitejobcount.jobs,
    jobs_sitejobcount.site_id
   FROM public.jobs_sitejobcount
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_after AS status,
    jobs_jobcountchange.jobs,
    jobs_jobcountchange.site_after_id AS site_id
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_after IS NOT NULL)
UNION ALL
 SELECT jobs_jobcountchange.owner_id,
    jobs_jobcountchange.group_id,
    jobs_jobcountchange.vo_id,
    jobs_jobcountchange.status_before AS status,
    (- jobs_jobcountchange.jobs) AS jobs,
    jobs_jobcountchange.site_before_id AS site_id
   FROM public.jobs_jobcountchange
  WHERE (jobs_jobcountchange.status_before IS NOT NULL);

CREATE TABLE public.jobs_inputsandbox (
    id bigint NOT NULL,
    file_name character varying(255) NOT NULL,
    job_id bigint NOT NULL,
    sandbox_id bigint NOT NULL
);

ALTER TABLE public.jobs_inputsandbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_inputsandbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_job (
    id bigint NOT NULL,
    status character varying(16) NOT NULL,
    minor_status character varying(255) NOT NULL,
    application_status character varying(255) NOT NULL,
    job_name character varying(255) NOT NULL,
    job_group character varying(255) NOT NULL,
    job_type character varying(255) NOT NULL,
    priority smallint NOT NULL,
    submit_pools character varying(255)[] NOT NULL,
    reschedules smallint NOT NULL,
    pilot_id bigint,
    submitted_at timestamp with time zone NOT NULL,
    status_changed_at timestamp with time zone NOT NULL,
    matched_at timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    exit_code integer,
    cpu_s double precision,
    wall_s double precision,
    max_memory_mb double precision,
    max_disk_mb double precision,
    group_id bigint NOT NULL,
    owner_id bigint NOT NULL,
    queue_id bigint,
    site_id bigint,
    vo_id bigint NOT NULL,
    output_sandbox_id bigint,
    submission_id uuid NOT NULL,
    ce_id bigint,
    input_sites character varying(128)[],
    held_back jsonb,
    stored_description_id bigint NOT NULL,
    CONSTRAINT job_has_known_status_and_priority_and_ended_at_iff_final CHECK (public.wms_job_is_possible(status, ended_at, priority, reschedules))
)
WITH (fillfactor='80');

ALTER TABLE public.jobs_job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobbucket (
    id bigint NOT NULL,
    width_s integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    job_type character varying(255) NOT NULL,
    started integer DEFAULT 0 NOT NULL,
    done integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    killed integer DEFAULT 0 NOT NULL,
    cpu_s double precision DEFAULT 0.0 NOT NULL,
    wall_s double precision DEFAULT 0.0 NOT NULL,
    running double precision DEFAULT 0.0 NOT NULL,
    waiting double precision DEFAULT 0.0 NOT NULL,
    waiting_for_data double precision DEFAULT 0.0 NOT NULL,
    waiting_for_room double precision DEFAULT 0.0 NOT NULL,
    held double precision DEFAULT 0.0 NOT NULL,
    group_id bigint NOT NULL,
    owner_id bigint NOT NULL,
    site_id bigint,
    vo_id bigint NOT NULL,
    waiting_unmatched double precision DEFAULT 0.0 NOT NULL
);

ALTER TABLE public.jobs_jobbucket ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobbucket_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobbucketperiod (
    width_s integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    samples integer NOT NULL
);

CREATE TABLE public.jobs_jobbucketsum (
    id bigint NOT NULL,
    width_s integer NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    started integer DEFAULT 0 NOT NULL,
    done integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    killed integer DEFAULT 0 NOT NULL,
    cpu_s double precision DEFAULT 0.0 NOT NULL,
    wall_s double precision DEFAULT 0.0 NOT NULL,
    running double precision DEFAULT 0.0 NOT NULL,
    waiting double precision DEFAULT 0.0 NOT NULL,
    waiting_unmatched double precision DEFAULT 0.0 NOT NULL,
    waiting_for_data double precision DEFAULT 0.0 NOT NULL,
    waiting_for_room double precision DEFAULT 0.0 NOT NULL,
    held double precision DEFAULT 0.0 NOT NULL,
    "grouping" character varying(8) NOT NULL,
    key bigint NOT NULL,
    job_type character varying(255) NOT NULL
);

ALTER TABLE public.jobs_jobbucketsum ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobbucketsum_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobcommand (
    id bigint NOT NULL,
    name character varying(16) NOT NULL,
    arguments jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    acknowledged_at timestamp with time zone,
    job_id bigint NOT NULL
);

ALTER TABLE public.jobs_jobcommand ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobcommand_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.jobs_jobcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.jobs_jobcountchange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobcountchange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_jobhistory (
    id bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    status character varying(16) NOT NULL,
    minor_status character varying(255) NOT NULL,
    application_status character varying(255) NOT NULL,
    source character varying(150) NOT NULL,
    job_id bigint NOT NULL,
    transaction_number bigint DEFAULT ((pg_current_xact_id())::text)::bigint
);

ALTER TABLE public.jobs_jobhistory ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_jobhistory_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.matching_match (
    id uuid NOT NULL,
    request_id uuid NOT NULL,
    ordinal smallint NOT NULL,
    leased_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    reported_at timestamp with time zone,
    reported_status character varying(16) NOT NULL,
    ended_at timestamp with time zone,
    end_reason character varying(32) NOT NULL,
    job_id bigint NOT NULL,
    pilot_id bigint NOT NULL,
    queue_id bigint,
    cpu_segment_s integer NOT NULL,
    job_at_fault boolean DEFAULT false NOT NULL,
    died boolean DEFAULT false NOT NULL
);

CREATE TABLE public.pilots_pilot (
    id bigint NOT NULL,
    stamp character varying(128) NOT NULL,
    batch_id character varying(255) NOT NULL,
    status character varying(16) NOT NULL,
    status_reason character varying(255) NOT NULL,
    host_name character varying(255) NOT NULL,
    node jsonb NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    matched_at timestamp with time zone,
    ended_at timestamp with time zone,
    revoked_at timestamp with time zone,
    group_id bigint,
    owner_id bigint,
    queue_id bigint,
    vo_id bigint NOT NULL,
    answered_request_id uuid,
    nothing_at timestamp with time zone,
    nothing_left jsonb,
    cleaned_at timestamp with time zone,
    slot jsonb NOT NULL,
    tried_at timestamp with time zone,
    drain_reason character varying(255) NOT NULL,
    drain_told_at timestamp with time zone,
    drained_at timestamp with time zone,
    black_hole_id bigint,
    stalled_at timestamp with time zone,
    ce_id bigint,
    site_id bigint,
    died boolean DEFAULT false NOT NULL,
    CONSTRAINT pilot_status_is_known_and_ended_at_set_iff_ended CHECK ((((ended_at IS NOT NULL) AND ((status)::text = ANY ('{Aborted,Done,Failed,Lost,Stalled}'::text[]))) OR ((ended_at IS NULL) AND ((status)::text = ANY ('{Running,Stalled,Submitted,Waiting}'::text[]))))),
    CONSTRAINT pilot_with_an_owner_has_a_group CHECK (((owner_id IS NULL) OR (group_id IS NOT NULL)))
)
WITH (fillfactor='80');

CREATE VIEW public.jobs_jobonhost AS
 SELECT job.id AS job_id,
    pilot.host_name
   FROM ((public.pilots_pilot pilot
     JOIN public.matching_match match ON ((match.pilot_id = pilot.id)))
     JOIN public.jobs_job job ON (((job.id = match.job_id) AND (job.pilot_id = pilot.id))))
  WHERE ((pilot.host_name)::text <> ''::text);

CREATE TABLE public.jobs_outputtail (
    job_id bigint NOT NULL,
    std_output bytea,
    attempt smallint NOT NULL,
    std_error bytea
);

CREATE TABLE public.jobs_sandbox (
    id bigint NOT NULL,
    digest character varying(64) NOT NULL,
    size_bytes bigint NOT NULL,
    is_archive boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    check_use_at timestamp with time zone NOT NULL,
    CONSTRAINT jobs_sandbox_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE public.jobs_sandbox ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_sandbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_sandboxupload (
    id bigint NOT NULL,
    file_name character varying(255) NOT NULL,
    uploaded_at timestamp with time zone NOT NULL,
    owner_id bigint NOT NULL,
    sandbox_id bigint NOT NULL,
    is_output boolean NOT NULL
);

ALTER TABLE public.jobs_sandboxupload ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_sandboxupload_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_saveddescription (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    syntax character varying(4) NOT NULL,
    text text NOT NULL,
    files jsonb NOT NULL,
    saved_at timestamp with time zone NOT NULL,
    owner_id bigint NOT NULL,
    CONSTRAINT saved_description_has_known_syntax CHECK (((syntax)::text = ANY ((ARRAY['form'::character varying, 'jdl'::character varying, 'cfg'::character varying, 'json'::character varying])::text[])))
);

ALTER TABLE public.jobs_saveddescription ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_saveddescription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.jobs_sitejobcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_sitejobcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_sitelayout (
    id smallint NOT NULL,
    digest bytea NOT NULL,
    CONSTRAINT jobs_sitelayout_id_check CHECK ((id >= 0)),
    CONSTRAINT site_layout_has_one_row CHECK ((id = 1))
);

CREATE TABLE public.jobs_storeddescription (
    id bigint NOT NULL,
    description jsonb NOT NULL,
    digest bytea GENERATED ALWAYS AS (sha256(jsonb_send(description))) STORED
);

ALTER TABLE public.jobs_storeddescription ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_storeddescription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_submission (
    id uuid NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    request_id uuid,
    body_digest bytea NOT NULL,
    answer jsonb,
    group_id bigint NOT NULL,
    owner_id bigint NOT NULL
);

ALTER TABLE public.jobs_submissionjobcount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.jobs_submissionjobcount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.jobs_submissionnotice (
    submission_id uuid NOT NULL,
    due_at timestamp with time zone NOT NULL,
    attempts smallint NOT NULL,
    owner_id bigint NOT NULL,
    CONSTRAINT jobs_submissionnotice_attempts_check CHECK ((attempts >= 0))
);

CREATE TABLE public.jobs_usagesamples (
    attempt smallint NOT NULL,
    step_s integer NOT NULL,
    samples smallint[] NOT NULL,
    job_id bigint NOT NULL
)
WITH (fillfactor='85');

CREATE TABLE public.kernel_pulse (
    name character varying(32) NOT NULL,
    beaten_at timestamp with time zone NOT NULL
);

CREATE TABLE public.matching_expirerrun (
    id smallint NOT NULL,
    ran_at timestamp with time zone NOT NULL,
    CONSTRAINT expirer_has_one_row CHECK ((id = 1)),
    CONSTRAINT matching_expirerrun_id_check CHECK ((id >= 0))
);

CREATE TABLE public.mfa_authenticator (
    id bigint NOT NULL,
    type character varying(20) NOT NULL,
    data jsonb NOT NULL,
    user_id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone
);

ALTER TABLE public.mfa_authenticator ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.mfa_authenticator_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_blackhole (
    id bigint NOT NULL,
    host_name character varying(255) NOT NULL,
    found_at timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    fetched integer NOT NULL,
    failed integer NOT NULL,
    reason character varying(255) NOT NULL,
    lifted_at timestamp with time zone,
    lifted_by character varying(150) NOT NULL,
    site_id bigint NOT NULL,
    CONSTRAINT black_hole_ends_after_it_was_found CHECK ((until > found_at)),
    CONSTRAINT black_hole_failed_no_more_than_it_fetched CHECK ((failed <= fetched)),
    CONSTRAINT pilots_blackhole_failed_check CHECK ((failed >= 0)),
    CONSTRAINT pilots_blackhole_fetched_check CHECK ((fetched >= 0))
);

ALTER TABLE public.pilots_blackhole ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_blackhole_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_cehealth (
    ce_id bigint NOT NULL,
    busy_until timestamp with time zone,
    asked_at timestamp with time zone,
    free_slots integer,
    failures integer NOT NULL,
    ask_after timestamp with time zone,
    send_after timestamp with time zone,
    trouble character varying(500) NOT NULL,
    doubts text NOT NULL,
    described_as character varying(64) NOT NULL,
    judged_from timestamp with time zone,
    stalls text NOT NULL,
    CONSTRAINT pilots_cehealth_failures_check CHECK ((failures >= 0)),
    CONSTRAINT pilots_cehealth_free_slots_check CHECK ((free_slots >= 0))
);

CREATE TABLE public.pilots_director (
    id bigint NOT NULL,
    name character varying(64) NOT NULL,
    kind character varying(16) NOT NULL,
    job_types character varying(255)[] NOT NULL,
    pilots_per_cycle integer NOT NULL,
    private_fraction double precision NOT NULL,
    CONSTRAINT director_private_fraction_is_0_to_1 CHECK (((private_fraction >= (0.0)::double precision) AND (private_fraction <= (1.0)::double precision))),
    CONSTRAINT pilots_director_pilots_per_cycle_check CHECK ((pilots_per_cycle >= 0))
);

ALTER TABLE public.pilots_director ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_director_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_director_sites (
    id bigint NOT NULL,
    director_id bigint NOT NULL,
    site_id bigint NOT NULL
);

ALTER TABLE public.pilots_director_sites ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_director_sites_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_directorrun (
    id bigint NOT NULL,
    ran_at timestamp with time zone NOT NULL,
    running_since timestamp with time zone NOT NULL
);

ALTER TABLE public.pilots_directorrun ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_directorrun_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE public.pilots_pilot ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_pilot_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_pilotlog (
    pilot_id bigint NOT NULL,
    received bigint NOT NULL,
    batch_output text NOT NULL,
    changed_at timestamp with time zone NOT NULL
);

CREATE TABLE public.pilots_pilotlogpart (
    id bigint NOT NULL,
    log_id bigint NOT NULL,
    "offset" bigint NOT NULL,
    text text NOT NULL
);

ALTER TABLE public.pilots_pilotlogpart ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.pilots_pilotlogpart_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.pilots_pilotsecret (
    pilot_id bigint NOT NULL,
    digest bytea NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);

CREATE TABLE public.resources_computingelement (
    id bigint NOT NULL,
    state character varying(16) NOT NULL,
    state_reason character varying(255) NOT NULL,
    state_until timestamp with time zone,
    state_changed_at timestamp with time zone NOT NULL,
    parameters jsonb NOT NULL,
    vo_parameters jsonb NOT NULL,
    name character varying(128) NOT NULL,
    type character varying(16) NOT NULL,
    options jsonb NOT NULL,
    pilot_types character varying(16)[] NOT NULL,
    identity character varying(16) NOT NULL,
    state_changed_by_id bigint,
    site_id bigint NOT NULL,
    middleware character varying(128) NOT NULL,
    CONSTRAINT ce_state_is_known CHECK (((state)::text = ANY ((ARRAY['active'::character varying, 'draining'::character varying, 'banned'::character varying])::text[])))
);

ALTER TABLE public.resources_computingelement ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_computingelement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_platform (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    runs character varying(255)[] NOT NULL
);

ALTER TABLE public.resources_platform ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_platform_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_queue (
    id bigint NOT NULL,
    state character varying(16) NOT NULL,
    state_reason character varying(255) NOT NULL,
    state_until timestamp with time zone,
    state_changed_at timestamp with time zone NOT NULL,
    parameters jsonb NOT NULL,
    vo_parameters jsonb NOT NULL,
    name character varying(128) NOT NULL,
    cpu_time_s integer NOT NULL,
    platforms character varying(255)[] NOT NULL,
    processors integer NOT NULL,
    memory_mb integer NOT NULL,
    job_types character varying(255)[] NOT NULL,
    tags character varying(255)[] NOT NULL,
    required_tags character varying(255)[] NOT NULL,
    max_waiting_pilots integer NOT NULL,
    max_pilots integer NOT NULL,
    ce_id bigint NOT NULL,
    state_changed_by_id bigint,
    container boolean NOT NULL,
    disk_mb integer NOT NULL,
    gpus integer NOT NULL,
    wall_time_s integer,
    saying character varying(32) GENERATED ALWAYS AS (md5((COALESCE((parameters)::text, ''::text) || COALESCE((vo_parameters)::text, ''::text)))) STORED,
    max_stalled_s integer,
    stalled_cpu_fraction double precision,
    stalled_s integer,
    CONSTRAINT queue_required_tags_are_among_its_tags CHECK ((tags @> required_tags)),
    CONSTRAINT queue_stalled_cpu_fraction_is_0_to_1 CHECK (((stalled_cpu_fraction >= (0.0)::double precision) AND (stalled_cpu_fraction <= (1.0)::double precision))),
    CONSTRAINT queue_state_is_known CHECK (((state)::text = ANY ((ARRAY['active'::character varying, 'draining'::character varying, 'banned'::character varying])::text[]))),
    CONSTRAINT resources_queue_cpu_time_s_check CHECK ((cpu_time_s >= 0)),
    CONSTRAINT resources_queue_disk_mb_check CHECK ((disk_mb >= 0)),
    CONSTRAINT resources_queue_gpus_check CHECK ((gpus >= 0)),
    CONSTRAINT resources_queue_max_pilots_check CHECK ((max_pilots >= 0)),
    CONSTRAINT resources_queue_max_stalled_s_check CHECK ((max_stalled_s >= 0)),
    CONSTRAINT resources_queue_max_waiting_pilots_check CHECK ((max_waiting_pilots >= 0)),
    CONSTRAINT resources_queue_memory_mb_check CHECK ((memory_mb >= 0)),
    CONSTRAINT resources_queue_processors_check CHECK ((processors >= 0)),
    CONSTRAINT resources_queue_stalled_s_check CHECK ((stalled_s >= 0)),
    CONSTRAINT resources_queue_wall_time_s_check CHECK ((wall_time_s >= 0))
);

ALTER TABLE public.resources_queue ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_queue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_replica (
    id bigint NOT NULL,
    lfn character varying(255) NOT NULL COLLATE pg_catalog."C",
    size_bytes bigint,
    checksum character varying(71) NOT NULL,
    storage_element_id bigint NOT NULL,
    vo_id bigint NOT NULL,
    CONSTRAINT replica_lfn_is_an_absolute_path CHECK (((lfn)::text ~~ '/%'::text)),
    CONSTRAINT resources_replica_size_bytes_check CHECK ((size_bytes >= 0))
);

ALTER TABLE public.resources_replica ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_replica_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_replicachange (
    id bigint NOT NULL,
    lfn character varying(255) NOT NULL,
    looked_at timestamp with time zone,
    job_id bigint NOT NULL,
    vo_id bigint
);

ALTER TABLE public.resources_replicachange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_replicachange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_reportedplatform (
    id bigint NOT NULL,
    platform character varying(128) NOT NULL,
    host_name character varying(255) NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    queue_id bigint NOT NULL
);

ALTER TABLE public.resources_reportedplatform ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_reportedplatform_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_requirementdefinition (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    kind character varying(16) NOT NULL,
    unit character varying(32) NOT NULL
);

ALTER TABLE public.resources_requirementdefinition ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_requirementdefinition_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_requirementdefinition_vos (
    id bigint NOT NULL,
    requirementdefinition_id bigint CONSTRAINT resources_requirementdefiniti_requirementdefinition_id_not_null NOT NULL,
    vo_id bigint NOT NULL
);

ALTER TABLE public.resources_requirementdefinition_vos ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_requirementdefinition_vos_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_site (
    id bigint NOT NULL,
    state character varying(16) NOT NULL,
    state_reason character varying(255) NOT NULL,
    state_until timestamp with time zone,
    state_changed_at timestamp with time zone NOT NULL,
    parameters jsonb NOT NULL,
    vo_parameters jsonb NOT NULL,
    name character varying(128) NOT NULL,
    throttle_policy character varying(16) NOT NULL,
    throttle_advertisement_s integer NOT NULL,
    throttle_when_expired character varying(16) NOT NULL,
    throttle_requirements text NOT NULL,
    max_matches integer,
    max_submitting_jobs integer,
    max_submitting_and_output_gathering_jobs integer,
    max_jobs integer,
    state_changed_by_id bigint,
    containers_provide_platforms boolean NOT NULL,
    CONSTRAINT resources_site_max_jobs_check CHECK ((max_jobs >= 0)),
    CONSTRAINT resources_site_max_matches_check CHECK ((max_matches >= 0)),
    CONSTRAINT resources_site_max_submitting_and_output_gathering_jobs_check CHECK ((max_submitting_and_output_gathering_jobs >= 0)),
    CONSTRAINT resources_site_max_submitting_jobs_check CHECK ((max_submitting_jobs >= 0)),
    CONSTRAINT resources_site_throttle_advertisement_s_check CHECK ((throttle_advertisement_s >= 0)),
    CONSTRAINT site_state_is_known CHECK (((state)::text = ANY ((ARRAY['active'::character varying, 'draining'::character varying, 'banned'::character varying])::text[])))
);

ALTER TABLE public.resources_site ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_site_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_site_storage_elements (
    id bigint NOT NULL,
    site_id bigint NOT NULL,
    storageelement_id bigint NOT NULL
);

ALTER TABLE public.resources_site_storage_elements ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_site_storage_elements_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_site_vos (
    id bigint NOT NULL,
    site_id bigint NOT NULL,
    vo_id bigint NOT NULL
);

ALTER TABLE public.resources_site_vos ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_site_vos_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_sitetoken (
    id bigint NOT NULL,
    purpose character varying(16) NOT NULL,
    digest bytea NOT NULL,
    configured boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    revoked_at timestamp with time zone,
    site_id bigint NOT NULL,
    expires_at timestamp with time zone,
    registrations integer NOT NULL,
    registered_at timestamp with time zone,
    CONSTRAINT resources_sitetoken_registrations_check CHECK ((registrations >= 0))
);

ALTER TABLE public.resources_sitetoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_sitetoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_storageelement (
    id bigint NOT NULL,
    name character varying(128) NOT NULL,
    url character varying(500) NOT NULL,
    credential_encrypted bytea NOT NULL,
    credential_for_pilots boolean NOT NULL
);

ALTER TABLE public.resources_storageelement ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_storageelement_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_storageelement_vos (
    id bigint NOT NULL,
    storageelement_id bigint NOT NULL,
    vo_id bigint NOT NULL
);

ALTER TABLE public.resources_storageelement_vos ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.resources_storageelement_vos_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.resources_throttlestate (
    site_id bigint NOT NULL,
    version bigint NOT NULL,
    advertised jsonb NOT NULL,
    classad text NOT NULL,
    advertised_at timestamp with time zone,
    measured_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    room integer,
    matched integer NOT NULL,
    gateways jsonb NOT NULL,
    CONSTRAINT resources_throttlestate_matched_check CHECK ((matched >= 0)),
    CONSTRAINT resources_throttlestate_room_check CHECK ((room >= 0))
)
WITH (fillfactor='20');

CREATE TABLE public.socialaccount_socialaccount (
    id integer NOT NULL,
    provider character varying(200) NOT NULL,
    uid character varying(191) NOT NULL,
    last_login timestamp with time zone NOT NULL,
    date_joined timestamp with time zone NOT NULL,
    extra_data jsonb NOT NULL,
    user_id bigint NOT NULL
);

ALTER TABLE public.socialaccount_socialaccount ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialaccount_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialapp (
    id integer NOT NULL,
    provider character varying(30) NOT NULL,
    name character varying(40) NOT NULL,
    client_id character varying(191) NOT NULL,
    secret character varying(191) NOT NULL,
    key character varying(191) NOT NULL,
    provider_id character varying(200) NOT NULL,
    settings jsonb NOT NULL
);

ALTER TABLE public.socialaccount_socialapp ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialapp_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.socialaccount_socialtoken (
    id integer NOT NULL,
    token text NOT NULL,
    token_secret text NOT NULL,
    expires_at timestamp with time zone,
    account_id integer NOT NULL,
    app_id integer
);

ALTER TABLE public.socialaccount_socialtoken ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.socialaccount_socialtoken_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_changedgroup (
    id bigint NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    group_id bigint NOT NULL
);

ALTER TABLE public.taskqueues_changedgroup ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_changedgroup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_delivery (
    id bigint NOT NULL,
    cpu_segment_s integer NOT NULL,
    began_at timestamp with time zone NOT NULL,
    matches integer NOT NULL,
    processor_s double precision NOT NULL,
    group_id bigint NOT NULL,
    CONSTRAINT taskqueues_delivery_cpu_segment_s_check CHECK ((cpu_segment_s >= 0)),
    CONSTRAINT taskqueues_delivery_matches_check CHECK ((matches >= 0))
);

ALTER TABLE public.taskqueues_delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_deliverycount (
    id smallint NOT NULL,
    counted_until timestamp with time zone NOT NULL,
    CONSTRAINT delivery_count_has_one_row CHECK ((id = 1)),
    CONSTRAINT taskqueues_deliverycount_id_check CHECK ((id >= 0))
);

CREATE TABLE public.taskqueues_groupusage (
    group_id bigint NOT NULL,
    used_s double precision NOT NULL
);

ALTER TABLE public.taskqueues_limit ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_limit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_limitcount (
    limit_id bigint NOT NULL,
    free_at timestamp with time zone,
    cpu_s double precision NOT NULL
);

CREATE TABLE public.taskqueues_limitevent (
    id bigint NOT NULL,
    jobs_left smallint NOT NULL,
    cpu_s double precision NOT NULL,
    happened_at timestamp with time zone DEFAULT public.wms_now() NOT NULL,
    limit_id bigint NOT NULL
);

ALTER TABLE public.taskqueues_limitevent ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_limitevent_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_limithour (
    id bigint NOT NULL,
    began_at timestamp with time zone NOT NULL,
    cpu_s double precision NOT NULL,
    limit_id bigint NOT NULL
);

ALTER TABLE public.taskqueues_limithour ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_limithour_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_limitslot (
    id bigint NOT NULL,
    number smallint NOT NULL,
    part integer NOT NULL,
    used integer NOT NULL,
    limit_id bigint NOT NULL,
    CONSTRAINT taskqueues_limitslot_number_check CHECK ((number >= 0))
)
WITH (fillfactor='20');

ALTER TABLE public.taskqueues_limitslot ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_limitslot_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_queuedjob (
    job_id bigint NOT NULL,
    user_priority smallint NOT NULL,
    task_queue_id bigint NOT NULL,
    is_held_back boolean DEFAULT false NOT NULL,
    not_before timestamp with time zone,
    avoided_until timestamp with time zone,
    avoided_queue_ids bigint[],
    avoided_host character varying(255),
    CONSTRAINT a_job_that_is_held_back_says_until_when CHECK (((is_held_back AND (not_before IS NOT NULL)) OR ((avoided_until IS NULL) AND (NOT is_held_back) AND (not_before IS NULL)))),
    CONSTRAINT a_place_is_avoided_until_some_time CHECK ((((avoided_host IS NULL) AND (avoided_queue_ids IS NULL) AND (avoided_until IS NULL)) OR ((avoided_queue_ids IS NOT NULL) AND (avoided_until IS NOT NULL)))),
    CONSTRAINT taskqueues_queuedjob_user_priority_check CHECK ((user_priority >= 0)),
    CONSTRAINT user_priority_is_0_to_10 CHECK (((user_priority >= 0) AND (user_priority <= 10)))
)
WITH (autovacuum_vacuum_scale_factor='0.01');

CREATE TABLE public.taskqueues_stalesubmitpools (
    id bigint NOT NULL,
    pool character varying(64) NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    vo_id bigint NOT NULL
);

ALTER TABLE public.taskqueues_stalesubmitpools ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_stalesubmitpools_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_submitpool (
    id character varying(64) NOT NULL,
    requirements jsonb NOT NULL,
    refreshed_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone NOT NULL,
    vo_id bigint NOT NULL
);

CREATE TABLE public.taskqueues_submitpool_queues (
    submitpool_id character varying(64) NOT NULL,
    queue_id bigint NOT NULL
);

ALTER TABLE public.taskqueues_taskqueue ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_taskqueue_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.taskqueues_taskqueuechange (
    id bigint NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    task_queue_id bigint NOT NULL,
    user_priority smallint,
    jobs integer NOT NULL,
    counted_in text DEFAULT ''::text NOT NULL,
    changed_at timestamp with time zone DEFAULT statement_timestamp() NOT NULL,
    CONSTRAINT taskqueues_taskqueuechange_user_priority_check CHECK ((user_priority >= 0))
);

ALTER TABLE public.taskqueues_taskqueuechange ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.taskqueues_taskqueuechange_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.taskqueues_waitingjobcount AS
 SELECT owner_id,
    group_id,
    vo_id,
    job_type,
    jobs
   FROM public.jobs_currentjobcount
  WHERE ((status)::text = 'Waiting'::text);

ALTER TABLE ONLY public.taskqueues_delivery
    ADD CONSTRAINT a_group_has_one_delivery_of_a_segment_in_an_interval UNIQUE (began_at, group_id, cpu_segment_s);

ALTER TABLE ONLY public.jobs_inputsandbox
    ADD CONSTRAINT a_job_names_a_sandbox_once UNIQUE (job_id, sandbox_id);

ALTER TABLE ONLY public.taskqueues_limithour
    ADD CONSTRAINT a_limit_has_each_hour_once UNIQUE (limit_id, began_at);

ALTER TABLE ONLY public.taskqueues_limitslot
    ADD CONSTRAINT a_limit_has_each_slot_once UNIQUE (limit_id, number);

ALTER TABLE ONLY public.pilots_pilotlogpart
    ADD CONSTRAINT a_part_of_a_pilots_log_is_kept_once UNIQUE (log_id, "offset");

ALTER TABLE ONLY public.resources_reportedplatform
    ADD CONSTRAINT a_platform_is_reported_once_of_a_queue UNIQUE (queue_id, platform);

ALTER TABLE ONLY public.matching_match
    ADD CONSTRAINT a_request_of_a_pilot_gets_its_leases_once UNIQUE (pilot_id, request_id, ordinal);

ALTER TABLE ONLY public.resources_replica
    ADD CONSTRAINT a_storage_element_holds_a_file_of_a_vo_once UNIQUE (vo_id, lfn, storage_element_id);

ALTER TABLE ONLY public.jobs_sandboxupload
    ADD CONSTRAINT a_user_uploads_a_content_under_a_name_once UNIQUE (sandbox_id, owner_id, file_name);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_email_987c8728_uniq UNIQUE (user_id, email);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_key_key UNIQUE (key);

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirmation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_failedlogin
    ADD CONSTRAINT accounts_failedlogin_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_group
    ADD CONSTRAINT accounts_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.accounts_group
    ADD CONSTRAINT accounts_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_passwordlink
    ADD CONSTRAINT accounts_passwordlink_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.accounts_passwordlink
    ADD CONSTRAINT accounts_passwordlink_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_passwordlink
    ADD CONSTRAINT accounts_passwordlink_user_id_key UNIQUE (user_id);

ALTER TABLE ONLY public.accounts_securityevent
    ADD CONSTRAINT accounts_securityevent_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_group_id_59c0b32f_uniq UNIQUE (user_id, group_id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permi_user_id_permission_id_2ab516c2_uniq UNIQUE (user_id, permission_id);

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_username_key UNIQUE (username);

ALTER TABLE ONLY public.accounts_userdn
    ADD CONSTRAINT accounts_userdn_dn_key UNIQUE (dn);

ALTER TABLE ONLY public.accounts_userdn
    ADD CONSTRAINT accounts_userdn_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_vo_managers
    ADD CONSTRAINT accounts_vo_managers_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_vo_managers
    ADD CONSTRAINT accounts_vo_managers_vo_id_user_id_45ef6c52_uniq UNIQUE (vo_id, user_id);

ALTER TABLE ONLY public.accounts_vo
    ADD CONSTRAINT accounts_vo_name_key UNIQUE (name);

ALTER TABLE ONLY public.accounts_vo
    ADD CONSTRAINT accounts_vo_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_computingelement
    ADD CONSTRAINT ce_name_is_unique_at_its_site UNIQUE (site_id, name);

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);

ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);

ALTER TABLE ONLY public.jobs_jobbucket
    ADD CONSTRAINT job_bucket_is_one_row UNIQUE NULLS NOT DISTINCT (width_s, begun_at, owner_id, group_id, site_id, job_type);

ALTER TABLE ONLY public.jobs_jobbucketsum
    ADD CONSTRAINT job_bucket_sum_is_one_row UNIQUE (width_s, "grouping", begun_at, key, job_type);

ALTER TABLE ONLY public.jobs_jobcount
    ADD CONSTRAINT job_count_is_one_row UNIQUE NULLS NOT DISTINCT (owner_id, group_id, job_type, status, exit_code);

ALTER TABLE ONLY public.jobs_accounting
    ADD CONSTRAINT jobs_accounting_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_inputsandbox
    ADD CONSTRAINT jobs_inputsandbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobbucket
    ADD CONSTRAINT jobs_jobbucket_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobbucketperiod
    ADD CONSTRAINT jobs_jobbucketperiod_pkey PRIMARY KEY (width_s, begun_at);

ALTER TABLE ONLY public.jobs_jobbucketsum
    ADD CONSTRAINT jobs_jobbucketsum_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobcommand
    ADD CONSTRAINT jobs_jobcommand_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobcount
    ADD CONSTRAINT jobs_jobcount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_jobhistory
    ADD CONSTRAINT jobs_jobhistory_pkey PRIMARY KEY (job_id, id);

ALTER TABLE ONLY public.jobs_outputtail
    ADD CONSTRAINT jobs_outputtail_pkey PRIMARY KEY (job_id, attempt);

ALTER TABLE ONLY public.jobs_sandbox
    ADD CONSTRAINT jobs_sandbox_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.jobs_sandbox
    ADD CONSTRAINT jobs_sandbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_sandboxupload
    ADD CONSTRAINT jobs_sandboxupload_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_saveddescription
    ADD CONSTRAINT jobs_saveddescription_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_sitejobcount
    ADD CONSTRAINT jobs_sitejobcount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_sitelayout
    ADD CONSTRAINT jobs_sitelayout_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_storeddescription
    ADD CONSTRAINT jobs_storeddescription_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.jobs_storeddescription
    ADD CONSTRAINT jobs_storeddescription_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_submission
    ADD CONSTRAINT jobs_submission_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_submissioncontent
    ADD CONSTRAINT jobs_submissioncontent_pkey PRIMARY KEY (submission_id);

ALTER TABLE ONLY public.jobs_submissionjobcount
    ADD CONSTRAINT jobs_submissionjobcount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_submissionnotice
    ADD CONSTRAINT jobs_submissionnotice_pkey PRIMARY KEY (submission_id);

ALTER TABLE ONLY public.jobs_usagesamples
    ADD CONSTRAINT jobs_usagesamples_pkey PRIMARY KEY (job_id, attempt);

ALTER TABLE ONLY public.kernel_pulse
    ADD CONSTRAINT kernel_pulse_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.matching_expirerrun
    ADD CONSTRAINT matching_expirerrun_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.matching_match
    ADD CONSTRAINT matching_match_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT name_is_invited_to_a_group_once UNIQUE (group_id, username);

ALTER TABLE ONLY public.pilots_blackhole
    ADD CONSTRAINT pilots_blackhole_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_cehealth
    ADD CONSTRAINT pilots_cehealth_pkey PRIMARY KEY (ce_id);

ALTER TABLE ONLY public.pilots_director
    ADD CONSTRAINT pilots_director_name_key UNIQUE (name);

ALTER TABLE ONLY public.pilots_director
    ADD CONSTRAINT pilots_director_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_director_sites
    ADD CONSTRAINT pilots_director_sites_director_id_site_id_1e1b8c4f_uniq UNIQUE (director_id, site_id);

ALTER TABLE ONLY public.pilots_director_sites
    ADD CONSTRAINT pilots_director_sites_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_directorrun
    ADD CONSTRAINT pilots_directorrun_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_pilotlog
    ADD CONSTRAINT pilots_pilotlog_pkey PRIMARY KEY (pilot_id);

ALTER TABLE ONLY public.pilots_pilotlogpart
    ADD CONSTRAINT pilots_pilotlogpart_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.pilots_pilotsecret
    ADD CONSTRAINT pilots_pilotsecret_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.pilots_pilotsecret
    ADD CONSTRAINT pilots_pilotsecret_pkey PRIMARY KEY (pilot_id);

ALTER TABLE ONLY public.resources_queue
    ADD CONSTRAINT queue_name_is_unique_at_its_ce UNIQUE (ce_id, name);

ALTER TABLE ONLY public.resources_computingelement
    ADD CONSTRAINT resources_computingelement_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_platform
    ADD CONSTRAINT resources_platform_name_key UNIQUE (name);

ALTER TABLE ONLY public.resources_platform
    ADD CONSTRAINT resources_platform_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_queue
    ADD CONSTRAINT resources_queue_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_replica
    ADD CONSTRAINT resources_replica_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_replicachange
    ADD CONSTRAINT resources_replicachange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_reportedplatform
    ADD CONSTRAINT resources_reportedplatform_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_requirementdefinition_vos
    ADD CONSTRAINT resources_requirementdef_requirementdefinition_id_d0cbdd00_uniq UNIQUE (requirementdefinition_id, vo_id);

ALTER TABLE ONLY public.resources_requirementdefinition
    ADD CONSTRAINT resources_requirementdefinition_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_requirementdefinition_vos
    ADD CONSTRAINT resources_requirementdefinition_vos_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_site
    ADD CONSTRAINT resources_site_name_key UNIQUE (name);

ALTER TABLE ONLY public.resources_site
    ADD CONSTRAINT resources_site_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_site_storage_elements
    ADD CONSTRAINT resources_site_storage_e_site_id_storageelement_i_f54b7815_uniq UNIQUE (site_id, storageelement_id);

ALTER TABLE ONLY public.resources_site_storage_elements
    ADD CONSTRAINT resources_site_storage_elements_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_site_vos
    ADD CONSTRAINT resources_site_vos_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_site_vos
    ADD CONSTRAINT resources_site_vos_site_id_vo_id_6b1e59d2_uniq UNIQUE (site_id, vo_id);

ALTER TABLE ONLY public.resources_sitetoken
    ADD CONSTRAINT resources_sitetoken_digest_key UNIQUE (digest);

ALTER TABLE ONLY public.resources_sitetoken
    ADD CONSTRAINT resources_sitetoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_storageelement
    ADD CONSTRAINT resources_storageelement_name_key UNIQUE (name);

ALTER TABLE ONLY public.resources_storageelement
    ADD CONSTRAINT resources_storageelement_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_storageelement_vos
    ADD CONSTRAINT resources_storageelement_storageelement_id_vo_id_c9934d6b_uniq UNIQUE (storageelement_id, vo_id);

ALTER TABLE ONLY public.resources_storageelement_vos
    ADD CONSTRAINT resources_storageelement_vos_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.resources_throttlestate
    ADD CONSTRAINT resources_throttlestate_pkey PRIMARY KEY (site_id);

ALTER TABLE ONLY public.jobs_saveddescription
    ADD CONSTRAINT saved_description_has_a_name_of_its_own UNIQUE (owner_id, name);

ALTER TABLE ONLY public.jobs_sitejobcount
    ADD CONSTRAINT site_job_count_is_one_row UNIQUE NULLS NOT DISTINCT (owner_id, group_id, site_id, status);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_socialaccount_provider_uid_fc810c6e_uniq UNIQUE (provider, uid);

ALTER TABLE ONLY public.socialaccount_socialapp
    ADD CONSTRAINT socialaccount_socialapp_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_app_id_account_id_fca4e0ac_uniq UNIQUE (app_id, account_id);

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_socialtoken_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.jobs_submissionjobcount
    ADD CONSTRAINT submission_job_count_is_one_row UNIQUE NULLS NOT DISTINCT (submission_id, owner_id, group_id, status, exit_code);

ALTER TABLE ONLY public.taskqueues_changedgroup
    ADD CONSTRAINT taskqueues_changedgroup_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_delivery
    ADD CONSTRAINT taskqueues_delivery_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_deliverycount
    ADD CONSTRAINT taskqueues_deliverycount_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_groupusage
    ADD CONSTRAINT taskqueues_groupusage_pkey PRIMARY KEY (group_id);

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_limitcount
    ADD CONSTRAINT taskqueues_limitcount_pkey PRIMARY KEY (limit_id);

ALTER TABLE ONLY public.taskqueues_limitevent
    ADD CONSTRAINT taskqueues_limitevent_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_limithour
    ADD CONSTRAINT taskqueues_limithour_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_limitslot
    ADD CONSTRAINT taskqueues_limitslot_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_queuedjob
    ADD CONSTRAINT taskqueues_queuedjob_pkey PRIMARY KEY (job_id);

ALTER TABLE ONLY public.taskqueues_stalesubmitpools
    ADD CONSTRAINT taskqueues_stalesubmitpools_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_submitpool
    ADD CONSTRAINT taskqueues_submitpool_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_submitpool_queues
    ADD CONSTRAINT taskqueues_submitpool_queues_pkey PRIMARY KEY (submitpool_id, queue_id);

ALTER TABLE ONLY public.taskqueues_taskqueue
    ADD CONSTRAINT taskqueues_taskqueue_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.taskqueues_taskqueue
    ADD CONSTRAINT taskqueues_taskqueue_signature_key UNIQUE (signature);

ALTER TABLE ONLY public.taskqueues_taskqueuechange
    ADD CONSTRAINT taskqueues_taskqueuechange_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT user_is_member_of_a_group_once UNIQUE (user_id, group_id);

CREATE UNIQUE INDEX a_host_is_one_black_hole_at_a_time ON public.pilots_blackhole USING btree (site_id, host_name) WHERE (lifted_at IS NULL);

CREATE INDEX account_emailaddress_email_03be32b2 ON public.account_emailaddress USING btree (email);

CREATE INDEX account_emailaddress_email_03be32b2_like ON public.account_emailaddress USING btree (email varchar_pattern_ops);

CREATE INDEX account_emailaddress_user_id_2c513194 ON public.account_emailaddress USING btree (user_id);

CREATE INDEX account_emailconfirmation_email_address_id_5b7f8c58 ON public.account_emailconfirmation USING btree (email_address_id);

CREATE INDEX account_emailconfirmation_key_f43612bd_like ON public.account_emailconfirmation USING btree (key varchar_pattern_ops);

CREATE INDEX accounts_apitoken_user_id_bbee13e0 ON public.accounts_apitoken USING btree (user_id);

CREATE INDEX accounts_group_vo_id_133a22b4 ON public.accounts_group USING btree (vo_id);

CREATE INDEX accounts_invitation_invited_by_id_94a21efc ON public.accounts_invitation USING btree (invited_by_id);

CREATE INDEX accounts_membership_by_claim_of_id_629cc8f2 ON public.accounts_membership USING btree (by_claim_of_id);

CREATE INDEX accounts_membership_group_id_ae835a10 ON public.accounts_membership USING btree (group_id);

CREATE INDEX accounts_securityevent_actor_id_ff334cfc ON public.accounts_securityevent USING btree (actor_id);

CREATE INDEX accounts_user_default_group_id_2de9cbb3 ON public.accounts_user USING btree (default_group_id);

CREATE INDEX accounts_user_groups_group_id_bd11a704 ON public.accounts_user_groups USING btree (group_id);

CREATE INDEX accounts_user_groups_user_id_52b62117 ON public.accounts_user_groups USING btree (user_id);

CREATE INDEX accounts_user_user_permissions_permission_id_113bb443 ON public.accounts_user_user_permissions USING btree (permission_id);

CREATE INDEX accounts_user_user_permissions_user_id_e4f0a161 ON public.accounts_user_user_permissions USING btree (user_id);

CREATE INDEX accounts_userdn_user_id_6a09fb70 ON public.accounts_userdn USING btree (user_id);

CREATE INDEX accounts_vo_managers_user_id_9eac60ab ON public.accounts_vo_managers USING btree (user_id);

CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);

CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);

CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);

CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);

CREATE INDEX black_hole_of_host ON public.pilots_blackhole USING btree (site_id, host_name, found_at DESC);

CREATE INDEX command_to_be_obeyed ON public.jobs_jobcommand USING btree (job_id) WHERE (acknowledged_at IS NULL);

CREATE INDEX content_of_group ON public.jobs_submissioncontent USING btree (group_id);

CREATE INDEX content_of_owner ON public.jobs_submissioncontent USING btree (owner_id, first_job_id);

CREATE INDEX content_since ON public.jobs_submissioncontent USING btree (submitted_at);

CREATE INDEX content_with_label ON public.jobs_submissioncontent USING btree (job_group);

CREATE INDEX content_with_labels ON public.jobs_submissioncontent USING gin (labels) WITH (fastupdate=off) WHERE (labels IS NOT NULL);

CREATE INDEX content_with_name ON public.jobs_submissioncontent USING btree (name_prefix varchar_pattern_ops);

CREATE INDEX content_with_name_stems ON public.jobs_submissioncontent USING gin (name_stems) WITH (fastupdate=off) WHERE (name_stems IS NOT NULL);

CREATE INDEX description_of_input_file ON public.jobs_storeddescription USING gin (((description -> 'input_data'::text))) WHERE ((description #> '{input_data,0}'::text[]) IS NOT NULL);

CREATE INDEX django_admin_log_content_type_id_c4bce8eb ON public.django_admin_log USING btree (content_type_id);

CREATE INDEX django_admin_log_user_id_c564eba6 ON public.django_admin_log USING btree (user_id);

CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);

CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);

CREATE INDEX event_of_limit ON public.taskqueues_limitevent USING btree (limit_id);

CREATE INDEX failed_log_in_recent ON public.accounts_failedlogin USING btree (failed_at);

CREATE INDEX invitation_by_name ON public.accounts_invitation USING btree (username);

CREATE INDEX job_count_of_site ON public.jobs_sitejobcount USING btree (site_id, status);

CREATE UNIQUE INDEX job_has_at_most_one_open_match ON public.matching_match USING btree (job_id) WHERE (ended_at IS NULL);

CREATE INDEX job_history_in_order ON public.jobs_jobhistory USING brin (transaction_number, id) WITH (autosummarize='on', pages_per_range='16');

CREATE INDEX job_of_its_kind ON public.jobs_job USING btree (owner_id, group_id, status, id);

CREATE INDEX job_of_its_kind_at_site ON public.jobs_job USING btree (site_id, owner_id, group_id, status, id) INCLUDE (submission_id, exit_code) WHERE (site_id IS NOT NULL);

CREATE INDEX job_of_output_sandbox ON public.jobs_job USING btree (output_sandbox_id) WHERE (output_sandbox_id IS NOT NULL);

CREATE INDEX job_of_stored_description ON public.jobs_job USING btree (stored_description_id) WHERE ((input_sites IS NOT NULL) AND ((status)::text = ANY ((ARRAY['Checking'::character varying, 'Waiting'::character varying])::text[])));

CREATE INDEX job_of_submission ON public.jobs_job USING btree (submission_id, job_name varchar_pattern_ops) WITH (fillfactor='50');

CREATE INDEX job_that_names_pools ON public.jobs_job USING btree (id) WHERE (((status)::text = ANY ('{Checking,Completing,Held,Matched,Received,Rescheduled,Running,Stalled}'::text[])) AND (NOT (submit_pools = '{}'::character varying(255)[])));

CREATE INDEX job_that_waits_for_room ON public.jobs_job USING btree (group_id, owner_id, job_type, id) WHERE (((minor_status)::text = 'Waits for room in a quota of waiting jobs'::text) AND ((status)::text = 'Checking'::text));

CREATE INDEX job_with_input_data ON public.jobs_job USING btree (id) WHERE ((input_sites IS NOT NULL) AND ((status)::text = ANY ((ARRAY['Checking'::character varying, 'Waiting'::character varying])::text[])));

CREATE INDEX jobs_inputsandbox_sandbox_id_65ed5e02 ON public.jobs_inputsandbox USING btree (sandbox_id);

CREATE INDEX jobs_sandbox_check_use_at_a4484ae1 ON public.jobs_sandbox USING btree (check_use_at);

CREATE INDEX jobs_sandboxupload_owner_id_5874eef3 ON public.jobs_sandboxupload USING btree (owner_id);

CREATE INDEX match_ended ON public.matching_match USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX match_open ON public.matching_match USING btree (pilot_id) WHERE (ended_at IS NULL);

CREATE INDEX matching_match_job_id_aeda778d ON public.matching_match USING btree (job_id);

CREATE INDEX membership_by_claim ON public.accounts_membership USING btree (confirmed_at) WHERE (confirmed_at IS NOT NULL);

CREATE INDEX mfa_authenticator_user_id_0c3a50c0 ON public.mfa_authenticator USING btree (user_id);

CREATE INDEX notice_of_owner ON public.jobs_submissionnotice USING btree (owner_id);

CREATE INDEX output_of_job ON public.jobs_sandboxupload USING btree (file_name) WHERE is_output;

CREATE INDEX pilot_alive_at_queue ON public.pilots_pilot USING btree (queue_id) WHERE (ended_at IS NULL);

CREATE INDEX pilot_latest_at_queue ON public.pilots_pilot USING btree (queue_id, id DESC);

CREATE INDEX pilot_latest_on_host ON public.pilots_pilot USING btree (host_name, id DESC) WHERE (NOT ((host_name)::text = ''::text));

CREATE INDEX pilot_log_by_age ON public.pilots_pilotlog USING btree (changed_at);

CREATE INDEX pilot_made_for_ce ON public.pilots_pilot USING btree (ce_id) WHERE (ce_id IS NOT NULL);

CREATE INDEX pilot_made_for_site ON public.pilots_pilot USING btree (site_id) WHERE (site_id IS NOT NULL);

CREATE INDEX pilot_not_cleaned_at_queue ON public.pilots_pilot USING btree (queue_id, ended_at) WHERE (cleaned_at IS NULL);

CREATE INDEX pilot_stalled_at ON public.pilots_pilot USING btree (stalled_at) WHERE (stalled_at IS NOT NULL);

CREATE INDEX pilot_submitted_at ON public.pilots_pilot USING btree (submitted_at);

CREATE INDEX pilots_director_sites_site_id_384c3bec ON public.pilots_director_sites USING btree (site_id);

CREATE INDEX pilots_pilot_group_id_3957227e ON public.pilots_pilot USING btree (group_id);

CREATE INDEX pilots_pilot_owner_id_8c955f7b ON public.pilots_pilot USING btree (owner_id);

CREATE INDEX pilots_pilot_vo_id_4b309731 ON public.pilots_pilot USING btree (vo_id);

CREATE INDEX pools_of_queue ON public.taskqueues_submitpool_queues USING btree (queue_id);

CREATE INDEX queued_job_by_avoided_place ON public.taskqueues_queuedjob USING btree (task_queue_id, user_priority, COALESCE(avoided_queue_ids, '{}'::bigint[]), COALESCE(avoided_host, ''::character varying), not_before, job_id) WHERE is_held_back;

CREATE INDEX queued_job_oldest_of_its_kind ON public.taskqueues_queuedjob USING btree (task_queue_id, user_priority, is_held_back, job_id);

CREATE INDEX queued_job_open_to_all ON public.taskqueues_queuedjob USING btree (task_queue_id, user_priority, GREATEST(not_before, avoided_until), job_id) WHERE is_held_back;

CREATE UNIQUE INDEX request_id_is_used_once_by_its_owner ON public.jobs_submission USING btree (owner_id, request_id) WHERE (request_id IS NOT NULL);

CREATE UNIQUE INDEX requirement_name_is_unique_ignoring_case ON public.resources_requirementdefinition USING btree (lower((name)::text));

CREATE INDEX resources_computingelement_state_changed_by_id_5b331f06 ON public.resources_computingelement USING btree (state_changed_by_id);

CREATE INDEX resources_queue_state_changed_by_id_a2725d1c ON public.resources_queue USING btree (state_changed_by_id);

CREATE INDEX resources_requirementdefinition_vos_vo_id_4faf07d9 ON public.resources_requirementdefinition_vos USING btree (vo_id);

CREATE INDEX resources_site_state_changed_by_id_1090fcf8 ON public.resources_site USING btree (state_changed_by_id);

CREATE INDEX resources_site_storage_elements_storageelement_id_ff01b85e ON public.resources_site_storage_elements USING btree (storageelement_id);

CREATE INDEX resources_site_vos_vo_id_28e8b12e ON public.resources_site_vos USING btree (vo_id);

CREATE INDEX resources_storageelement_vos_vo_id_01d84d45 ON public.resources_storageelement_vos USING btree (vo_id);

CREATE INDEX security_event_by_kind ON public.accounts_securityevent USING btree (kind, at);

CREATE INDEX security_event_by_time ON public.accounts_securityevent USING btree (at, id);

CREATE INDEX site_token_of_site ON public.resources_sitetoken USING btree (site_id, purpose);

CREATE INDEX socialaccount_socialaccount_user_id_8146e70c ON public.socialaccount_socialaccount USING btree (user_id);

CREATE INDEX socialaccount_socialtoken_account_id_951f210e ON public.socialaccount_socialtoken USING btree (account_id);

CREATE INDEX socialaccount_socialtoken_app_id_636a42d7 ON public.socialaccount_socialtoken USING btree (app_id);

CREATE INDEX task_queue_change_xid ON public.taskqueues_taskqueuechange USING btree (xid);

CREATE INDEX taskqueues_limit_ce_id_5d2d6544 ON public.taskqueues_limit USING btree (ce_id);

CREATE INDEX taskqueues_limit_group_id_a166b20e ON public.taskqueues_limit USING btree (group_id);

CREATE INDEX taskqueues_limit_site_id_120e9f18 ON public.taskqueues_limit USING btree (site_id);

CREATE INDEX taskqueues_limit_user_id_965cedbd ON public.taskqueues_limit USING btree (user_id);

CREATE INDEX taskqueues_limit_vo_id_684d55d0 ON public.taskqueues_limit USING btree (vo_id);

CREATE INDEX taskqueues_submitpool_vo_id_150f1113 ON public.taskqueues_submitpool USING btree (vo_id);

CREATE INDEX taskqueues_taskqueue_group_id_13e7cb7e ON public.taskqueues_taskqueue USING btree (group_id);

CREATE INDEX taskqueues_taskqueue_owner_id_7eb21029 ON public.taskqueues_taskqueue USING btree (owner_id);

CREATE INDEX taskqueues_taskqueue_vo_id_7a1e35d7 ON public.taskqueues_taskqueue USING btree (vo_id);

CREATE UNIQUE INDEX unique_authenticator_type ON public.mfa_authenticator USING btree (user_id, type) WHERE ((type)::text = ANY ((ARRAY['totp'::character varying, 'recovery_codes'::character varying])::text[]));

CREATE UNIQUE INDEX unique_primary_email ON public.account_emailaddress USING btree (user_id, "primary") WHERE "primary";

CREATE UNIQUE INDEX unique_verified_email ON public.account_emailaddress USING btree (email) WHERE verified;

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.accounts_group FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.accounts_vo FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.resources_computingelement FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.resources_platform FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.resources_queue FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.resources_site FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.resources_site_vos FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.taskqueues_limit FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.taskqueues_submitpool FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER configuration_changes AFTER INSERT OR DELETE OR UPDATE ON public.taskqueues_submitpool_queues FOR EACH STATEMENT EXECUTE FUNCTION public.wms_configuration_changes();

CREATE TRIGGER counts_go BEFORE DELETE ON public.taskqueues_limitcount FOR EACH STATEMENT EXECUTE FUNCTION public.wms_counters_go();

CREATE TRIGGER credentials_end AFTER UPDATE OF password, is_active ON public.accounts_user FOR EACH ROW WHEN ((((old.password)::text IS DISTINCT FROM (new.password)::text) OR (old.is_active AND (NOT new.is_active)))) EXECUTE FUNCTION public.wms_credentials_end();

CREATE TRIGGER job_is_counted_elsewhere AFTER UPDATE OF status, site_id, submission_id, owner_id, group_id, vo_id, job_type, exit_code ON public.jobs_job FOR EACH ROW WHEN ((current_setting('wms.jobs_counted_by'::text, true) IS DISTINCT FROM 'statement'::text)) EXECUTE FUNCTION public.wms_job_is_counted_elsewhere();

CREATE TRIGGER job_is_edited AFTER UPDATE OF submission_id, owner_id, group_id, vo_id, submitted_at, job_type, job_group, job_name ON public.jobs_job FOR EACH ROW WHEN (((((((((old.submission_id IS DISTINCT FROM new.submission_id) OR (old.owner_id IS DISTINCT FROM new.owner_id)) OR (old.group_id IS DISTINCT FROM new.group_id)) OR (old.vo_id IS DISTINCT FROM new.vo_id)) OR (old.submitted_at IS DISTINCT FROM new.submitted_at)) OR ((old.job_type)::text IS DISTINCT FROM (new.job_type)::text)) OR ((old.job_group)::text IS DISTINCT FROM (new.job_group)::text)) OR ((old.job_name)::text IS DISTINCT FROM (new.job_name)::text))) EXECUTE FUNCTION public.wms_job_is_edited();

CREATE TRIGGER job_leaves_limits AFTER UPDATE OF status, cpu_s ON public.jobs_job FOR EACH ROW WHEN (((old.status)::text <> 'Waiting'::text)) EXECUTE FUNCTION public.wms_job_leaves_limits();

CREATE TRIGGER jobs_come AFTER INSERT ON public.jobs_job REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_jobs_come();

CREATE TRIGGER jobs_go AFTER DELETE ON public.jobs_job REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_jobs_go();

CREATE TRIGGER limit_changes AFTER INSERT OR UPDATE ON public.taskqueues_limit FOR EACH ROW EXECUTE FUNCTION public.wms_limit_changes();

CREATE TRIGGER membership_after_a_change AFTER UPDATE ON public.accounts_membership REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_membership_changes_task_queues();

CREATE TRIGGER membership_before_a_change AFTER UPDATE ON public.accounts_membership REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_membership_changes_task_queues();

CREATE TRIGGER membership_that_comes AFTER INSERT ON public.accounts_membership REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_membership_changes_task_queues();

CREATE TRIGGER membership_that_goes AFTER DELETE ON public.accounts_membership REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION public.wms_membership_changes_task_queues();

CREATE TRIGGER memberships_go_with_pool AFTER DELETE ON public.taskqueues_submitpool REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.wms_memberships_go_with_pool();

CREATE TRIGGER memberships_go_with_queue AFTER DELETE ON public.resources_queue REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.wms_memberships_go_with_queue();

CREATE CONSTRAINT TRIGGER no_definition_holds_for_all_by_a_deletion AFTER DELETE ON public.resources_requirementdefinition_vos DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wms_none_serves_all_by_a_deletion('resources_requirementdefinition', 'requirementdefinition_id');

CREATE CONSTRAINT TRIGGER no_site_serves_all_by_a_deletion AFTER DELETE ON public.resources_site_vos DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.wms_none_serves_all_by_a_deletion('resources_site', 'site_id');

CREATE TRIGGER slots_go BEFORE DELETE ON public.taskqueues_limitslot FOR EACH STATEMENT EXECUTE FUNCTION public.wms_counters_go();

CREATE TRIGGER suspension_changes_task_queues AFTER UPDATE OF is_active ON public.accounts_user FOR EACH ROW WHEN ((old.is_active IS DISTINCT FROM new.is_active)) EXECUTE FUNCTION public.wms_suspension_changes_task_queues();

CREATE TRIGGER suspensions_count BEFORE UPDATE ON public.accounts_user FOR EACH ROW WHEN (((old.suspensions <> new.suspensions) OR (old.is_active AND (NOT new.is_active)))) EXECUTE FUNCTION public.wms_suspensions_count();

ALTER TABLE ONLY public.account_emailaddress
    ADD CONSTRAINT account_emailaddress_user_id_2c513194_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.account_emailconfirmation
    ADD CONSTRAINT account_emailconfirm_email_address_id_5b7f8c58_fk_account_e FOREIGN KEY (email_address_id) REFERENCES public.account_emailaddress(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_apitoken
    ADD CONSTRAINT accounts_apitoken_user_id_bbee13e0_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_group
    ADD CONSTRAINT accounts_group_vo_id_133a22b4_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_group_id_b5e9f0e5_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_invitation
    ADD CONSTRAINT accounts_invitation_invited_by_id_94a21efc_fk_accounts_user_id FOREIGN KEY (invited_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_by_claim_of_id_629cc8f2_fk_socialacc FOREIGN KEY (by_claim_of_id) REFERENCES public.socialaccount_socialaccount(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_group_id_ae835a10_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_membership
    ADD CONSTRAINT accounts_membership_user_id_487fb39e_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_passwordlink
    ADD CONSTRAINT accounts_passwordlink_user_id_0b1c7368_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_securityevent
    ADD CONSTRAINT accounts_securityevent_actor_id_ff334cfc_fk_accounts_user_id FOREIGN KEY (actor_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user
    ADD CONSTRAINT accounts_user_default_group_id_2de9cbb3_fk_accounts_group_id FOREIGN KEY (default_group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_group_id_bd11a704_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_groups
    ADD CONSTRAINT accounts_user_groups_user_id_52b62117_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_permission_id_113bb443_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_user_user_permissions
    ADD CONSTRAINT accounts_user_user_p_user_id_e4f0a161_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_userdn
    ADD CONSTRAINT accounts_userdn_user_id_6a09fb70_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_vo_managers
    ADD CONSTRAINT accounts_vo_managers_user_id_9eac60ab_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.accounts_vo_managers
    ADD CONSTRAINT accounts_vo_managers_vo_id_6d7ed28c_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_content_type_id_c4bce8eb_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.django_admin_log
    ADD CONSTRAINT django_admin_log_user_id_c564eba6_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_inputsandbox
    ADD CONSTRAINT jobs_inputsandbox_job_id_5e68bd8e_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_inputsandbox
    ADD CONSTRAINT jobs_inputsandbox_sandbox_id_65ed5e02_fk_jobs_sandbox_id FOREIGN KEY (sandbox_id) REFERENCES public.jobs_sandbox(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_output_sandbox_id_c9058718_fk_jobs_sandbox_id FOREIGN KEY (output_sandbox_id) REFERENCES public.jobs_sandbox(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_job
    ADD CONSTRAINT jobs_job_submission_id_7c64881c_fk_jobs_submission_id FOREIGN KEY (submission_id) REFERENCES public.jobs_submission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_jobcommand
    ADD CONSTRAINT jobs_jobcommand_job_id_2ecf9e84_fk_jobs_job_id FOREIGN KEY (job_id) REFERENCES public.jobs_job(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_sandboxupload
    ADD CONSTRAINT jobs_sandboxupload_owner_id_5874eef3_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_sandboxupload
    ADD CONSTRAINT jobs_sandboxupload_sandbox_id_9e8044f8_fk_jobs_sandbox_id FOREIGN KEY (sandbox_id) REFERENCES public.jobs_sandbox(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_saveddescription
    ADD CONSTRAINT jobs_saveddescription_owner_id_0edbb38f_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_submission
    ADD CONSTRAINT jobs_submission_group_id_bb69a610_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_submission
    ADD CONSTRAINT jobs_submission_owner_id_511267c5_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_submissionnotice
    ADD CONSTRAINT jobs_submissionnotic_submission_id_5807839b_fk_jobs_subm FOREIGN KEY (submission_id) REFERENCES public.jobs_submission(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.jobs_submissionnotice
    ADD CONSTRAINT jobs_submissionnotice_owner_id_c2f6fe28_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.mfa_authenticator
    ADD CONSTRAINT mfa_authenticator_user_id_0c3a50c0_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_blackhole
    ADD CONSTRAINT pilots_blackhole_site_id_70c059c4_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_cehealth
    ADD CONSTRAINT pilots_cehealth_ce_id_b6199af9_fk_resources_computingelement_id FOREIGN KEY (ce_id) REFERENCES public.resources_computingelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_director_sites
    ADD CONSTRAINT pilots_director_site_director_id_05962fed_fk_pilots_di FOREIGN KEY (director_id) REFERENCES public.pilots_director(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_director_sites
    ADD CONSTRAINT pilots_director_sites_site_id_384c3bec_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_ce_id_f9917ec6_fk_resources_computingelement_id FOREIGN KEY (ce_id) REFERENCES public.resources_computingelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_group_id_3957227e_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_owner_id_8c955f7b_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_queue_id_5a7f6604_fk_resources_queue_id FOREIGN KEY (queue_id) REFERENCES public.resources_queue(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_site_id_7ddbc12c_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilot
    ADD CONSTRAINT pilots_pilot_vo_id_4b309731_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilotlog
    ADD CONSTRAINT pilots_pilotlog_pilot_id_d4c7598e_fk_pilots_pilot_id FOREIGN KEY (pilot_id) REFERENCES public.pilots_pilot(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilotlogpart
    ADD CONSTRAINT pilots_pilotlogpart_log_id_1b69e5bd_fk_pilots_pilotlog_pilot_id FOREIGN KEY (log_id) REFERENCES public.pilots_pilotlog(pilot_id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.pilots_pilotsecret
    ADD CONSTRAINT pilots_pilotsecret_pilot_id_162e8ab3_fk_pilots_pilot_id FOREIGN KEY (pilot_id) REFERENCES public.pilots_pilot(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_computingelement
    ADD CONSTRAINT resources_computinge_site_id_68b2b782_fk_resources FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_computingelement
    ADD CONSTRAINT resources_computinge_state_changed_by_id_5b331f06_fk_accounts_ FOREIGN KEY (state_changed_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_queue
    ADD CONSTRAINT resources_queue_ce_id_7cce65ee_fk_resources_computingelement_id FOREIGN KEY (ce_id) REFERENCES public.resources_computingelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_queue
    ADD CONSTRAINT resources_queue_state_changed_by_id_a2725d1c_fk_accounts_ FOREIGN KEY (state_changed_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_reportedplatform
    ADD CONSTRAINT resources_reportedpl_queue_id_0e252fc1_fk_resources FOREIGN KEY (queue_id) REFERENCES public.resources_queue(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_requirementdefinition_vos
    ADD CONSTRAINT resources_requiremen_requirementdefinitio_d3bc5f34_fk_resources FOREIGN KEY (requirementdefinition_id) REFERENCES public.resources_requirementdefinition(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_requirementdefinition_vos
    ADD CONSTRAINT resources_requiremen_vo_id_4faf07d9_fk_accounts_ FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_site
    ADD CONSTRAINT resources_site_state_changed_by_id_1090fcf8_fk_accounts_user_id FOREIGN KEY (state_changed_by_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_site_storage_elements
    ADD CONSTRAINT resources_site_stora_site_id_d94742da_fk_resources FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_site_storage_elements
    ADD CONSTRAINT resources_site_stora_storageelement_id_ff01b85e_fk_resources FOREIGN KEY (storageelement_id) REFERENCES public.resources_storageelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_site_vos
    ADD CONSTRAINT resources_site_vos_site_id_40118501_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_site_vos
    ADD CONSTRAINT resources_site_vos_vo_id_28e8b12e_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_sitetoken
    ADD CONSTRAINT resources_sitetoken_site_id_f70e7503_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_storageelement_vos
    ADD CONSTRAINT resources_storageele_storageelement_id_17653a06_fk_resources FOREIGN KEY (storageelement_id) REFERENCES public.resources_storageelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_storageelement_vos
    ADD CONSTRAINT resources_storageelement_vos_vo_id_01d84d45_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.resources_throttlestate
    ADD CONSTRAINT resources_throttlestate_site_id_d0e12ba1_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_account_id_951f210e_fk_socialacc FOREIGN KEY (account_id) REFERENCES public.socialaccount_socialaccount(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialtoken
    ADD CONSTRAINT socialaccount_social_app_id_636a42d7_fk_socialacc FOREIGN KEY (app_id) REFERENCES public.socialaccount_socialapp(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.socialaccount_socialaccount
    ADD CONSTRAINT socialaccount_social_user_id_8146e70c_fk_accounts_ FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_changedgroup
    ADD CONSTRAINT taskqueues_changedgroup_group_id_1815fddb_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_delivery
    ADD CONSTRAINT taskqueues_delivery_group_id_6debadb2_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_groupusage
    ADD CONSTRAINT taskqueues_groupusage_group_id_b9002bf1_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_ce_id_5d2d6544_fk_resources FOREIGN KEY (ce_id) REFERENCES public.resources_computingelement(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_group_id_a166b20e_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_site_id_120e9f18_fk_resources_site_id FOREIGN KEY (site_id) REFERENCES public.resources_site(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_user_id_965cedbd_fk_accounts_user_id FOREIGN KEY (user_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limit
    ADD CONSTRAINT taskqueues_limit_vo_id_684d55d0_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limitcount
    ADD CONSTRAINT taskqueues_limitcount_limit_id_383f41ac_fk_taskqueues_limit_id FOREIGN KEY (limit_id) REFERENCES public.taskqueues_limit(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limithour
    ADD CONSTRAINT taskqueues_limithour_limit_id_a18dc6f2_fk_taskqueues_limit_id FOREIGN KEY (limit_id) REFERENCES public.taskqueues_limit(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_limitslot
    ADD CONSTRAINT taskqueues_limitslot_limit_id_b46ea4b4_fk_taskqueues_limit_id FOREIGN KEY (limit_id) REFERENCES public.taskqueues_limit(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_queuedjob
    ADD CONSTRAINT taskqueues_queuedjob_task_queue_id_49959532_fk_taskqueue FOREIGN KEY (task_queue_id) REFERENCES public.taskqueues_taskqueue(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_stalesubmitpools
    ADD CONSTRAINT taskqueues_stalesubmitpools_vo_id_e6c77888_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_submitpool
    ADD CONSTRAINT taskqueues_submitpool_vo_id_150f1113_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_taskqueue
    ADD CONSTRAINT taskqueues_taskqueue_group_id_13e7cb7e_fk_accounts_group_id FOREIGN KEY (group_id) REFERENCES public.accounts_group(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_taskqueue
    ADD CONSTRAINT taskqueues_taskqueue_owner_id_7eb21029_fk_accounts_user_id FOREIGN KEY (owner_id) REFERENCES public.accounts_user(id) DEFERRABLE INITIALLY DEFERRED;

ALTER TABLE ONLY public.taskqueues_taskqueue
    ADD CONSTRAINT taskqueues_taskqueue_vo_id_7a1e35d7_fk_accounts_vo_id FOREIGN KEY (vo_id) REFERENCES public.accounts_vo(id) DEFERRABLE INITIALLY DEFERRED;

RESET search_path;
