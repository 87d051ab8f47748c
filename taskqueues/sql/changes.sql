-- Changes of users, memberships and configuration reach the index of task queues, whoever makes them.

-- Whether an owner is suspended is a condition of the match; users are below task queues and do not know them.
CREATE FUNCTION wms_suspension_changes_task_queues() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER suspension_changes_task_queues AFTER UPDATE OF is_active ON accounts_user
    FOR EACH ROW WHEN (OLD.is_active IS DISTINCT FROM NEW.is_active)
    EXECUTE FUNCTION wms_suspension_changes_task_queues();

-- So is whether the owner is a member of the group. A group without queues of theirs is not marked: it may be about to
-- be deleted, with its memberships.
CREATE FUNCTION wms_membership_changes_task_queues() RETURNS trigger LANGUAGE plpgsql AS $$
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
CREATE TRIGGER membership_that_comes AFTER INSERT ON accounts_membership REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_membership_changes_task_queues();
CREATE TRIGGER membership_that_goes AFTER DELETE ON accounts_membership REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_membership_changes_task_queues();
CREATE TRIGGER membership_before_a_change AFTER UPDATE ON accounts_membership REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_membership_changes_task_queues();
CREATE TRIGGER membership_after_a_change AFTER UPDATE ON accounts_membership REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION wms_membership_changes_task_queues();

-- Offers are resolved against rows of these tables, which processes remember.
CREATE FUNCTION wms_configuration_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) VALUES (0, 0);
    RETURN NULL;
END
$$;
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON accounts_vo
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON accounts_group
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_site
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_site_vos
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_computingelement
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_queue
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_platform
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON taskqueues_submitpool
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON taskqueues_submitpool_queues
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON taskqueues_limit
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
CREATE TRIGGER configuration_changes AFTER INSERT OR UPDATE OR DELETE ON resources_downtime
    FOR EACH STATEMENT EXECUTE FUNCTION wms_configuration_changes();
