"""The rule of whose paths are read: those of this account and root, writable by nobody else at each level."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from wms.kernel.trusted_paths import UntrustedPathError, require_trusted

#: Two accounts without a name, and a group that has no members.
ALICE, MALLORY, GROUP = 54_321, 54_322, 54_323


@pytest.fixture
def file() -> Iterator[Path]:
    """Return a file in two directories that every account may enter."""
    directory = Path(tempfile.mkdtemp(prefix="trusted-"))
    directory.chmod(0o755)
    (directory / "data").mkdir()
    (directory / "data").chmod(0o755)
    (file := directory / "data" / "file").touch(mode=0o644)
    yield file
    shutil.rmtree(directory)


@contextmanager
def account(number: int) -> Iterator[None]:
    os.seteuid(number)
    try:
        yield
    finally:
        os.seteuid(0)


def refused(path: Path) -> str:
    with pytest.raises(UntrustedPathError) as error:
        require_trusted(path)
    return str(error.value)


def test_a_path_of_this_account_is_read_also_if_nothing_is_there(file: Path) -> None:
    for path in (file, file.parent, file / "below a file", file.parent / "missing" / "file", Path("/")):
        require_trusted(path)
    reading, writing = os.pipe()
    require_trusted(Path(f"/dev/fd/{reading}"))
    for descriptor in (reading, writing):
        os.close(descriptor)


def test_a_directory_that_others_write_to_is_refused_at_any_level(file: Path) -> None:
    file.parent.chmod(0o777)
    assert refused(file).startswith(f"{file} is not used: {file.parent} can be written by every account.")


def test_a_file_that_others_write_to_is_refused_and_a_socket_is_not(file: Path) -> None:
    file.chmod(0o666)
    assert refused(file).startswith(f"{file} is not used: it can be written by every account.")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(file.with_name("socket")))
        file.with_name("socket").chmod(0o777)  # who may connect
        require_trusted(file.with_name("socket"))


def test_links_are_followed_level_by_level(file: Path) -> None:
    opened = file.with_name("opened")
    opened.mkdir()
    (opened / "file").touch()
    (link := file.with_name("link")).symlink_to("opened")
    (again := file.with_name("again")).symlink_to(link)
    require_trusted(again / ".." / "link" / "file")
    opened.chmod(0o777)
    assert f"{opened} can be written by every account" in refused(again / "file")
    (loop := file.with_name("loop")).symlink_to(loop)
    require_trusted(loop / "file")  # there is nothing to read


@pytest.mark.root
def test_what_belongs_to_another_account_is_refused_at_each_level(file: Path) -> None:
    for level in (file, file.parent):
        os.chown(level, MALLORY, MALLORY)
        sentence = refused(file)
        assert f"belongs to {MALLORY}. Run this command as {MALLORY}, give the path to root" in sentence
        os.chown(level, 0, 0)
    (link := file.with_name("link")).symlink_to(file)
    os.chown(link, MALLORY, MALLORY, follow_symlinks=False)
    assert f"belongs to {MALLORY}" in refused(link)


@pytest.mark.root
def test_an_account_reads_its_own_and_what_belongs_to_root(file: Path) -> None:
    for owner in (0, ALICE):
        os.chown(file, owner, owner)
        with account(ALICE):
            require_trusted(file)
    with account(MALLORY):
        assert f"belongs to {ALICE}. Name a path of your own, or one that belongs to {MALLORY} or root" in refused(file)


@pytest.mark.root
def test_a_group_whose_only_member_is_the_owner_may_write(file: Path) -> None:
    """As on systems where each account has a group of its own, and files are made for it to write."""
    file.parent.chmod(0o775)
    require_trusted(file)  # the group of root
    os.chown(file.parent, 0, GROUP)
    assert f"the group {GROUP}" in refused(file)
    file.parent.chmod(0o755)
    require_trusted(file)


@pytest.mark.root
def test_a_sticky_directory_is_safe_if_it_is_of_root(file: Path) -> None:
    file.parent.chmod(0o1777)
    require_trusted(file)
    os.chown(file.parent, ALICE, ALICE)
    os.chown(file, ALICE, ALICE)
    with account(ALICE):
        assert f"{file.parent} can be written by every account." in refused(file)
