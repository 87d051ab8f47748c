"""Links that a payload creates in a storage element that is a directory, where its pilot later reads and writes."""

import io
import os
from pathlib import Path

import pytest

from pilots.agent.data.placing import element_at
from pilots.agent.data.storage import Storage, StorageError

LFN = "/lhcb/user/m/mallory/1/data"
#: An account of payloads: only root may give its links to another one.
PAYLOAD = 65_533 if os.geteuid() == 0 else os.geteuid()
EVERY_PART = ("lhcb", "lhcb/user/m", "lhcb/user/m/mallory/1", "lhcb/user/m/mallory/1/data")


@pytest.fixture
def element(tmp_path: Path) -> Path:
    """Return the directory of a storage element, with a file of Mallory's."""
    file = tmp_path / "element" / LFN[1:]
    file.parent.mkdir(parents=True)
    file.write_text("Mallory's\n")
    return tmp_path / "element"


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a directory that only the pilot can read and write, with a file for each link to point to."""
    directory = tmp_path / "private"
    for part in EVERY_PART:
        below = directory / LFN[1:].removeprefix(part).lstrip("/")
        if below != directory:
            below.parent.mkdir(parents=True, exist_ok=True)
            below.write_text("the pilot's\n")
    return directory


def put_link(place: Path, to: Path, *, owner: int) -> None:
    place.rename(place.with_name("away"))
    place.symlink_to(to)
    if os.geteuid() == 0:
        os.lchown(place, owner, owner)


def fetch(element: Path, into: Path) -> str:
    url = f"{element.as_uri()}{LFN}"
    Storage().fetch(url, token="", into=into, max_bytes=None, give_up=lambda: False, lfn=LFN)
    return into.read_text()


def put(element: Path, content: bytes, *, replace: bool = True) -> bool:
    written, file, upload = element_at(Storage(), element.as_uri(), token=""), io.BytesIO(content), f"{LFN}.upload"
    written.put(file, upload, give_up=lambda: False)
    return written.place(file, upload, LFN, replace=replace, give_up=lambda: False)


def contents(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("part", EVERY_PART)
def test_links_made_by_a_payload_are_not_followed(part: str, element: Path, private: Path, tmp_path: Path) -> None:
    target = private if part != EVERY_PART[-1] else next(path for path in private.rglob("*") if path.is_file())
    put_link(element / part, target, owner=PAYLOAD)
    before = contents(private)
    with pytest.raises((StorageError, OSError), match="symbolic link"):
        fetch(element, tmp_path / "arrived")
    if part == EVERY_PART[-1]:
        assert not put(element, b"new", replace=False)
        assert (element / part).is_symlink()
        assert put(element, b"new")  # which takes the place of the link
        assert not (element / part).is_symlink()
    else:
        with pytest.raises(OSError, match="symbolic link"):
            put(element, b"new")
    assert contents(private) == before


def test_a_named_pipe_in_place_of_a_file_does_not_block(element: Path, tmp_path: Path) -> None:
    (element / LFN[1:]).unlink()
    os.mkfifo(element / LFN[1:])
    with pytest.raises(StorageError, match="no such file"):
        fetch(element, tmp_path / "arrived")


@pytest.mark.root
@pytest.mark.parametrize("part", EVERY_PART)
def test_links_owned_by_root_are_followed(part: str, element: Path, tmp_path: Path) -> None:
    place = element / part
    moved = tmp_path / "another disk"
    place.rename(moved)
    place.symlink_to(moved)
    assert fetch(element, tmp_path / "arrived") == "Mallory's\n"
    put(element, b"new\n")
    assert fetch(element, tmp_path / "arrived again") == "new\n"


def test_files_are_replaced_atomically_and_directories_created(element: Path, tmp_path: Path) -> None:
    put(element, b"new\n")
    assert fetch(element, tmp_path / "arrived") == "new\n"
    assert contents(element) == {LFN[1:]: "new\n"}
    (element / "deeper").mkdir()
    put(element / "deeper", b"there\n")
    assert (element / f"deeper{LFN}").read_text() == "there\n"
