"""Archives from outside are unpacked safely."""

import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pilots.agent.job import sandbox
from pilots.agent.job.sandbox import UnsafeMemberError
from wms.wire.archives import ArchiveError

MAX_BYTES = 10_000


def _member(name: str, content: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for attribute, value in more.items():
        setattr(info, attribute, value)
    return info, content


def _archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> io.BytesIO:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    packed.seek(0)
    return packed


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "a" / "job"
    directory.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return directory


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_files_directories_and_inner_links_are_unpacked(into: Path, mode: str) -> None:
    archive = _archive(
        _member("bin", type=tarfile.DIRTYPE, mode=0o755),
        _member("bin/run", b"#!/bin/sh\n", mode=0o755),
        _member("./deep/er/data", b"12345", mode=0o444),
        _member("bin/data", type=tarfile.SYMTYPE, linkname="../deep/er/data"),
        _member("same", type=tarfile.LNKTYPE, linkname="deep/er/data"),
        _member("bin/run", b"#!/bin/sh\n# newer\n", mode=0o755),
        mode=mode,
    )

    written = sandbox.unpack(archive, into=into, max_bytes=MAX_BYTES)

    assert written == 10 + 5 + 18
    assert (into / "bin/run").read_text() == "#!/bin/sh\n# newer\n"
    assert os.access(into / "bin/run", os.X_OK)
    assert (into / "bin/data").read_text() == "12345"
    assert (into / "same").read_text() == "12345"


@pytest.mark.parametrize(
    "members",
    [
        [_member("/etc/wms-evil", b"x")],
        [_member("../evil", b"x")],
        [_member("a/../../evil", b"x")],
        [_member("..", type=tarfile.DIRTYPE)],
        [_member("link", type=tarfile.SYMTYPE, linkname="/etc")],
        [_member("link", type=tarfile.SYMTYPE, linkname="../outside")],
        [_member("link", type=tarfile.SYMTYPE, linkname="")],
        [_member("d/x", b""), _member("link", type=tarfile.SYMTYPE, linkname="d/../../../outside")],
        [_member("d/x", b""), _member("link", type=tarfile.SYMTYPE, linkname="d"), _member("link/y", b"x")],
        [_member("link", type=tarfile.SYMTYPE, linkname="."), _member("link", b"x")],
        [_member("link", type=tarfile.SYMTYPE, linkname="."), _member("link", type=tarfile.DIRTYPE)],
        [_member("d/x", b""), _member("d", b"a directory is in the way")],
        [_member("x", b""), _member("x/y", b"a file is in the way")],
        [_member("hard", type=tarfile.LNKTYPE, linkname="../../outside/secret")],
        [_member("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
        [_member("hard", type=tarfile.LNKTYPE, linkname="not/there")],
        [
            _member("link", type=tarfile.SYMTYPE, linkname="nowhere"),
            _member("hard", type=tarfile.LNKTYPE, linkname="link"),
        ],
        [_member("pipe", type=tarfile.FIFOTYPE)],
        [_member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
        [_member("device", type=tarfile.BLKTYPE, devmajor=8, devminor=0)],
        [_member("big", b"x" * (MAX_BYTES + 1))],
        [_member("half", b"x" * 6000), _member("other-half", b"x" * 6000)],
        [_member(".", b"x")],
        [_member("d/" * 1500 + "x", b"deeper than what reads it can go")],
    ],
)
def test_archive_members_outside_the_directory_are_refused(
    into: Path, tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(UnsafeMemberError):
        sandbox.unpack(_archive(*members), into=into, max_bytes=MAX_BYTES)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "outside"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["job"]
    assert (tmp_path / "outside" / "secret").read_text() == "secret"


def test_links_of_an_earlier_archive_are_not_followed(into: Path) -> None:
    sandbox.unpack(_archive(_member("d", type=tarfile.SYMTYPE, linkname="e")), into=into, max_bytes=MAX_BYTES)

    with pytest.raises(UnsafeMemberError):
        sandbox.unpack(_archive(_member("d/x", b"x")), into=into, max_bytes=MAX_BYTES)


def test_archives_with_too_many_members_are_refused(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_MEMBERS", 10)
    members = [_member(f"f{number}") for number in range(11)]

    with pytest.raises(UnsafeMemberError, match="members"):
        sandbox.unpack(_archive(*members), into=into, max_bytes=MAX_BYTES)


def test_special_bits_are_not_unpacked(into: Path) -> None:
    sandbox.unpack(_archive(_member("su", b"x", mode=0o6777)), into=into, max_bytes=MAX_BYTES)

    assert stat.S_IMODE((into / "su").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    "damage", [lambda c: c[: len(c) // 2], lambda c: c[:100] + b"garbage" + c[107:], lambda c: b""]
)
def test_a_damaged_archive_is_an_error_that_is_caught(into: Path, damage: Callable[[bytes], bytes]) -> None:
    packed = _archive(_member("data", os.urandom(5000)), mode="w:gz").getvalue()

    with pytest.raises((OSError, ArchiveError)):
        sandbox.unpack(io.BytesIO(damage(packed)), into=into, max_bytes=MAX_BYTES)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc/passwd", "nul\0"])
def test_a_single_file_needs_a_plain_name(into: Path, tmp_path: Path, name: str) -> None:
    arrived = tmp_path / "arrived"
    arrived.write_text("x")

    with pytest.raises(UnsafeMemberError):
        sandbox.place(arrived, into=into, name=name)

    assert list(into.iterdir()) == []
