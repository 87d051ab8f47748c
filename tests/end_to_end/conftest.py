"""Fixtures for every test against a live server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from tests.agent.running import processes_with
from tests.end_to_end.installed import install
from tests.pace import wait_for
from tests.programs import directory_of_agents

_AT_WORK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle'
      AND pid <> pg_backend_pid()
"""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return a directory that other users can enter and write to: a root agent runs payloads as other users."""
    with directory_of_agents() as directory:
        yield directory


@pytest.fixture(autouse=True)
def _database_at_rest(request: pytest.FixtureRequest) -> Iterator[None]:
    """Wait at the end for processes and statements of the test, with which emptying the tables would deadlock."""
    if "live_server" not in request.fixturenames:
        yield
        return
    request.getfixturevalue("transactional_db")
    directory = request.getfixturevalue("tmp_path")
    yield
    wait_for(lambda: processes_with(str(directory)) == [], 60)
    wait_for(lambda: not _at_work(), 60)


def _at_work() -> int:
    with connection.cursor() as cursor:
        cursor.execute(_AT_WORK)
        (count,) = cursor.fetchone()
    return int(count)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the programs of an environment with both wheels."""
    return install(tmp_path_factory.mktemp("packages"))
