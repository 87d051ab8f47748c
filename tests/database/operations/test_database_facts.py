"""Facts about the database and the volumes, each compared with what the test has done there."""

from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from django.db import connection

from wms.operations import database, disks

pytestmark = pytest.mark.django_db


def test_connections_are_counted_by_the_name_of_their_program(other: psycopg.Connection) -> None:
    counts = database.connections()

    assert counts["wms-other"] == 1
    assert sum(counts.values()) >= 2  # this one, too
    assert sum(counts.values()) <= database.most_connections()


def test_the_longest_transaction_is_anothers_that_is_open(other: psycopg.Connection) -> None:
    other.execute("SELECT 1")
    longest = database.longest_transaction()

    assert longest is not None
    assert (longest.application_name, longest.pid) == ("wms-other", other.info.backend_pid)
    assert longest.seconds >= 0
    other.rollback()
    with connection.cursor() as cursor:  # what it shows stays the same until the end of a transaction
        cursor.execute("SELECT pg_stat_clear_snapshot()")
    assert database.longest_transaction() is None


def test_the_database_has_a_size_and_dead_rows(other: psycopg.Connection) -> None:
    assert database.database_size_bytes() > 1_000_000
    other.execute("CREATE TABLE churned AS SELECT generate_series(1, 100) AS number")
    other.execute("UPDATE churned SET number = number + 1")
    other.commit()
    try:
        other.execute("SELECT pg_stat_force_next_flush()")
        other.commit()
        assert database.dead_rows()["churned"] == 100
    finally:
        other.execute("DROP TABLE churned")
        other.commit()


def test_each_volume_is_named_once_also_for_a_directory_to_come(tmp_path: Path) -> None:
    (disk,) = disks.disks([tmp_path, tmp_path / "sandboxes" / "to come"])

    assert disk.path == str(tmp_path)
    assert 0 < disk.free_bytes < disk.total_bytes


def test_the_volumes_are_those_of_data_and_sandboxes(settings: SimpleNamespace, tmp_path: Path) -> None:
    settings.WMS_DATA_DIR = tmp_path
    assert str(tmp_path) in {disk.path for disk in disks.disks()}
