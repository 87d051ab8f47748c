"""The one statement of this app that the ORM cannot say."""

from django.db import connection


def reserve_job_ids(count: int) -> list[int]:
    """Return *count* new job ids, ascending.

    Known before the insert, because texts of a job may name its id (``%j``). The ORM knows no sequences.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT nextval(pg_get_serial_sequence('jobs_job', 'id')) FROM generate_series(1, %s)", [count])
        return sorted(job_id for (job_id,) in cursor.fetchall())
