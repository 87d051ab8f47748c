"""Another client of the database of the tests."""

from collections.abc import Iterator

import psycopg
import pytest
from django.db import connection


@pytest.fixture
def other() -> Iterator[psycopg.Connection]:
    """Return another client's connection to the database of the tests."""
    parameters = {**connection.get_connection_params(), "application_name": "wms-other"}
    names = ("dbname", "host", "port", "user", "password", "application_name")
    with psycopg.connect(**{name: parameters[name] for name in names if name in parameters}) as opened:
        yield opened
