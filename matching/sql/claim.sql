-- The claim: one waiting job of one user priority of one task queue becomes the lease of one pilot, in one statement
-- that is one transaction (docs/architecture.md, The claim). Its answers:
--
--   leased        the lease; for a repeated request the lease that it got before
--   empty_level   no job of this user priority waits in the task queue
--   contended     jobs wait, but other claims hold all of them at this moment
--   held_back     jobs wait, but this pilot can get none before opens_at. The reason is the scope:
--                 delay: all pilots; place: those at the same queue; host: this pilot
--   closed        with a reason. slot: the pilot's open leases leave no room for a job of this task queue; pilot_…,
--                 black_hole or request_answered: no further job for this request; throttle…: no job at this site;
--                 limit: no job in the scope of the limit
--   outdated      the configuration, or who is a member of a group, has changed since the search
--
-- What changes seldom (states, VOs and pools of places, suspensions, memberships) is not read: the search has read it, and
-- each change of it is a row that the claim sees (ADR 112). Limits, throttles and leases are read.
--
-- Locks: Pilot → QueuedJob → counters → Job → Match (ADR 17). The configuration is not locked: a ban of a site during a
-- claim may as well have come a moment later.

-- The lease, or why there is none.
CREATE TYPE wms_claimed AS (
    answer text,
    reason text,
    -- The limit that is full.
    limit_id bigint,
    -- Jobs left at the level, if they are few; else null.
    remaining integer,
    -- Held back: time from which the first of the jobs can be claimed.
    opens_at timestamptz,
    ordinal smallint,
    match_id uuid,
    expires_at timestamptz,
    job_id bigint,
    owner_id bigint,
    group_id bigint,
    job_name text,
    description jsonb,
    input_sandboxes jsonb
);

-- One row. The planner inlines functions that return sets into the calling query.
CREATE FUNCTION wms_input_sandboxes(the_job bigint) RETURNS SETOF jsonb LANGUAGE sql STABLE AS $$
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

-- The leases of a request of a pilot.
CREATE FUNCTION wms_leases(the_pilot bigint, the_request uuid) RETURNS SETOF wms_claimed LANGUAGE sql STABLE AS $$
    SELECT 'leased', '', NULL::bigint, NULL::integer, NULL::timestamptz, lease.ordinal, lease.id, lease.expires_at, job.id, job.owner_id,
           job.group_id, job.job_name, stored.description, (SELECT * FROM wms_input_sandboxes(job.id))
      FROM matching_match AS lease
      JOIN jobs_job AS job ON job.id = lease.job_id
      JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
     WHERE lease.pilot_id = the_pilot AND lease.request_id = the_request
     ORDER BY lease.ordinal
$$;

-- Lock the pilot, and return why it gets no further job; empty: it may get one.
CREATE FUNCTION wms_lock_pilot(the_pilot bigint) RETURNS text LANGUAGE plpgsql AS $$
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

-- Why a throttled site takes no match now; empty: it does. A policy turns an advertisement into one number
-- (resources.domain.throttles); an expression is evaluated by the caller, who passes the state for which it is true.
CREATE FUNCTION wms_why_throttled(the_site bigint, seen_version bigint, seen_matched integer, right_now timestamptz)
RETURNS text LANGUAGE sql STABLE AS $$
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

-- Time from which a pilot may get a job that is held back; no place is avoided for an unknown queue.
CREATE FUNCTION wms_free_from(
    not_before timestamptz, avoided_until timestamptz, avoided_queue_ids bigint[], avoided_host text,
    the_queue bigint, the_host text
) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN the_queue = ANY (avoided_queue_ids) AND (avoided_host IS NULL OR avoided_host = the_host)
                THEN greatest(not_before, avoided_until) ELSE not_before END
$$;

-- The places that held-back jobs of a level avoid, each once, with the time from which the first of its jobs is
-- available elsewhere; the row without queues is for those that avoid none. One step in the index for each place, for
-- any number of jobs that avoid it.
CREATE FUNCTION wms_avoided_places(the_task_queue bigint, the_user_priority smallint)
RETURNS TABLE (queue_ids bigint[], host text, first_not_before timestamptz) LANGUAGE sql STABLE AS $$
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

-- Whether a pilot is at an avoided place; false if its queue is unknown.
CREATE FUNCTION wms_is_avoided(queue_ids bigint[], host text, the_queue bigint, the_host text)
RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT (the_queue = ANY (queue_ids) AND (host = '' OR host = the_host)) IS TRUE
$$;

-- Of the held-back jobs of a level: the ten that have been available to any pilot longest, and ten of those that only
-- avoid other places. Few rows are read, however many are unavailable: nothing is sorted, because an index has each
-- order. (Elsewhere in a claim that would be wrong: its other tables are read by the keys of one job.)
CREATE FUNCTION wms_held_back_jobs(
    the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamptz
) RETURNS SETOF bigint LANGUAGE plpgsql STABLE
SET enable_sort = off
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

-- Lock one of those jobs that no other claim holds; null: there is none.
CREATE FUNCTION wms_lock_held_back_job(
    the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamptz
) RETURNS bigint LANGUAGE plpgsql
SET enable_sort = off
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

-- The scope for which the jobs of a level, all of them held back, are unavailable, and until when; null: none are left.
CREATE FUNCTION wms_held_back_until(
    the_task_queue bigint, the_user_priority smallint, the_queue bigint, the_host text, right_now timestamptz,
    OUT held_for text, OUT opens_at timestamptz
) LANGUAGE plpgsql STABLE
SET enable_sort = off
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

-- Sum of each of these amounts that the jobs require; jobs submitted before descriptions had a field require none of it.
CREATE FUNCTION wms_required_by(the_jobs bigint[], the_amounts text[])
RETURNS TABLE (name text, required bigint) LANGUAGE sql STABLE AS $$
    SELECT amount.name, coalesce(sum((stored.description ->> amount.name)::bigint), 0)::bigint
      FROM unnest(the_amounts) AS amount (name)
      LEFT JOIN jobs_job AS job ON job.id = ANY (the_jobs)
      LEFT JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
     GROUP BY amount.name
$$;

CREATE FUNCTION wms_claim(
    the_pilot bigint,
    the_request uuid,
    the_ordinal smallint,
    -- The id of the lease, if one is made.
    the_match uuid,
    the_task_queue bigint,
    the_user_priority smallint,
    -- In [0, 1): selects one of the ten oldest.
    chance double precision,
    -- Whether to wait for other claims that hold all jobs of the level.
    may_wait boolean,
    -- The place of the pilot, as far as it is known.
    the_site bigint,
    the_ce bigint,
    the_queue bigint,
    -- Name of the site; null: it is unknown.
    the_site_name text,
    is_throttled boolean,
    cpu_segment_s integer,
    -- What the search could see of the database.
    searched pg_snapshot,
    first_lease_s double precision,
    -- Age in seconds from which on the pilot's last sign of life is written again.
    seen_within_s double precision,
    -- For a site whose throttle is an expression: the state of the throttle for which it was true.
    seen_version bigint,
    seen_matched integer,
    -- Whether to lock a throttle whose state has changed: in the caller's transaction, which then keeps all locks in
    -- their order, the expression is evaluated for a state that stays, and the claim repeated (ADR 29).
    locks_throttle boolean DEFAULT false,
    -- The amounts, by name, that the open leases of the pilot may use together; others are not limited.
    the_slot jsonb DEFAULT '{}'
) RETURNS wms_claimed LANGUAGE plpgsql
-- Every table is read by a key; the planner may use outdated statistics of a table that was empty.
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    right_now CONSTANT timestamptz := wms_now();
    claimed wms_claimed;
    pilot record;
    task_queue taskqueues_taskqueue;
    facts record;
    requirements jsonb;
    room wms_room;
    moved record;
    oldest bigint[];
    many integer;
BEGIN
    claimed.answer := 'closed';
    -- Checked before anything is written, because closed throttles are common. A repeated request that already has a
    -- lease gets it from wms_close_request.
    IF is_throttled THEN
        claimed.reason := wms_why_throttled(the_site, seen_version, seen_matched, right_now);
        IF claimed.reason <> '' AND NOT (locks_throttle AND claimed.reason = 'throttle_moved') THEN
            RETURN claimed;
        END IF;
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
        RETURN claimed;
    END IF;
    LOOP
        -- After the lock, for which it may have waited. One statement, because each costs more than what it reads.
        -- Uses index: configuration_change_xid, match_open
        SELECT EXISTS (
                   -- Rows of this transaction are of its own search.
                   SELECT FROM taskqueues_taskqueuechange
                    WHERE task_queue_id = 0 AND xid >= pg_snapshot_xmin(searched)
                      AND NOT pg_visible_in_snapshot(xid, searched)
                      AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()
               ) AS newer_configuration,
               EXISTS (
                   SELECT FROM matching_match AS lease
                    WHERE lease.pilot_id = the_pilot AND lease.request_id = the_request
                      AND lease.ordinal = the_ordinal
               ) AS the_lease,
               CASE WHEN the_slot <> '{}' THEN (
                   SELECT array_agg(lease.job_id) FROM matching_match AS lease
                    WHERE lease.pilot_id = the_pilot AND lease.ended_at IS NULL
               ) END AS held_jobs,
               EXISTS (SELECT FROM taskqueues_limit) AS limits,
               -- Read without locks: if all ten were locked, other claims would find none.
               ARRAY(
                   SELECT waiting.job_id FROM taskqueues_queuedjob AS waiting
                    WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                      AND NOT waiting.is_held_back
                    ORDER BY waiting.job_id LIMIT 10
               ) AS oldest,
               EXISTS (
                   SELECT FROM taskqueues_queuedjob AS waiting
                    WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
                      AND waiting.is_held_back
               ) AS some_held_back
          INTO facts;
        IF facts.newer_configuration THEN
            claimed.answer := 'outdated';
            RETURN claimed;
        END IF;
        -- Rare; looking for the whole lease at once would take half of the claim's time.
        IF facts.the_lease THEN
            SELECT * INTO claimed FROM wms_leases(the_pilot, the_request) AS lease WHERE lease.ordinal = the_ordinal;
            RETURN claimed;
        END IF;
        IF pilot.answered_request_id = the_request THEN
            claimed.reason := 'request_answered';
            RETURN claimed;
        END IF;

        -- Whatever it offers, and however many requests it sends at once: they wait for its lock. Most pilots have no
        -- open lease.
        IF facts.held_jobs IS NOT NULL THEN
            SELECT to_jsonb(own) INTO requirements FROM taskqueues_taskqueue AS own WHERE own.id = the_task_queue;
            PERFORM FROM wms_required_by(facts.held_jobs, ARRAY(SELECT jsonb_object_keys(the_slot))) AS held
              WHERE held.required + (requirements ->> held.name)::bigint > (the_slot ->> held.name)::bigint;
            IF FOUND THEN
                claimed.reason := 'slot';
                RETURN claimed;
            END IF;
        END IF;

        oldest := facts.oldest;
        IF facts.some_held_back THEN
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
        IF many = 0 AND facts.some_held_back THEN
            SELECT held_for, opens_at INTO claimed.reason, claimed.opens_at
              FROM wms_held_back_until(the_task_queue, the_user_priority, the_queue, pilot.host_name, right_now);
            -- Null: they have been taken, or withdrawn, in the meantime.
            IF claimed.opens_at IS NOT NULL THEN
                claimed.answer := 'held_back';
                RETURN claimed;
            END IF;
        END IF;
        IF many = 0 THEN
            claimed.answer := 'empty_level';
            RETURN claimed;
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
        IF claimed.job_id IS NULL AND facts.some_held_back THEN
            claimed.job_id := wms_lock_held_back_job(
                the_task_queue, the_user_priority, the_queue, pilot.host_name, right_now
            );
        END IF;
        EXIT WHEN claimed.job_id IS NOT NULL;
        IF NOT may_wait THEN
            claimed.answer := 'contended';
            RETURN claimed;
        END IF;
        -- Until the claim that holds the oldest has ended.
        PERFORM FROM taskqueues_queuedjob AS waiting
          WHERE waiting.job_id = oldest[1]
            AND waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority
            FOR UPDATE;
    END LOOP;

    -- Counters are locked before anything is written: if there is no room, nothing must be rolled back.
    IF facts.limits THEN
        SELECT * INTO task_queue FROM taskqueues_taskqueue WHERE id = the_task_queue;
        room := wms_room_in_limits(
            task_queue.vo_id, the_site, the_ce, task_queue.group_id, task_queue.owner_id, task_queue.job_type,
            the_pilot, right_now
        );
        IF room.full_limit IS NOT NULL THEN
            claimed.reason := 'limit';
            claimed.limit_id := room.full_limit;
            claimed.job_id := NULL;
            RETURN claimed;
        END IF;
    END IF;
    IF is_throttled THEN
        PERFORM FROM resources_throttlestate WHERE site_id = the_site FOR NO KEY UPDATE;
        claimed.reason := wms_why_throttled(the_site, seen_version, seen_matched, right_now);
        IF claimed.reason <> '' THEN
            claimed.job_id := NULL;
            RETURN claimed;
        END IF;
    END IF;

    DELETE FROM taskqueues_queuedjob AS taken WHERE taken.job_id = claimed.job_id;
    UPDATE jobs_job
       SET status = 'Matched',
           minor_status = coalesce('At ' || the_site_name, ''),
           status_changed_at = right_now,
           site_id = the_site,
           ce_id = the_ce,
           queue_id = the_queue,
           pilot_id = the_pilot,
           matched_at = right_now
     WHERE id = claimed.job_id AND status = 'Waiting'
    RETURNING minor_status, application_status, owner_id, group_id, job_name,
              (SELECT stored.description FROM jobs_storeddescription AS stored
                WHERE stored.id = jobs_job.stored_description_id) AS description
         INTO moved;
    IF NOT FOUND THEN
        -- Invariant violated: a queued job was not Waiting. It stays dequeued, so that it blocks no others.
        claimed.answer := 'contended';
        claimed.reason := 'job_does_not_wait';
        RETURN claimed;
    END IF;
    IF room IS DISTINCT FROM NULL THEN
        PERFORM wms_count_in_limits(room, right_now);
    END IF;
    IF is_throttled THEN
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
        claimed.match_id, claimed.job_id, the_pilot, the_request, the_ordinal, the_queue, cpu_segment_s,
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
    IF claimed.remaining = 0 AND facts.some_held_back THEN
        -- The level is not empty while a held-back job waits there.
        SELECT count(*) INTO claimed.remaining
          FROM (
              SELECT FROM taskqueues_queuedjob AS waiting
               WHERE waiting.task_queue_id = the_task_queue AND waiting.user_priority = the_user_priority LIMIT 1
          ) AS left_there;
    END IF;
    claimed.description := moved.description;
    claimed.input_sandboxes := '[]';
    -- Many jobs have none, and the function reads two tables.
    IF EXISTS (SELECT FROM jobs_inputsandbox AS given WHERE given.job_id = claimed.job_id) THEN
        SELECT * INTO claimed.input_sandboxes FROM wms_input_sandboxes(claimed.job_id);
    END IF;
    claimed.owner_id := moved.owner_id;
    claimed.group_id := moved.group_id;
    claimed.job_name := moved.job_name;
    RETURN claimed;
END
$$;

-- End a request with the leases that it has, and return them; it gets no others from now on. Without leases, the number
-- of task queues left after each condition is stored with the pilot, which may request again.
CREATE FUNCTION wms_close_request(the_pilot bigint, the_request uuid, nothing jsonb)
RETURNS SETOF wms_claimed LANGUAGE plpgsql AS $$
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
                            NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, NULL::jsonb, NULL::jsonb;
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
