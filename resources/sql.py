"""SQL for resources: names and parameter sets, for which the ORM takes five times as long, and replicas.

A site serves the VOs that it names, or all if it names none; the join returns a site that serves the VO once.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import connection

from wms.kernel.db import transaction_required
from wms.kernel.fast.statements import query_prepared

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

#: Parameters of a level for all VOs and for one, as JSON texts.
_PARAMETERS_OF_SITES = """
SELECT site.id, site.name, site.parameters::text, coalesce(site.vo_parameters -> %(vo)s, '{}')::text
  FROM resources_site AS site
  LEFT JOIN resources_site_vos AS served ON served.site_id = site.id
 WHERE served.vo_id = %(vo_id)s OR served.vo_id IS NULL
"""

_PARAMETERS_OF_CES = """
SELECT id, name, site_id, parameters::text, coalesce(vo_parameters -> %(vo)s, '{}')::text
  FROM resources_computingelement
"""

#: Queues are grouped by equal parameters. Grouping by the values themselves takes three times as long, and reading
#: arrays instead of texts takes twice as long.
_PARAMETERS_OF_QUEUES = """
WITH alike AS (
    SELECT min(id) AS first, string_agg(id::text, ',') AS ids, string_agg(ce_id::text, ',') AS ce_ids,
           json_agg(name)::text AS names
      FROM resources_queue
     GROUP BY parameters_digest
)
SELECT queue.parameters::text, coalesce(queue.vo_parameters -> %(vo)s, '{}')::text, ids, ce_ids, names
  FROM alike JOIN resources_queue AS queue ON queue.id = alike.first
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSets:
    """The parameters of every level; of CEs and queues also where no site serves the VO."""

    #: Primary key, name, parameters for all VOs, parameters for the VO.
    sites: tuple[tuple[int, str, str, str], ...]
    #: Primary key, name, key of the site, parameters for all VOs, parameters for the VO.
    ces: tuple[tuple[int, str, int, str, str], ...]
    #: Parameters for all VOs, parameters for the VO; and of the queues with these, in one order: their primary keys and
    #: those of their CEs, separated by commas, and their names as JSON.
    queues: tuple[tuple[str, str, str, str, str], ...]


def parameter_sets(*, vo_id: int, vo: str) -> ParameterSets:
    """Return the parameters of every level, for all VOs and for *vo*, as JSON texts."""
    names: dict[str, str | int] = {"vo_id": vo_id, "vo": vo}
    with connection.cursor() as cursor:
        results = []
        for statement in (_PARAMETERS_OF_SITES, _PARAMETERS_OF_CES, _PARAMETERS_OF_QUEUES):
            cursor.execute(statement, names)
            results.append(tuple(cursor.fetchall()))
    sites, ces, queues = results
    return ParameterSets(sites=sites, ces=ces, queues=queues)


def names_of_sites(*, vo_id: int) -> frozenset[str]:
    """Return the names of the sites that serve the VO."""
    return frozenset(name for (name,) in query_prepared(_SITES, vo_id))


def platforms() -> frozenset[str]:
    """Return every platform that a node may have or run."""
    return frozenset(name for (name,) in query_prepared(_PLATFORMS))


# ---- Replicas --------------------------------------------------------------------------------------------------------

#: Replicas of a storage element that was deleted, or no longer serves the VO, are still stored, because finding them
#: among millions takes too long. A storage element that names no VO serves none.
_HOLDERS: Final = """
SELECT replica.lfn, array_agg(replica.storage_element_id)
  FROM resources_replica AS replica
  JOIN resources_storageelement_vos AS served
    ON served.storageelement_id = replica.storage_element_id AND served.vo_id = replica.vo_id
 WHERE replica.vo_id = %s AND replica.lfn = ANY(%s)
 GROUP BY replica.lfn
"""

_SITES_OF_ELEMENTS: Final = """
SELECT held.storageelement_id, array_agg(site.name)
  FROM resources_site AS site
  JOIN resources_site_storage_elements AS held ON held.site_id = site.id
  JOIN resources_storageelement_vos AS element
    ON element.storageelement_id = held.storageelement_id AND element.vo_id = %(vo_id)s
  LEFT JOIN resources_site_vos AS served ON served.site_id = site.id
 WHERE served.vo_id = %(vo_id)s OR served.vo_id IS NULL
 GROUP BY held.storageelement_id
"""

_COPIES: Final = """
SELECT replica.lfn, element.id, element.name, element.url, replica.size_bytes, replica.checksum
  FROM resources_replica AS replica
  JOIN resources_storageelement AS element ON element.id = replica.storage_element_id
  JOIN resources_storageelement_vos AS served
    ON served.storageelement_id = element.id AND served.vo_id = replica.vo_id
 WHERE replica.vo_id = %s AND replica.lfn = ANY(%s)
 ORDER BY replica.lfn, element.name
"""

#: The ORM cannot return which rows were new. In order of names, so that two requests for equal files do not deadlock.
_REGISTER: Final = """
INSERT INTO resources_replica AS replica (vo_id, lfn, storage_element_id, size_bytes, checksum)
SELECT %s, given.lfn, given.storage_element_id, given.size_bytes, given.checksum
  FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])
       AS given (lfn, storage_element_id, size_bytes, checksum)
 ORDER BY given.lfn COLLATE "C", given.storage_element_id
    ON CONFLICT (vo_id, lfn, storage_element_id) DO UPDATE
   SET size_bytes = EXCLUDED.size_bytes, checksum = EXCLUDED.checksum
 WHERE (replica.size_bytes, replica.checksum) IS DISTINCT FROM (EXCLUDED.size_bytes, EXCLUDED.checksum)
RETURNING lfn, xmax = 0
"""

#: Replicas of a request, and those of a load.
_GIVEN: Final = """
SELECT %s::bigint AS vo_id, given.*
  FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::text[])
       AS given (lfn, storage_element_id, size_bytes, checksum)
"""
_LOADED: Final = "SELECT vo_id, lfn, storage_element_id, size_bytes, checksum FROM resources_replica_load"
#: Names of output come before replicas, as for a job's registration, and in one order.
_LOCK_NAMES: Final = """
WITH given AS ({given})
SELECT id FROM resources_outputname
 WHERE (vo_id, lfn) IN (SELECT vo_id, lfn FROM given)
 ORDER BY vo_id, lfn
   FOR UPDATE
"""
#: A copy elsewhere has the checksum of a known one.
_TAKE_FROM_JOBS: Final = """
WITH given AS ({given})
UPDATE resources_outputname AS name
   SET writer_id = NULL, owner_id = NULL, replaces = FALSE
 WHERE id = ANY(%s)
   AND EXISTS (
       SELECT FROM given
        WHERE given.vo_id = name.vo_id AND given.lfn = name.lfn
          AND NOT EXISTS (
              SELECT FROM resources_replica AS known
               WHERE known.vo_id = given.vo_id AND known.lfn = given.lfn AND known.checksum = given.checksum
                 AND (known.checksum <> ''
                      OR known.storage_element_id = given.storage_element_id
                         AND known.size_bytes IS NOT DISTINCT FROM given.size_bytes)
          )
   )
"""

#: A null storage element stands for all. In order of names, as for registrations.
_LOCK_REMOVED: Final = """
WITH given AS (
    SELECT * FROM unnest(%s::text[], %s::bigint[]) AS given (lfn, storage_element_id)
)
SELECT replica.id
  FROM resources_replica AS replica
 WHERE replica.vo_id = %s AND replica.lfn IN (SELECT lfn FROM given)
   AND EXISTS (
       SELECT FROM given
        WHERE given.lfn = replica.lfn
          AND COALESCE(given.storage_element_id, replica.storage_element_id) = replica.storage_element_id
   )
 ORDER BY replica.lfn, replica.storage_element_id
   FOR UPDATE
"""
#: A separate statement: one that locks rows and then writes them re-reads the versions of its snapshot, for which it
#: may wait again, and others for it.
_REMOVE: Final = "DELETE FROM resources_replica WHERE id = ANY(%s) RETURNING lfn"

_MARK: Final = """
INSERT INTO resources_replicachange (vo_id, lfn, job_id)
SELECT %s, lfn, 0 FROM unnest(%s::text[]) AS changed (lfn)
"""

_MAKE_LOAD: Final = """
CREATE TEMPORARY TABLE resources_replica_load (
    line integer, vo_id bigint, lfn text COLLATE "C", storage_element_id bigint, size_bytes bigint, checksum text
)
"""
_COPY_LOAD: Final = (
    "COPY resources_replica_load (line, vo_id, lfn, storage_element_id, size_bytes, checksum) FROM STDIN"
)
_ROWS_OF_BLOCK: Final = 1000
_REPEATED: Final = """
SELECT line, first FROM (
    SELECT line, min(line) OVER (PARTITION BY vo_id, lfn, storage_element_id) AS first FROM resources_replica_load
) AS told
 WHERE line <> first ORDER BY line LIMIT %s
"""
#: In the order of the index, whose pages are then written once each. Rows with equal data are left out first: a
#: conflict locks its row, which writes it even without an update.
_FROM_LOAD: Final = """
WITH written AS (
    INSERT INTO resources_replica AS replica (vo_id, lfn, storage_element_id, size_bytes, checksum)
    SELECT vo_id, lfn, storage_element_id, size_bytes, checksum
      FROM resources_replica_load AS told
     WHERE NOT EXISTS (
           SELECT FROM resources_replica AS known
            WHERE known.vo_id = told.vo_id AND known.lfn = told.lfn
              AND known.storage_element_id = told.storage_element_id
              AND (known.size_bytes, known.checksum) IS NOT DISTINCT FROM (told.size_bytes, told.checksum)
     )
     ORDER BY vo_id, lfn, storage_element_id
        ON CONFLICT (vo_id, lfn, storage_element_id) DO UPDATE
       SET size_bytes = EXCLUDED.size_bytes, checksum = EXCLUDED.checksum
     WHERE (replica.size_bytes, replica.checksum) IS DISTINCT FROM (EXCLUDED.size_bytes, EXCLUDED.checksum)
    RETURNING vo_id, xmax = 0 AS is_new
)
SELECT vo_id, count(*) FILTER (WHERE is_new), count(*) FILTER (WHERE NOT is_new) FROM written GROUP BY vo_id
"""


class LoadRow(NamedTuple):
    """One replica from a line of a file."""

    line: int
    vo_id: int
    lfn: str
    storage_element_id: int
    size_bytes: int | None
    checksum: str


class Written(NamedTuple):
    """The result of a load for one VO."""

    vo_id: int
    new: int
    changed: int


def holders(*, vo_id: int, lfns: Collection[str]) -> dict[str, frozenset[int]]:
    """Return {file: ids of the storage elements that hold it}, of the files with a replica for the VO."""
    with connection.cursor() as cursor:
        cursor.execute(_HOLDERS, [vo_id, list(lfns)])
        return {lfn: frozenset(elements) for lfn, elements in cursor.fetchall()}


def sites_of_elements(*, vo_id: int) -> dict[int, frozenset[str]]:
    """Return {id of a storage element that serves the VO: names of its sites that serve the VO}."""
    with connection.cursor() as cursor:
        cursor.execute(_SITES_OF_ELEMENTS, {"vo_id": vo_id})
        return {element: frozenset(sites) for element, sites in cursor.fetchall()}


def copies(*, vo_id: int, lfns: Collection[str]) -> list[tuple[str, int, str, str, int | None, str]]:
    """Return (file, id, name and URL of a storage element of the VO, size in bytes, checksum) of each replica there."""
    with connection.cursor() as cursor:
        cursor.execute(_COPIES, [vo_id, list(lfns)])
        return [(lfn, pk, name, url, size, checksum) for lfn, pk, name, url, size, checksum in cursor.fetchall()]


@transaction_required
def register(rows: Sequence[tuple[str, int, int | None, str]], *, vo_id: int) -> list[tuple[str, bool]]:
    """Insert or update replicas (file, storage element, size, checksum); return (file, is new) of those written."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_REGISTER, [vo_id, *columns])
        return [(lfn, is_new) for lfn, is_new in cursor.fetchall()]


@transaction_required
def take_from_jobs(rows: Sequence[tuple[str, int, int | None, str]], *, vo_id: int) -> None:
    """Lock the names of output among replicas that are to be registered, as for ``register``.

    Jobs are no longer the writers of those that get a content which no known replica has.
    """
    _take_from_jobs(_GIVEN, [vo_id, *(list(column) for column in zip(*rows, strict=True))])


def _take_from_jobs(given: str, parameters: Sequence[int | list[Any]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_NAMES.format(given=given), parameters)
        locked = [pk for (pk,) in cursor.fetchall()]
        if locked:
            cursor.execute(_TAKE_FROM_JOBS.format(given=given), [*parameters, locked])


@transaction_required
def remove(rows: Sequence[tuple[str, int | None]], *, vo_id: int) -> list[str]:
    """Delete replicas (file, storage element or None for all); return the file of each that was there."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_REMOVED, [*columns, vo_id])
        cursor.execute(_REMOVE, [[pk for (pk,) in cursor.fetchall()]])
        return [lfn for (lfn,) in cursor.fetchall()]


@transaction_required
def mark(lfns: Collection[str], *, vo_id: int | None) -> None:
    """Mark files whose replicas changed; the empty name stands for any file, and None for all VOs."""
    with connection.cursor() as cursor:
        cursor.execute(_MARK, [vo_id, sorted(lfns)])


@transaction_required
def begin_load(rows: Iterable[LoadRow]) -> None:
    """Copy the rows into a temporary table, which exists until ``write_load`` or a rollback.

    Args:
        rows: without control characters in their texts.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MAKE_LOAD)
        with cursor.copy(_COPY_LOAD) as copy:
            lines = map(_as_copied, rows)
            # In blocks of text: psycopg takes longer to write a row than all checks of it.
            while block := "".join(islice(lines, _ROWS_OF_BLOCK)):
                copy.write(block)
        cursor.execute("ANALYZE resources_replica_load")


def _as_copied(row: LoadRow) -> str:
    """Return a row in the text form of COPY, in which backslash is the only special printable character."""
    line, vo_id, lfn, storage_element_id, size_bytes, checksum = row
    if "\\" in lfn:
        lfn = lfn.replace("\\", r"\\")
    size = r"\N" if size_bytes is None else size_bytes
    return f"{line}\t{vo_id}\t{lfn}\t{storage_element_id}\t{size}\t{checksum}\n"


@transaction_required
def repeated_lines(*, at_most: int) -> list[tuple[int, int]]:
    """Return (line, earlier line) of loaded rows for the same replica."""
    with connection.cursor() as cursor:
        cursor.execute(_REPEATED, [at_most])
        return [(line, first) for line, first in cursor.fetchall()]


@transaction_required
def write_load() -> list[Written]:
    """Insert or update all loaded rows in one statement, and drop the table; names of output as ``take_from_jobs``."""
    _take_from_jobs(_LOADED, [])
    with connection.cursor() as cursor:
        cursor.execute(_FROM_LOAD)
        written = [Written(*row) for row in cursor.fetchall()]
        cursor.execute("DROP TABLE resources_replica_load")
    return written
