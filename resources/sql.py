"""What every submission asks of the configuration: to write these by the ORM takes five times as long as to run them.

A site serves the VOs that it names, or all when it names none; the join gives a site that serves the VO once.
"""

from collections.abc import Sequence

from django.db import connection

_SITES = """
SELECT site.name
  FROM resources_site AS site
  LEFT JOIN resources_site_vos AS served ON served.site_id = site.id
 WHERE served.vo_id = %s OR served.vo_id IS NULL
"""

_PLATFORMS = """
SELECT name FROM resources_platform
 UNION
SELECT unnest(runs) FROM resources_platform
 UNION
SELECT unnest(platforms) FROM resources_queue
"""

_JOB_TYPES = """
SELECT DISTINCT queue.job_types
  FROM resources_queue AS queue
  JOIN resources_computingelement AS ce ON ce.id = queue.ce_id
  LEFT JOIN resources_site_vos AS served ON served.site_id = ce.site_id
 WHERE served.vo_id = %s OR served.vo_id IS NULL
"""


def names_of_sites(*, vo_id: int) -> frozenset[str]:
    """Return the names of the sites that serve the VO."""
    with connection.cursor() as cursor:
        cursor.execute(_SITES, [vo_id])
        return frozenset(name for (name,) in cursor.fetchall())


def platforms() -> frozenset[str]:
    """Return every platform that a node may have, or that one may run."""
    with connection.cursor() as cursor:
        cursor.execute(_PLATFORMS)
        return frozenset(name for (name,) in cursor.fetchall())


def lists_of_job_types(*, vo_id: int) -> Sequence[Sequence[str]]:
    """Return the different lists of job types that queues of the VO take; an empty one: all."""
    with connection.cursor() as cursor:
        cursor.execute(_JOB_TYPES, [vo_id])
        return [job_types for (job_types,) in cursor.fetchall()]
