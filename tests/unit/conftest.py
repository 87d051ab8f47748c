"""Fixtures for every test without a database."""

from collections.abc import Iterator

import pytest
from django.core.signals import request_finished
from django.db import close_old_connections


@pytest.fixture(autouse=True)
def _connections_of_others_stay() -> Iterator[None]:
    """Let an answer that is closed end no request: Django would then close connections of tests that had a database."""
    request_finished.disconnect(close_old_connections)
    yield
    request_finished.connect(close_old_connections)
