"""Marks of submit pools that are to be refreshed; and memberships go with their queue, whoever makes them meanwhile."""

import django.db.models.deletion
from django.db import migrations, models

#: Django deletes the memberships that it sees, then the queue; one that came in between would make the commit fail.
GO_WITH_THEIR_QUEUE = """
DO $$
DECLARE
    its_name text;
BEGIN
    SELECT conname INTO STRICT its_name
      FROM pg_constraint
     WHERE contype = 'f'
       AND conrelid = 'taskqueues_submitpool_queues'::regclass
       AND confrelid = 'resources_queue'::regclass;
    EXECUTE format('ALTER TABLE taskqueues_submitpool_queues DROP CONSTRAINT %I', its_name);
    EXECUTE format(
        'ALTER TABLE taskqueues_submitpool_queues ADD CONSTRAINT %I FOREIGN KEY (queue_id)'
        ' REFERENCES resources_queue (id) {} DEFERRABLE INITIALLY DEFERRED',
        its_name
    );
END
$$
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0001_initial"),
        ("taskqueues", "0006_wall_time_gpus_disk_container"),
    ]

    operations = [
        migrations.CreateModel(
            name="StaleSubmitPools",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "pool",
                    models.CharField(blank=True, help_text="Id of a new pool; empty: all of the VO.", max_length=64),
                ),
                ("changed_at", models.DateTimeField()),
                (
                    "vo",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.vo",
                    ),
                ),
            ],
            options={"verbose_name_plural": "stale submit pools"},
        ),
        migrations.RunSQL(
            GO_WITH_THEIR_QUEUE.replace("{}", "ON DELETE CASCADE"), GO_WITH_THEIR_QUEUE.replace("{} ", "")
        ),
    ]
