"""Move waiting jobs that need software into task queues that name it (ADR 34).

Task queues that were made before name none, and their jobs would be matched without a look at what queues publish. A
task queue that is left without jobs is removed by beat; priorities are divided again for the groups concerned.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

from wms.kernel.names import composed

#: {task queue, software: its waiting jobs}, by task queue.
_JOBS = """
SELECT waiting.task_queue_id, (job.description -> 'software')::text, array_agg(waiting.job_id ORDER BY waiting.job_id)
  FROM taskqueues_queuedjob AS waiting
  JOIN jobs_job AS job ON job.id = waiting.job_id
 WHERE jsonb_typeof(job.description -> 'software') = 'array' AND job.description -> 'software' <> '[]'
 GROUP BY 1, 2
 ORDER BY 1, 2
"""
#: A copy of a task queue with software; its priority is right until the groups are evaluated again.
_COPY = """
INSERT INTO taskqueues_taskqueue
SELECT copied.*
  FROM taskqueues_taskqueue AS task_queue,
       jsonb_populate_record(
           task_queue,
           jsonb_build_object(
               'id', nextval(pg_get_serial_sequence('taskqueues_taskqueue', 'id')),
               'signature', %(signature)s::bytea,
               'software', %(software)s::jsonb
           )
       ) AS copied
 WHERE task_queue.id = %(task_queue)s
    ON CONFLICT (signature) DO NOTHING
"""
_MOVE = """
WITH named AS (
    SELECT id, group_id FROM taskqueues_taskqueue WHERE signature = %(signature)s::bytea
), moved AS (
    UPDATE taskqueues_queuedjob SET task_queue_id = named.id FROM named WHERE job_id = ANY (%(jobs)s)
    RETURNING task_queue_id, user_priority
), told AS (
    INSERT INTO taskqueues_taskqueuechange (task_queue_id, user_priority, jobs)
    SELECT task_queue_id, user_priority, count(*) FROM moved GROUP BY 1, 2
    UNION ALL
    SELECT %(task_queue)s, user_priority, -count(*) FROM moved GROUP BY 2
)
INSERT INTO taskqueues_changedgroup (group_id, changed_at) SELECT group_id, now() FROM named
"""


#: The definition of a task queue at this migration, and the values that its signature leaves out.
_COLUMNS = (
    *("owner_id", "group_id", "vo_id", "setup", "cpu_time_s", "submit_pools", "pilot_types", "sites"),
    *("banned_sites", "grid_ces", "grid_middlewares", "platforms", "job_type", "tags", "processors", "memory_mb"),
    *("wall_time_s", "gpus", "disk_mb", "container", "software"),
)
_NOT_REQUIRED = {"wall_time_s": 0, "gpus": 0, "disk_mb": 0, "container": False, "software": []}


def move_jobs(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    """Move the jobs of each task queue by the software that they need."""
    task_queues = apps.get_model("taskqueues", "TaskQueue").objects
    with editor.connection.cursor() as cursor:
        cursor.execute(_JOBS)
        for task_queue, text, jobs in list(cursor.fetchall()):
            needed = _software(json.loads(text))
            definition = task_queues.filter(pk=task_queue).values(*_COLUMNS).get()
            if not needed or definition["software"] == needed:
                continue
            bounds = {
                "task_queue": task_queue,
                "jobs": jobs,
                "signature": _signature({**definition, "software": needed}),
                "software": json.dumps(needed),
            }
            cursor.execute(_COPY, bounds)
            cursor.execute(_MOVE, bounds)


def _software(values: Sequence[object]) -> list[str]:
    return sorted({composed(value) for value in values if isinstance(value, str)})


def _signature(definition: Mapping[str, object]) -> bytes:
    stated = {
        name: value for name, value in definition.items() if name not in _NOT_REQUIRED or value != _NOT_REQUIRED[name]
    }
    return sha256(json.dumps(stated, sort_keys=True, separators=(",", ":")).encode()).digest()


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0008_orders_of_three_names"),
        ("taskqueues", "0014_software_of_task_queues"),
    ]

    operations = [
        # Backwards the column goes with its migration; the task queues stay apart until they are empty.
        migrations.RunPython(move_jobs, migrations.RunPython.noop),
    ]
