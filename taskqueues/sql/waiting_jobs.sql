-- A function, for a statement that writes is never given parallel workers, and a query within a function is. STABLE: it
-- sees what the calling statement sees. Planned at each call: all the table is read in another way than a few queues.
CREATE FUNCTION wms_waiting_jobs(task_queue_ids bigint[]) RETURNS TABLE (task_queue_id bigint, jobs_of_level integer[])
LANGUAGE plpgsql STABLE ROWS 10000 SET plan_cache_mode = force_custom_plan AS $$
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
COMMENT ON FUNCTION wms_waiting_jobs IS
    'Jobs of user priority 0 to 10 that wait in each of these queues, or in all (null); a queue without any is missing.';
