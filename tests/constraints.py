"""Writes that break a constraint, and the name of the constraint that PostgreSQL reports."""

from collections.abc import Callable

import psycopg
import pytest
from django.db import IntegrityError, transaction
from django.db.models import Model


def broken_constraint(write: Callable[[], object]) -> str | None:
    """Return the name of the constraint for which the database refuses what *write* writes."""
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        write()
    cause = refusal.value.__cause__
    assert isinstance(cause, psycopg.IntegrityError)
    return cause.diag.constraint_name


def change(row: Model, **fields: object) -> None:
    """Write columns of a stored row, without the checks of forms and models."""
    assert type(row)._default_manager.filter(pk=row.pk).update(**fields) == 1


def insert_again(row: Model) -> None:
    """Insert a copy of a stored row under a primary key of its own."""
    row.pk = row._meta.pk.get_default()
    row.save(force_insert=True)
