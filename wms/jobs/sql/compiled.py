"""Queries of the ORM as SQL, for statements that contain them."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet
from django.db.models.sql import UpdateQuery

from wms.jobs.models import JobQuerySet


def sql_of(rows: QuerySet[Any]) -> tuple[str, tuple[Any, ...]]:
    """Return the SELECT of a queryset, and its parameters."""
    text, parameters = rows.query.get_compiler(connection=connection).as_sql()
    return text, tuple(parameters)


def update_of(jobs: JobQuerySet, columns: Mapping[str, object]) -> tuple[str, Sequence[Any]]:
    """Return the UPDATE that sets columns of the jobs, and its parameters."""
    query = jobs.query.chain(UpdateQuery)
    query.add_update_values(columns)  # type: ignore[attr-defined]  # the stubs lose the class of the query
    update, parameters = query.get_compiler(connection=connection).as_sql()
    return update, parameters
