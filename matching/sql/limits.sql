-- Limits and quotas: their counters, and the triggers that keep them (docs/architecture.md, Throttles and limits).
--
-- A claim counts up in slots that it has locked; it waits for no slot. A job that a pilot no longer holds adds a row,
-- which waits for nothing. A claim that finds no room, and a periodic task, sum these rows up, in a transaction of
-- their own: within a claim's transaction, slots that other claims wait for may be locked. So a limit is never
-- exceeded, and is found full only if it is. Locks of one limit: its count, then its slots by number; of several
-- limits: by id.
--
-- 7 is LockKey.COUNT_LIMITS (wms.kernel.db): shared by everything that changes which jobs pilots hold, exclusive while
-- all jobs of a new limit's scope are counted.

-- The limits of a job and the place where it is, or would be, held; null: unknown, and in no limit of such places.
CREATE FUNCTION wms_limits_of(
    the_vo bigint, the_site bigint, the_ce bigint, the_group bigint, the_user bigint, the_job_type text
) RETURNS SETOF taskqueues_limit LANGUAGE sql STABLE AS $$
    SELECT * FROM taskqueues_limit AS a_limit
     WHERE (a_limit.vo_id IS NULL OR a_limit.vo_id = the_vo)
       AND (a_limit.site_id IS NULL OR a_limit.site_id = the_site)
       AND (a_limit.ce_id IS NULL OR a_limit.ce_id = the_ce)
       AND (a_limit.group_id IS NULL OR a_limit.group_id = the_group)
       AND (a_limit.user_id IS NULL OR a_limit.user_id = the_user)
       AND (a_limit.job_type = '' OR a_limit.job_type = the_job_type)
     ORDER BY a_limit.id
$$;

-- Number of jobs of the limit's scope that pilots hold: the sum of its slots and events.
CREATE FUNCTION wms_held_jobs(the_limit bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
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

-- The share of one of so many slots in an amount, which may be negative; the shares add up to it.
CREATE FUNCTION wms_share_of_slot(amount bigint, slots bigint, number bigint) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    -- A limit not on running jobs has no slots, but the planner evaluates constants.
    SELECT (sign(amount) * (abs(amount) / nullif(slots, 0) + (number < abs(amount) % nullif(slots, 0))::integer))::integer
$$;

-- Whether a limit's delay allows a match.
CREATE FUNCTION wms_delay_is_over(a_limit taskqueues_limit, free_at timestamptz, right_now timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(a_limit.delay_s, 0) = 0
        OR (free_at > right_now + make_interval(secs => (coalesce(a_limit.burst, 1) - 1) * a_limit.delay_s)) IS NOT TRUE
$$;

-- Sum up recent events, and spread the room over the slots; return whether there is any.
CREATE FUNCTION wms_sum_up_limit(the_limit bigint) RETURNS boolean LANGUAGE plpgsql AS $$
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

CREATE TYPE wms_room AS (
    -- The first limit without room; null: all have some.
    full_limit bigint,
    -- Locked slots whose count increases.
    slots bigint[],
    -- Locked limits whose next match is delayed.
    paced bigint[]
);

CREATE FUNCTION wms_room_in_limits(
    the_vo bigint,
    the_site bigint,
    the_ce bigint,
    the_group bigint,
    the_user bigint,
    the_job_type text,
    the_pilot bigint,
    right_now timestamptz
) RETURNS wms_room LANGUAGE plpgsql AS $$
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

CREATE FUNCTION wms_count_in_limits(room wms_room, right_now timestamptz) RETURNS void LANGUAGE plpgsql AS $$
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

-- Only claims give jobs to pilots; jobs leave pilots, and report CPU time, in many ways.
CREATE FUNCTION wms_job_leaves_limits() RETURNS trigger LANGUAGE plpgsql AS $$
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
-- A waiting job is in no limit of held jobs and uses no CPU time. The condition is short because PostgreSQL reads it anew
-- with each statement that changes a job; the function compares, by expressions that it keeps.
CREATE TRIGGER job_leaves_limits AFTER UPDATE OF status, cpu_s ON jobs_job
    FOR EACH ROW WHEN (OLD.status <> 'Waiting')
    EXECUTE FUNCTION wms_job_leaves_limits();

-- Wait until no transaction counts in limits, and exclude all others until the end of this one.
CREATE FUNCTION wms_stop_counting() RETURNS void LANGUAGE plpgsql AS $$
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

-- Deleting a limit would delete its counters in another order than claims lock them, which could deadlock.
CREATE FUNCTION wms_counters_go() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM wms_stop_counting();
    RETURN NULL;
END
$$;
CREATE TRIGGER slots_go BEFORE DELETE ON taskqueues_limitslot
    FOR EACH STATEMENT EXECUTE FUNCTION wms_counters_go();
CREATE TRIGGER counts_go BEFORE DELETE ON taskqueues_limitcount
    FOR EACH STATEMENT EXECUTE FUNCTION wms_counters_go();

-- Create the counters of a limit, however it is written: held jobs are counted while none of them can change.
CREATE FUNCTION wms_limit_changes() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER limit_changes AFTER INSERT OR UPDATE ON taskqueues_limit
    FOR EACH ROW EXECUTE FUNCTION wms_limit_changes();
