"""What submissions ask of the configuration: to write these by the ORM takes five times as long as to run them.

A site serves the VOs that it names, or all when it names none; the join gives a site that serves the VO once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

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

#: What levels say for all VOs and for one, as texts. The queues come in groups that say the same: twenty thousand rows
#: take longer to be told one by one than to be put together here.
_SAYINGS_OF_SITES = """
SELECT site.id, site.name, site.parameters::text, coalesce(site.vo_parameters -> %(vo)s, '{}')::text
  FROM resources_site AS site
  LEFT JOIN resources_site_vos AS served ON served.site_id = site.id
 WHERE served.vo_id = %(vo_id)s OR served.vo_id IS NULL
"""

_SAYINGS_OF_CES = """
SELECT id, name, site_id, parameters::text, coalesce(vo_parameters -> %(vo)s, '{}')::text
  FROM resources_computingelement
"""

_SAYINGS_OF_QUEUES = """
SELECT general::text, of_vo::text, array_agg(id), array_agg(ce_id), array_agg(name)
  FROM (SELECT id, ce_id, name, parameters AS general, coalesce(vo_parameters -> %(vo)s, '{}') AS of_vo
          FROM resources_queue) AS queue
 GROUP BY general, of_vo
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sayings:
    """What is said at every level; of CEs and queues also where no site serves the VO."""

    #: Primary key, name, for all VOs, for the one.
    sites: list[tuple[int, str, str, str]]
    #: Primary key, name, of the site, for all VOs, for the one.
    ces: list[tuple[int, str, int, str, str]]
    #: For all VOs, for the one; and of each queue that says so the primary key, that of its CE, its name.
    queues: list[tuple[str, str, list[int], list[int], list[str]]]


def sayings(*, vo_id: int, vo: str) -> Sayings:
    """Return the parameters of every level, for all VOs and for the one called *vo*, as JSON texts."""
    names: dict[str, str | int] = {"vo_id": vo_id, "vo": vo}
    with connection.cursor() as cursor:
        found = []
        for statement in (_SAYINGS_OF_SITES, _SAYINGS_OF_CES, _SAYINGS_OF_QUEUES):
            cursor.execute(statement, names)
            found.append(cursor.fetchall())
    sites, ces, queues = found
    return Sayings(sites=sites, ces=ces, queues=queues)


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
