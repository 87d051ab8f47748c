-- Checks of the claim on the place of a pilot, known or not (ADR 27).

-- Every queue where a pilot may be, and every CE and site there without any (null: any); with whether it takes jobs,
-- and whether its site is throttled.
CREATE FUNCTION wms_possible_places(
    the_vo bigint, the_site bigint, the_ce bigint, the_ce_name text, the_queue_name text, right_now timestamptz
) RETURNS TABLE (site_id bigint, ce_id bigint, queue_id bigint, is_open boolean, is_throttled boolean)
LANGUAGE sql STABLE AS $$
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

-- Why a pilot whose queue is unknown gets no job of a task queue: a place where it may be could refuse it; empty: none.
CREATE FUNCTION wms_why_not_at_unknown_place(
    the_task_queue taskqueues_taskqueue, the_site bigint, the_ce bigint, the_ce_name text, the_queue_name text,
    right_now timestamptz
) RETURNS text LANGUAGE sql STABLE AS $$
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

-- The begin of the downtime that comes next, or runs, at the place of a pilot or, if its queue is unknown, at any place
-- where it may be; null: none is planned.
CREATE FUNCTION wms_next_downtime(
    the_vo bigint, the_site bigint, the_ce bigint, the_queue bigint, the_ce_name text, the_queue_name text,
    right_now timestamptz
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    -- Uses index: downtime_of_site
    SELECT CASE
        WHEN the_queue IS NOT NULL THEN (
            SELECT min(downtime.begins_at)
              FROM resources_downtime AS downtime
             WHERE downtime.site_id = the_site AND downtime.ends_at > right_now
               AND (downtime.ce_id IS NULL OR downtime.ce_id = the_ce)
               AND (downtime.queue_id IS NULL OR downtime.queue_id = the_queue)
        )
        ELSE (
            SELECT min(downtime.begins_at)
              FROM wms_possible_places(the_vo, the_site, the_ce, the_ce_name, the_queue_name, right_now) AS place
              JOIN resources_downtime AS downtime
                ON downtime.site_id = place.site_id AND downtime.ends_at > right_now
               AND (downtime.ce_id IS NULL OR downtime.ce_id = place.ce_id)
               AND (downtime.queue_id IS NULL OR downtime.queue_id = place.queue_id)
        )
    END
$$;
