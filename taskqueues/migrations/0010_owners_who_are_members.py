"""Only jobs of active members of their group are matched: who leaves or rejoins changes task queues, by any door."""

from django.db import migrations

#: Whether an owner is suspended is a condition of the match; users are below task queues and know nothing of them.
SUSPENSION = """
CREATE OR REPLACE FUNCTION wms_suspension_changes_task_queues() RETURNS trigger LANGUAGE plpgsql AS $$
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
"""
SUSPENSION_BEFORE = """
CREATE OR REPLACE FUNCTION wms_suspension_changes_task_queues() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs)
    SELECT id, 0 FROM taskqueues_taskqueue WHERE owner_id = NEW.id;
    RETURN NULL;
END
$$;
"""
#: So is whether the owner is a member of the group. A group without queues of theirs is not marked: it may be about to
#: be deleted, with its memberships.
MEMBERSHIP = """
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
"""
#: Owners may have left, or been suspended, before: their groups are evaluated again, and every index reads their queues.
CATCH_UP = """
WITH theirs AS (
    SELECT task_queue.id, task_queue.group_id
      FROM taskqueues_taskqueue AS task_queue
      JOIN accounts_user AS owner ON owner.id = task_queue.owner_id
      LEFT JOIN accounts_membership AS membership
        ON membership.user_id = task_queue.owner_id AND membership.group_id = task_queue.group_id
     WHERE membership.id IS NULL OR NOT owner.is_active
), marked AS (
    INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT DISTINCT group_id, now() FROM theirs
)
INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs) SELECT id, 0 FROM theirs
"""


class Migration(migrations.Migration):
    dependencies = [
        # The trigger's table.
        ("accounts", "0002_sharing_of_a_vo"),
        ("taskqueues", "0009_memberships_without_foreign_keys"),
    ]

    operations = [
        migrations.RunSQL(SUSPENSION, SUSPENSION_BEFORE),
        migrations.RunSQL(MEMBERSHIP, "DROP FUNCTION wms_membership_changes_task_queues CASCADE"),
        migrations.RunSQL(CATCH_UP, migrations.RunSQL.noop),
    ]
