"""The first jobs, and the numbers of jobs, that match a filter (ADR 54, ADR 59)."""

from collections.abc import Sequence
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet, UUIDField
from django.db.models.expressions import RawSQL

from wms.jobs.models import JobQuerySet
from wms.jobs.sql.compiled import sql_of
from wms.kernel.db import ids_in

#: *kinds* are the properties and numbers of jobs, *jobs* the jobs of one kind: an ordered scan of the index of kinds.
#: The first jobs of all are among those kinds whose own first jobs are the first.
_FIRST_OF_KINDS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds}),
         beginning AS MATERIALIZED (
        SELECT kind.* FROM kind, LATERAL ({jobs} LIMIT 1) AS found (id) ORDER BY found.id {order} LIMIT %s
    )
    SELECT found.id FROM beginning AS kind, LATERAL ({jobs} LIMIT least(kind.jobs, %s)) AS found (id)
     ORDER BY found.id {order} LIMIT %s
"""

#: *candidates* are submissions with their largest (smallest) id, *jobs* those of one candidate. Jobs that are found on
#: the way from the newest (oldest) candidate tell which id is not too far; candidates beyond it need not be read.
_FIRST_OF_SUBMISSIONS = """
    WITH candidate (submission_id, edge) AS MATERIALIZED ({candidates}),
         reached AS MATERIALIZED (
        SELECT found.id
          FROM (SELECT * FROM candidate ORDER BY edge {order}) AS candidate, LATERAL ({jobs} LIMIT %s) AS found (id)
         LIMIT %s
    ), farthest AS MATERIALIZED (
        SELECT CASE WHEN count(*) = %s THEN {last}(id) END AS id FROM reached
    )
    SELECT found.id
      FROM farthest JOIN candidate ON farthest.id IS NULL OR candidate.edge {reaches} farthest.id,
           LATERAL ({jobs} LIMIT %s) AS found (id)
     ORDER BY found.id {order} LIMIT %s
"""

#: OFFSET 0 keeps it a look-up for each kind: the planner, which does not know the kinds, would read all jobs.
_COUNTS_IN_KINDS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds})
    SELECT {names}, count(*) FROM kind, LATERAL ({jobs} OFFSET 0) AS found ({names}) GROUP BY {names} ORDER BY {names}
"""

#: *indexed* are those jobs of a kind that match as far as the index of kinds has columns, *jobs* those that match. A
#: job of a submission all of whose jobs match is not read. No EXISTS, which might be planned as a scan of all jobs.
_COUNTS_OF_SUBMISSIONS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds}),
         submission (id, all_match) AS MATERIALIZED ({submissions})
    SELECT {names}, count(*)
      FROM kind, LATERAL ({indexed} OFFSET 0) AS found (id, submission_id, {names})
      JOIN submission ON submission.id = found.submission_id
     WHERE submission.all_match OR ({matching}) IS NOT NULL
     GROUP BY {names} ORDER BY {names}
"""


def first_of_kinds(kinds: QuerySet[Any], jobs: JobQuerySet, *, at_most: int, newest_first: bool) -> JobQuerySet:
    """Return the first *jobs*, by their ids, that are of any of these kinds.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    columns = kinds.query.values_select
    jobs = _of_kind(jobs, columns)
    try:
        of_kind, its_parameters = sql_of(jobs.order_by("-pk" if newest_first else "pk").values("pk"))
        counted, parameters = sql_of(kinds)
    except EmptyResultSet:
        return jobs.none()
    statement = _FIRST_OF_KINDS.format(
        columns=", ".join(columns), kinds=counted, jobs=of_kind, order="DESC" if newest_first else "ASC"
    )
    values = (*parameters, *its_parameters, at_most, *its_parameters, at_most, at_most)
    found = RawSQL(statement, values)  # noqa: S611 - made of statements of the ORM
    return JobQuerySet(jobs.model).filter(pk__in=found)


#: In ``first_of_submissions``, the submission whose jobs are looked up.
CANDIDATE: Final = RawSQL("candidate.submission_id", (), output_field=UUIDField())


def first_of_submissions(
    candidates: QuerySet[Any], jobs: JobQuerySet, *, at_most: int, newest_first: bool
) -> JobQuerySet:
    """Return the first *jobs*, by their ids, of any of these submissions.

    Args:
        candidates: contents of submissions.
        jobs: which jobs of each submission.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    edge = "last_job_id" if newest_first else "first_job_id"
    of_candidate = jobs.filter(submission_id=RawSQL("candidate.submission_id", ()))
    try:
        found, its_parameters = sql_of(of_candidate.order_by("-pk" if newest_first else "pk").values("pk"))
        possible, parameters = sql_of(candidates.order_by().values_list("submission_id", edge))
    except EmptyResultSet:
        return jobs.none()
    statement = _FIRST_OF_SUBMISSIONS.format(
        candidates=possible,
        jobs=found,
        order="DESC" if newest_first else "ASC",
        last="min" if newest_first else "max",
        reaches=">=" if newest_first else "<=",
    )
    values = (*parameters, *its_parameters, at_most, at_most, at_most, *its_parameters, at_most, at_most)
    return JobQuerySet(jobs.model).filter(pk__in=RawSQL(statement, values))  # noqa: S611 - made by the ORM


def counts_in_kinds(kinds: QuerySet[Any], jobs: JobQuerySet, fields: Sequence[str]) -> Sequence[Sequence[Any]]:
    """Return the numbers of the *jobs* that are of any of these kinds: values of *fields*, in their order, and number.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    try:
        of_kind, its_parameters = sql_of(_of_kind(jobs, columns).order_by().values(*fields))
        counted, parameters = sql_of(kinds)
    except EmptyResultSet:
        return ()
    names = ", ".join(f"value_{number}" for number in range(len(fields)))
    statement = _COUNTS_IN_KINDS.format(columns=", ".join(columns), kinds=counted, jobs=of_kind, names=names)
    with connection.cursor() as cursor:
        cursor.execute(statement, (*parameters, *its_parameters))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def counts_of_submissions(
    kinds: QuerySet[Any], indexed: JobQuerySet, jobs: JobQuerySet, submissions: QuerySet[Any], fields: Sequence[str]
) -> Sequence[Sequence[Any]]:
    """Return the numbers of the *jobs* that are of any of these kinds and of these submissions, as ``counts_in_kinds``.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        indexed: which jobs of each kind are looked at.
        jobs: which of these are counted.
        submissions: contents of submissions, with ``all_match``: whether all of their jobs are among *jobs*.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    of_job = jobs.filter(pk=RawSQL("found.id", ()))
    try:
        of_kind, its_parameters = sql_of(
            _of_kind(indexed, columns).order_by().values_list("pk", "submission_id", *fields)
        )
        counted, parameters = sql_of(kinds)
        its_submissions, of_submissions = sql_of(submissions.order_by().values_list("pk", "all_match"))
        matching, of_matching = sql_of(of_job.order_by().values("pk"))
    except EmptyResultSet:
        return ()
    names = ", ".join(f"value_{number}" for number in range(len(fields)))
    statement = _COUNTS_OF_SUBMISSIONS.format(
        columns=", ".join(columns),
        kinds=counted,
        submissions=its_submissions,
        indexed=of_kind,
        matching=matching,
        names=names,
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, (*parameters, *of_submissions, *its_parameters, *of_matching))
        rows: Sequence[Sequence[Any]] = cursor.fetchall()
    return rows


def _of_kind(jobs: JobQuerySet, columns: Sequence[str]) -> JobQuerySet:
    return jobs.filter(**{each: RawSQL(f"kind.{each}", ()) for each in columns})  # noqa: S611 - our own columns


def ids_of(jobs: JobQuerySet) -> frozenset[int]:
    """Return the ids of the jobs."""
    try:
        found, parameters = sql_of(jobs.values("pk"))
    except EmptyResultSet:
        return frozenset()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT string_agg(id::text, ',') FROM ({found}) AS found (id)", parameters)  # noqa: S608 - made by the ORM
        (ids,) = cursor.fetchone()
    return frozenset(ids_in(ids))
