"""The data directory of one system."""

import os
import stat
from pathlib import Path

import pytest

from pilots.backends import host
from wms.kernel.trusted_paths import UntrustedPathError
from wms.stack.directory import (
    DataDirectoryInUseError,
    DataDirectoryUnusableError,
    claimed,
    environment_of_running,
    found_directory,
    hint_for_commands,
)
from wms.wire.private_directories import make_private


def test_two_systems_never_share_a_directory(tmp_path: Path) -> None:
    with claimed(tmp_path / "data"), pytest.raises(DataDirectoryInUseError, match="is in use by process"):
        claimed(tmp_path / "data").__enter__()


def test_a_directory_is_free_again_after_its_system(tmp_path: Path) -> None:
    with claimed(tmp_path):
        pass

    with claimed(tmp_path) as directory:
        assert directory.path == tmp_path


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DataDirectoryUnusableError, match=r"cannot be used \(Not a directory\)"):
        claimed(tmp_path / "file" / "data").__enter__()


def test_the_token_of_metrics_is_another_secret_that_is_made_once(tmp_path: Path) -> None:
    with claimed(tmp_path) as directory:
        token = directory.metrics_token()
        assert token == directory.metrics_token() != directory.secret_key()
    assert len(token) >= 50
    assert stat.S_IMODE((tmp_path / "metrics_token").stat().st_mode) == 0o600


def test_files_of_an_earlier_system_are_removed_where_they_must_not_be_added_to(tmp_path: Path) -> None:
    with claimed(tmp_path) as directory:
        (directory.emptied("counters") / "counter_1.db").touch()
        counters = directory.emptied("counters")
        assert list(counters.iterdir()) == []
        assert stat.S_IMODE(counters.stat().st_mode) == 0o700


def test_the_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    with claimed(tmp_path) as directory:
        first = directory.secret_key()
    with claimed(tmp_path) as directory:
        second = directory.secret_key()

    assert first == second
    assert len(first) >= 50
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_sockets_are_inside_and_private(tmp_path: Path) -> None:
    with claimed(tmp_path) as directory:
        sockets = directory.sockets()

    assert sockets == tmp_path / "run"
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["a" * 100, "with blank", "100%"])
def test_sockets_have_a_short_and_plain_path_whatever_the_directory_is_called(tmp_path: Path, name: str) -> None:
    with claimed(tmp_path / name) as directory:
        sockets = directory.sockets()
    try:
        assert sockets.parent == Path("/tmp")
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    finally:
        sockets.rmdir()


def test_other_commands_find_the_running_servers(tmp_path: Path) -> None:
    variables = {"WMS_SECRET_KEY": "a 'quoted' = $value", "WMS_EMBEDDED": "1"}

    with claimed(tmp_path) as directory:
        directory.write_environment(variables)

    assert environment_of_running(tmp_path) == variables
    assert stat.S_IMODE((tmp_path / "environment").stat().st_mode) == 0o600


def test_stopped_servers_are_not_found(tmp_path: Path) -> None:
    assert environment_of_running(tmp_path) == {}


def test_a_system_is_found_where_it_is_named_or_in_the_clone_never_in_the_current_directory() -> None:
    clone = Path("/home/alice/wms")
    assert found_directory({}, clone=None) is None
    assert found_directory({"WMS_DATA_DIR": ""}, clone=None) is None
    assert found_directory({}, clone=clone) == clone / "var"
    assert found_directory({"WMS_DATA_DIR": "/srv/wms"}, clone=clone) == Path("/srv/wms")
    assert environment_of_running(None) == {}


@pytest.mark.parametrize("name", ["data", "data/environment", "sockets"])
def test_servers_are_not_found_where_others_could_write(name: str, tmp_path: Path) -> None:
    """As after a crash and a start of the machine, when anybody may make the directory of the sockets in /tmp."""
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    variables = {
        "WMS_DATABASE_URL": f"postgresql://postgres@/wms?host={sockets}&port=5432",
        "WMS_REDIS_URL": f"redis+socket://{sockets}/valkey.sock",
    }
    with claimed(tmp_path / "data") as directory:
        directory.write_environment(variables)
    assert environment_of_running(tmp_path / "data") == variables
    (tmp_path / name).chmod(0o777)
    with pytest.raises(UntrustedPathError, match="can be written by every account"):
        environment_of_running(tmp_path / "data")


@pytest.mark.parametrize("name", ["", "secret_key", "beat", "beat/schedule.db", "run/valkey.sock"])
def test_no_system_starts_in_a_directory_where_others_could_write(name: str, tmp_path: Path) -> None:
    with claimed(tmp_path / "data") as directory:
        directory.secret_key()
        for part in ("beat/schedule.db", "run/valkey.sock"):
            (directory.part(Path(part).parent.name) / Path(part).name).touch()
    (tmp_path / "data" / name).chmod(0o777)
    with pytest.raises(DataDirectoryUnusableError, match=r"can be written by every account.* --data-dir"):
        claimed(tmp_path / "data").__enter__()


def test_a_custom_data_directory_is_named_for_other_commands(tmp_path: Path) -> None:
    default = tmp_path / "var"
    assert hint_for_commands(default, default=default) == ""
    hint = hint_for_commands(tmp_path / "my demo", default=default)
    assert hint_for_commands(default, default=None) == f"For commands in other terminals: export WMS_DATA_DIR={default}"
    assert hint == f"For commands in other terminals: export WMS_DATA_DIR='{tmp_path}/my demo'"


def test_each_directory_that_is_made_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with claimed(tmp_path / "new" / "data"):
            make_private(tmp_path / "new" / "data" / "pilots" / "local")
            host.write(str(tmp_path / "home" / "pilots"), {"one/two/file": ""})
    finally:
        os.umask(before)
    made = list(tmp_path.rglob("*"))
    assert len(made) > 9
    assert [path for path in made if stat.S_IMODE(path.stat().st_mode) & 0o077] == []
