"""Queries of the ORM as SQL, for statements that contain them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from django.db import connection
from django.db.models import Model, QuerySet
from django.db.models.sql import UpdateQuery

from wms.jobs.models import JobQuerySet

#: Of a statement, in its order; each is adapted by its type.
Parameters: TypeAlias = Sequence[Any]


def sql_of(rows: QuerySet[Model, object]) -> tuple[str, Parameters]:
    """Return the SELECT of a queryset, and its parameters."""
    text, parameters = rows.query.get_compiler(connection=connection).as_sql()
    return text, parameters


def update_of(jobs: JobQuerySet, columns: Mapping[str, object]) -> tuple[str, Parameters]:
    """Return the UPDATE that sets columns of the jobs, and its parameters."""
    query = jobs.query.chain(UpdateQuery)
    query.add_update_values(columns)  # type: ignore[attr-defined]  # the stubs lose the class of the query
    update, parameters = query.get_compiler(connection=connection).as_sql()
    return update, parameters
