"""The first jobs, and the numbers of jobs, that match a filter (ADR 54, ADR 59)."""

from collections.abc import Sequence
from string import Formatter
from typing import Any, Final, TypeAlias

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Model, QuerySet, UUIDField
from django.db.models.expressions import RawSQL

from wms.jobs.models import Job, JobQuerySet
from wms.jobs.sql.compiled import Parameters, sql_of
from wms.kernel.db import ids_in

#: Values of the fields by which jobs are counted, then the number of jobs.
CountRow: TypeAlias = tuple[*tuple[str | None, ...], int]
_Rows: TypeAlias = QuerySet[Model, object]

#: *kinds* are the properties and numbers of jobs, *jobs* the jobs of one kind: an ordered scan of the index of kinds.
#: The first jobs of all are among those kinds whose own first jobs are the first.
_FIRST_OF_KINDS: Final = """
    WITH kind ({columns}, jobs) AS MATERIALIZED ({kinds}),
         beginning AS MATERIALIZED (
        SELECT kind.* FROM kind, LATERAL ({jobs} LIMIT 1) AS found (id) ORDER BY found.id {order} LIMIT {at_most}
    )
    SELECT found.id FROM beginning AS kind, LATERAL ({jobs} LIMIT least(kind.jobs, {at_most})) AS found (id)
     ORDER BY found.id {order} LIMIT {at_most}
"""

#: *candidates* are submissions with their largest (smallest) id, *jobs* those of one candidate. Jobs that are found on
#: the way from the newest (oldest) candidate tell which id is not too far; candidates beyond it need not be read.
_FIRST_OF_SUBMISSIONS: Final = """
    WITH candidate (submission_id, edge) AS MATERIALIZED ({candidates}),
         reached AS MATERIALIZED (
        SELECT found.id
          FROM (SELECT * FROM candidate ORDER BY edge {order}) AS candidate,
               LATERAL ({jobs} LIMIT {at_most}) AS found (id)
         LIMIT {at_most}
    ), farthest AS MATERIALIZED (
        SELECT CASE WHEN count(*) = {at_most} THEN {last}(id) END AS id FROM reached
    )
    SELECT found.id
      FROM farthest JOIN candidate ON farthest.id IS NULL OR candidate.edge {reaches} farthest.id,
           LATERAL ({jobs} LIMIT {at_most}) AS found (id)
     ORDER BY found.id {order} LIMIT {at_most}
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


#: In ``first_of_submissions``, the submission whose jobs are looked up.
CANDIDATE: Final = RawSQL("candidate.submission_id", (), output_field=UUIDField())


def first_of_kinds(kinds: _Rows, jobs: JobQuerySet, *, at_most: int, newest_first: bool) -> JobQuerySet:
    """Return the first *jobs*, by their ids, that are of any of these kinds.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    columns = kinds.query.values_select
    return _found(
        _FIRST_OF_KINDS,
        columns=", ".join(columns),
        kinds=kinds,
        jobs=_of_kind(jobs, columns).order_by("-pk" if newest_first else "pk").values("pk"),
        at_most=at_most,
        order="DESC" if newest_first else "ASC",
    )


def first_of_submissions(candidates: _Rows, jobs: JobQuerySet, *, at_most: int, newest_first: bool) -> JobQuerySet:
    """Return the first *jobs*, by their ids, of any of these submissions.

    Args:
        candidates: contents of submissions.
        jobs: which jobs of each submission.
        at_most: the number of jobs.
        newest_first: whether those with the largest ids are the first.
    """
    edge = "last_job_id" if newest_first else "first_job_id"
    of_candidate = jobs.filter(submission_id=RawSQL("candidate.submission_id", ()))
    return _found(
        _FIRST_OF_SUBMISSIONS,
        candidates=candidates.order_by().values_list("submission_id", edge),
        jobs=of_candidate.order_by("-pk" if newest_first else "pk").values("pk"),
        at_most=at_most,
        order="DESC" if newest_first else "ASC",
        last="min" if newest_first else "max",
        reaches=">=" if newest_first else "<=",
    )


def counts_in_kinds(kinds: _Rows, jobs: JobQuerySet, fields: Sequence[str]) -> Sequence[CountRow]:
    """Return the numbers of the *jobs* that are of any of these kinds: values of *fields*, in their order, and number.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        jobs: which jobs of each kind.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    jobs_of_kind = _of_kind(jobs, columns).order_by().values(*fields)
    return _counted(_COUNTS_IN_KINDS, fields, columns=", ".join(columns), kinds=kinds, jobs=jobs_of_kind)


def counts_of_submissions(
    kinds: _Rows, indexed: JobQuerySet, jobs: JobQuerySet, submissions: _Rows, fields: Sequence[str]
) -> Sequence[CountRow]:
    """Return the numbers of the *jobs* that are of any of these kinds and of these submissions, as ``counts_in_kinds``.

    Args:
        kinds: of a counter, as values: columns of a job, then the number of jobs.
        indexed: which jobs of each kind are looked at.
        jobs: which of these are counted.
        submissions: contents of submissions, with ``all_match``: whether all of their jobs are among *jobs*.
        fields: of a job or of its related rows.
    """
    columns = kinds.query.values_select
    return _counted(
        _COUNTS_OF_SUBMISSIONS,
        fields,
        columns=", ".join(columns),
        kinds=kinds,
        submissions=submissions.order_by().values_list("pk", "all_match"),
        indexed=_of_kind(indexed, columns).order_by().values_list("pk", "submission_id", *fields),
        matching=jobs.filter(pk=RawSQL("found.id", ())).order_by().values("pk"),
    )


def ids_of(jobs: JobQuerySet) -> frozenset[int]:
    """Return the ids of the jobs."""
    rows = _rows("SELECT string_agg(id::text, ',') FROM ({jobs}) AS found (id)", jobs=jobs.values("pk"))
    return frozenset(ids_in(rows[0][0]) if rows else ())


def _found(template: str, **parts: _Rows | str | int) -> JobQuerySet:
    """Return the jobs whose ids a statement yields."""
    try:
        ids = RawSQL(*_filled(template, **parts))  # noqa: S611 - made of statements of the ORM
    except EmptyResultSet:
        return Job.objects.none()
    return Job.objects.filter(pk__in=ids)


def _counted(template: str, fields: Sequence[str], **parts: _Rows | str) -> Sequence[CountRow]:
    return _rows(template, names=", ".join(f"value_{number}" for number in range(len(fields))), **parts)


def _rows(template: str, **parts: _Rows | str) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a statement; none if one of its querysets is known to be empty."""
    try:
        statement, parameters = _filled(template, **parts)
    except EmptyResultSet:
        return ()
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def _filled(template: str, **parts: _Rows | str | int) -> tuple[str, Parameters]:
    """Return the template with its parts, of querysets their statements, and the parameters in their order."""
    filling = {name: sql_of(part) if isinstance(part, QuerySet) else (part, ()) for name, part in parts.items()}
    statement = template.format_map({name: text for name, (text, _) in filling.items()})
    names = (name for _, name, _, _ in Formatter().parse(template) if name)
    return statement, [value for name in names for value in filling[name][1]]


def _of_kind(jobs: JobQuerySet, columns: Sequence[str]) -> JobQuerySet:
    return jobs.filter(**{each: RawSQL(f"kind.{each}", ()) for each in columns})  # noqa: S611 - our own columns
