"""Statements that bypass the driver, on real connections that are changed or lost between two of them."""

import pytest
from django.db import DataError, connection, transaction

from wms.kernel.fast.statements import ask_directly

pytestmark = pytest.mark.django_db(transaction=True)

HALF = "SELECT ($1::int / $2::int)::text, NULL::text"


def half(number: str, *, by: str = "2") -> list[tuple[str | None, ...]]:
    return ask_directly("half", HALF, number, by)


def test_it_answers_texts_inside_and_outside_of_transactions() -> None:
    assert half("4") == half("5") == [("2", None)]
    with transaction.atomic():
        assert half("6") == [("3", None)]
    assert half("6") == [("3", None)]


def test_it_is_known_again_after_the_driver_has_forgotten_all_statements() -> None:
    half("4")
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    assert half("4") == [("2", None)]


def test_a_connection_that_was_lost_is_opened_anew() -> None:
    half("4")
    ((before,),) = ask_directly("process", "SELECT pg_backend_pid()::text")
    other = connection.copy()
    with other.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [before])
    other.close()
    assert half("4") == [("2", None)]
    assert ask_directly("process", "SELECT pg_backend_pid()::text") != [(before,)]


def test_what_is_wrong_is_an_error_of_the_database_and_leaves_the_connection_usable() -> None:
    for _ in range(2):
        with pytest.raises(DataError, match="division by zero"):
            half("4", by="0")
        assert half("4") == [("2", None)]
