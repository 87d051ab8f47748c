-- The queues of submit pools have no foreign keys. They go with their queue or pool, also those that come meanwhile: a
-- statement of its own, in a function, sees what was committed while the deletion waited for it.

CREATE FUNCTION wms_memberships_go_with_queue() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskqueues_submitpool_queues AS member USING gone WHERE member.queue_id = gone.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER memberships_go_with_queue AFTER DELETE ON resources_queue REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION wms_memberships_go_with_queue();

CREATE FUNCTION wms_memberships_go_with_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM taskqueues_submitpool_queues AS member USING gone WHERE member.submitpool_id = gone.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER memberships_go_with_pool AFTER DELETE ON taskqueues_submitpool REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION wms_memberships_go_with_pool();
