"""Statements that bypass the driver, on real connections that are changed or lost between two of them."""

import pytest
from django.db import DataError, connection, transaction

from wms.kernel.fast.statements import query_directly

pytestmark = pytest.mark.django_db(transaction=True)

HALF = "SELECT ($1::int / $2::int)::text, NULL::text"


def half(number: str, *, by: str = "2") -> list[tuple[str | None, ...]]:
    return query_directly("half", HALF, number, by)


def test_direct_statements_return_texts_inside_and_outside_transactions() -> None:
    assert half("4") == half("5") == [("2", None)]
    with transaction.atomic():
        assert half("6") == [("3", None)]
    assert half("6") == [("3", None)]


def test_a_direct_statement_is_prepared_again_after_deallocate() -> None:
    half("4")
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    assert half("4") == [("2", None)]


def test_a_connection_that_was_lost_is_opened_anew() -> None:
    half("4")
    ((before,),) = query_directly("process", "SELECT pg_backend_pid()::text")
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [before])
    other.close()
    assert half("4") == [("2", None)]
    assert query_directly("process", "SELECT pg_backend_pid()::text") != [(before,)]


def test_a_failed_direct_statement_leaves_the_connection_usable() -> None:
    for _ in range(2):
        with pytest.raises(DataError, match="division by zero"):
            half("4", by="0")
        assert half("4") == [("2", None)]
