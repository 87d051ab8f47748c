"""Output is written to storage elements so that nothing is replaced by mistake (ADR 72), on each kind of element."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NoReturn, cast

import pytest

from pilots.agent.data.placing import WritableElement, element_at, placed
from pilots.agent.data.storage import Storage, StorageError
from pilots.agent.server.http import GivenUpError, UnreachableError
from pilots.agent.server.job_data import Content, GrantedName
from tests.storage import StorageServer

LFN, UPLOAD = "/lhcb/user/a/r 1.txt", "/lhcb/user/a/.wms-0123-ab"
OURS, OTHERS = b"ours\n", b"another file\n"


def content_of(data: bytes) -> Content:
    return Content(len(data), f"sha256:{hashlib.sha256(data).hexdigest()}")


@contextmanager
def holding(data: bytes) -> Iterator[BinaryIO]:
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield cast("BinaryIO", file)


def name(**allowed: Any) -> GrantedName:
    usual: dict[str, Any] = {"reason": "", "replaces": False, "earlier": (), "leftovers": ()}
    return GrantedName(lfn=LFN, stored_as=LFN, upload=UPLOAD, **{**usual, **allowed})


class Place:
    """A storage element of some kind, with a view of its files from outside."""

    def __init__(self, element: WritableElement, files: Callable[[], Mapping[str, bytes]], write: Any) -> None:
        self.element, self.files, self.write = element, files, write

    def store(self, data: bytes = OURS, *, again: bool = False, **allowed: Any) -> bool:
        with holding(data) as file:
            self.element.put(file, UPLOAD, give_up=lambda: False)
            return placed(self.element, file, name(**allowed), content_of(data), again=again, give_up=lambda: False)


def in_directory(directory: Path) -> Place:
    directory.mkdir()

    def write(lfn: str, data: bytes) -> None:
        (directory / lfn[1:]).parent.mkdir(parents=True, exist_ok=True)
        (directory / lfn[1:]).write_bytes(data)

    def files() -> Mapping[str, bytes]:
        found = (path for path in directory.rglob("*") if path.is_file())
        return {f"/{path.relative_to(directory)}": path.read_bytes() for path in found}

    return Place(element_at(Storage(), directory.as_uri(), token=""), files, write)


def at_server(server: StorageServer) -> Place:
    def files() -> Mapping[str, bytes]:
        return {path.removeprefix("/data").replace("%20", " "): data for path, data in server.files.items()}

    def write(lfn: str, data: bytes) -> None:
        server.files["/data" + lfn.replace(" ", "%20")] = data

    storage = Storage(ca=server.certificate)
    return Place(element_at(storage, f"{server.url}/data/", token="hush"), files, write)


KINDS = ("directory", "directory without links", "WebDAV", "WebDAV that replaces", "conditions")


@pytest.fixture
def element(tmp_path: Path) -> Place:
    return in_directory(tmp_path / "element")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[StorageServer]:
    with StorageServer(tmp_path, token="hush") as server:
        yield server


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest, server: StorageServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    """Return a storage element of each kind; "WebDAV that replaces" ignores ``Overwrite: F``."""
    if request.param == "directory without links":
        monkeypatch.setattr(os, "link", no_links)
    if request.param.startswith("directory"):
        return in_directory(tmp_path / "element")
    server.moves = request.param != "conditions"
    server.honours = request.param != "WebDAV that replaces"
    return at_server(server)


def no_links(*_: object, code: int = errno.EPERM, **__: object) -> NoReturn:
    raise OSError(code, errno.errorcode[code])


def test_a_new_file_is_stored_and_its_upload_is_gone(place: Place) -> None:
    assert place.store()
    assert place.files() == {LFN: OURS}


def test_another_file_is_not_replaced(place: Place) -> None:
    place.write(LFN, OTHERS)
    assert not place.store()
    assert place.files()[LFN] == OTHERS
    place.element.remove(UPLOAD)
    assert place.files() == {LFN: OTHERS}


def test_another_file_of_equal_size_is_not_replaced(place: Place) -> None:
    place.write(LFN, OURS.upper())
    assert not place.store()
    assert place.files()[LFN] == OURS.upper()


@pytest.mark.parametrize("left", [OTHERS, OURS])
def test_what_an_earlier_attempt_has_left_is_replaced(place: Place, left: bytes) -> None:
    place.write(LFN, left)
    assert place.store(earlier=(content_of(left),))
    assert place.files() == {LFN: OURS}


def test_a_file_that_may_be_replaced_is(place: Place) -> None:
    place.write(LFN, OTHERS)
    assert place.store(replaces=True)
    assert place.files() == {LFN: OURS}
    assert place.store(b"once more\n", replaces=True)
    assert place.files() == {LFN: b"once more\n"}


def test_storing_it_again_after_a_lost_answer_is_harmless(place: Place) -> None:
    assert place.store()
    assert place.store(again=True)
    assert place.files() == {LFN: OURS}


def test_an_equal_file_of_somebody_else_is_not_taken_for_ones_own(place: Place) -> None:
    place.write(LFN, OURS)
    assert not place.store()


def test_further_files_are_stored_the_same_way(place: Place) -> None:
    assert place.store()
    assert not place.store(OTHERS)
    place.element.remove(UPLOAD)
    assert place.files() == {LFN: OURS}


def test_a_useless_file_is_not_placed(place: Place) -> None:
    with holding(OURS) as file:
        place.element.put(file, UPLOAD, give_up=lambda: False)
        with pytest.raises(GivenUpError):
            placed(place.element, file, name(), content_of(OURS), again=False, give_up=lambda: True)
    assert LFN not in place.files()


def test_the_answer_to_a_move_is_lost(server: StorageServer) -> None:
    place = at_server(server)
    server.losing = ["MOVE"]
    with pytest.raises(UnreachableError):
        place.store()
    with holding(OURS) as file:
        assert placed(place.element, file, name(), content_of(OURS), again=True, give_up=lambda: False)
    assert place.files() == {LFN: OURS}


def test_an_answer_that_does_not_say_that_the_file_was_moved_is_refused(server: StorageServer) -> None:
    place = at_server(server)
    server.answers = [201, 404, 207]  # to PUT, HEAD and MOVE
    with pytest.raises(StorageError, match="answered 207 to a move"):
        place.store()


def test_a_move_that_is_carried_out_after_it_was_given_up_is_noticed(server: StorageServer) -> None:
    place = at_server(server)
    assert place.store()
    server.answers = [404]  # the file had not its name yet when it was asked for again
    with holding(OURS) as file:
        assert placed(place.element, file, name(), content_of(OURS), again=True, give_up=lambda: False)
    assert place.files() == {LFN: OURS}


@pytest.mark.parametrize("replaces", [False, True])
def test_a_replacement_that_is_carried_out_after_it_was_given_up_is_noticed(
    server: StorageServer, replaces: bool
) -> None:
    place = at_server(server)
    place.write(LFN, OTHERS)
    allowed: dict[str, Any] = {"replaces": True} if replaces else {"earlier": (content_of(OTHERS),)}
    assert place.store(**allowed)
    with holding(OURS) as file:
        assert placed(place.element, file, name(**allowed), content_of(OURS), again=True, give_up=lambda: False)
    assert place.files() == {LFN: OURS}


def test_an_upload_that_is_gone_without_a_trace_is_not_taken_for_success(server: StorageServer) -> None:
    place = at_server(server)
    with holding(OURS) as file, pytest.raises(StorageError, match="said that it stored the file, and does not have it"):
        placed(place.element, file, name(), content_of(OURS), again=True, give_up=lambda: False)


@pytest.mark.parametrize("replaces", [False, True])
def test_a_file_that_the_server_has_cut_off_is_not_stored_and_replaces_nothing(
    server: StorageServer, replaces: bool
) -> None:
    server.cuts_off = True
    place = at_server(server)
    if replaces:
        place.write(LFN, OTHERS)
    with pytest.raises(StorageError, match="said that it stored 5 bytes, and has "):
        place.store(replaces=replaces)
    assert not replaces or place.files()[LFN] == OTHERS


@pytest.mark.parametrize("status", [408, 423, 425, 429, 503])
def test_a_busy_server_is_tried_again(server: StorageServer, status: int) -> None:
    server.answers = [status]
    with pytest.raises(UnreachableError):
        at_server(server).store()


@pytest.mark.parametrize("status", [400, 501])
def test_a_server_that_refuses_conditions_is_named_as_such(server: StorageServer, status: int) -> None:
    server.moves = False
    server.answers = []
    place = at_server(server)
    with holding(OURS) as file:
        place.element.put(file, UPLOAD, give_up=lambda: False)
        server.answers = [404, 405, status]  # to HEAD, MOVE and PUT with a condition
        with pytest.raises(StorageError, match="neither move a file"):
            placed(place.element, file, name(), content_of(OURS), again=False, give_up=lambda: False)


def test_a_server_that_knows_itself_by_another_name_moves_by_path(server: StorageServer) -> None:
    server.foreign = server.url
    place = at_server(server)
    assert place.store()
    assert place.files() == {LFN: OURS}


@pytest.mark.parametrize("status", [501, 507])
def test_a_server_without_space_is_not_tried_again(server: StorageServer, status: int) -> None:
    server.answers = [status]
    with pytest.raises(StorageError, match=f"answered {status} "):
        at_server(server).store()


def test_a_server_that_does_not_say_how_large_a_file_is_is_read(server: StorageServer) -> None:
    server.tells_sizes = False
    place = at_server(server)
    assert place.store()
    assert not place.store(OTHERS)
    assert place.store(OTHERS, earlier=(content_of(OURS),))
    assert place.files() == {LFN: OTHERS}


def test_a_server_that_only_says_that_it_has_stored_the_file_is_refused(server: StorageServer) -> None:
    server.answers = [200, 404, 201, 404]  # to PUT, HEAD, MOVE and HEAD
    with pytest.raises(StorageError, match="said that it stored 5 bytes, and has no such file"):
        at_server(server).store()


def test_a_replacement_that_fails_leaves_the_earlier_file_where_there_is_no_move(server: StorageServer) -> None:
    server.moves = False
    place = at_server(server)
    place.write(LFN, OTHERS)
    server.refused = {"/data" + LFN.replace(" ", "%20")}
    with pytest.raises(StorageError, match="403"):
        place.store(replaces=True)
    assert place.files() == {LFN: OTHERS}


@pytest.mark.parametrize("chunks", [0, 1])
def test_a_long_comparison_ends_when_the_file_has_become_useless(place: Place, chunks: int) -> None:
    place.write(LFN, OURS.upper())
    asked = iter([False] * chunks)
    with holding(OURS) as file:
        place.element.put(file, UPLOAD, give_up=lambda: False)
        with pytest.raises(GivenUpError):
            placed(
                place.element, file, name(earlier=(content_of(OURS.upper()),)), content_of(OURS), again=False,
                give_up=lambda: next(asked, True),
            )  # fmt: skip
    assert place.files()[LFN] == OURS.upper()


def test_an_element_that_neither_moves_nor_obeys_conditions_is_refused(server: StorageServer) -> None:
    server.moves = server.honours = False
    place = at_server(server)
    with pytest.raises(StorageError, match="neither move a file without replacing another nor store only a new one"):
        place.store()
    assert LFN not in place.files()


def test_a_link_in_place_of_the_file_is_another_file(tmp_path: Path, element: Place) -> None:
    element.write("/secret", OTHERS)
    element.write(LFN, b"")
    (tmp_path / "element" / LFN[1:]).unlink()
    (tmp_path / "element" / LFN[1:]).symlink_to(tmp_path / "element/secret")
    assert not element.store()
    assert element.files()["/secret"] == OTHERS


def test_a_repeated_link_of_nfs_is_no_other_file(tmp_path: Path, element: Place) -> None:
    with holding(OURS) as file:
        element.element.put(file, UPLOAD, give_up=lambda: False)
        (tmp_path / "element" / LFN[1:]).hardlink_to(tmp_path / "element" / UPLOAD[1:])
        assert element.element.place(file, UPLOAD, LFN, replace=False, give_up=lambda: False)
    assert element.files() == {LFN: OURS}


def test_a_file_that_cannot_be_read_is_another_file(tmp_path: Path, element: Place) -> None:
    element.write(LFN, OTHERS)
    (tmp_path / "element" / LFN[1:]).chmod(0)
    assert not element.store()


def test_a_directory_that_fails_to_link_is_not_taken_for_one_without_links(
    element: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", partial(no_links, code=errno.EIO))
    with pytest.raises(OSError, match="EIO"):
        element.store()
    assert LFN not in element.files()


def test_a_directory_that_is_not_mounted_is_not_made(tmp_path: Path) -> None:
    element = element_at(Storage(), (tmp_path / "mount").as_uri(), token="")
    with holding(OURS) as file, pytest.raises(StorageError, match="is it mounted"):
        element.put(file, UPLOAD, give_up=lambda: False)
    assert not (tmp_path / "mount").exists()
