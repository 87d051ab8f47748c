"""Output is packed as far as it fits; only what is inside the job's directory is, and whatever is left out is named."""

import os
import socket
import tarfile
from pathlib import Path

import pytest

from pilots.agent.job import output_files, packing, sandbox
from pilots.agent.job.packing import ArchiveLimits, Packed
from wms.jobs.services.archives import check_output_archive
from wms.wire import archives

LIMITS = ArchiveLimits(packed_bytes=1_000_000, unpacked_bytes=1_000_000)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    directory = tmp_path / "a" / "job"
    directory.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    return directory


def _pack(directory: Path, *patterns: str, limits: ArchiveLimits = LIMITS, streams: tuple[str, ...] = ()) -> Packed:
    """Pack what matches, and assert that the server accepts the archive."""
    archive = directory.parent / "out.tar.gz"
    chosen = output_files.chosen(directory, [*patterns, *streams])
    packed = packing.pack(directory, chosen, into=archive, limits=limits, streams=streams)
    assert archive.stat().st_size <= limits.packed_bytes
    with archive.open("rb") as content:
        check_output_archive(content, max_unpacked_bytes=limits.unpacked_bytes)
    assert packed.members == len(_members(directory))
    return packed


def _members(directory: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(directory.parent / "out.tar.gz") as archive:
        return {member.name: member for member in archive}


def _reasons(packed: Packed) -> dict[str, str]:
    return {each.name: each.reason for each in packed.left_out}


def test_packed_files_have_safe_names_inside_the_directory(into: Path) -> None:
    (into / "plain").write_text("1")
    (into / "inner").symlink_to("plain")
    (into / "outer").symlink_to("../../outside/secret")
    (into / "up").symlink_to("../../outside")
    (into / "loop").symlink_to("loop")
    (into / "su").write_text("2")
    (into / "su").chmod(0o6755)
    Path(os.fsdecode(bytes(into) + b"/\xff")).write_text("3")

    packed = _pack(into, "*", "up/secret", "up/sec*", "../../outside/*", "/etc/passwd")

    members = _members(into)
    assert sorted(members) == ["\\xff", "inner", "plain", "su"]
    assert all(member.isreg() and not member.mode & 0o7022 for member in members.values())
    assert {(member.uname, member.gname, member.uid) for member in members.values()} == {("", "", 0)}
    out = "a link out of the job's directory"
    assert _reasons(packed) == {
        "loop": "a link to itself", "outer": out, "up": out, "up/secret": f"behind {out}",
    }  # fmt: skip


def test_files_with_unsupported_names_are_renamed_and_packed(into: Path) -> None:
    deep = into.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "x").write_text("deep")
    (deep / "y").write_text("deep too")
    for last in (b"1", b"2"):
        Path(os.fsdecode(bytes(into) + b"/" + b"\xff" * 200 + last)).write_text("long when it is written out")
    (into / "a\x01").write_text("one")
    (into / "a\\x01").write_text("two")

    assert _pack(into, "*").members == 6

    assert {name.rpartition("/")[2] for name in _members(into)} >= {r"d\x2f" * 9 + "x", r"d\x2f" * 9 + "y", r"a\x01"}


@pytest.mark.parametrize("place", ["literal", "pattern", "in a directory"])
def test_what_cannot_be_stored_is_named_with_its_kind(into: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    top = into / "results" if place == "in a directory" else into
    top.mkdir(exist_ok=True)
    (top / "nothing").symlink_to("absent")
    os.mkfifo(top / "pipe")
    (top / "to-pipe").symlink_to("pipe")
    monkeypatch.chdir(top)  # the path of a socket may have a hundred bytes
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    (top / "device").symlink_to("/dev/null")
    (top / "itself").symlink_to("itself")
    (top / "above").symlink_to(".")
    kinds = {
        "nothing": "a link to nothing", "pipe": "a pipe", "to-pipe": "a link to a pipe", "socket": "a socket",
        "device": "a link out of the job's directory", "itself": "a link to itself",
        "above": "a link to a directory that it is in",
    }  # fmt: skip
    patterns = {"literal": list(kinds), "pattern": ["*"], "in a directory": ["results"]}[place]
    assert packing.absent(into, patterns) == []

    packed = _pack(into, *patterns)

    assert packed.members == 0
    assert {name.rpartition("/")[2]: reason for name, reason in _reasons(packed).items()} == kinds


@pytest.mark.parametrize("patterns", [["empty", "link", "hollow"], ["*"], ["**"]])
def test_directories_are_stored_if_empty_or_behind_a_link_inside(into: Path, patterns: list[str]) -> None:
    (into / "empty").mkdir()
    (into / "hollow").symlink_to("empty")
    (into / "runs" / "5").mkdir(parents=True)
    (into / "runs" / "5" / "a").write_text("a")
    (into / "runs" / "5" / "up").symlink_to("../../runs")
    (into / "link").symlink_to("runs/5")
    assert packing.absent(into, patterns) == []

    packed = _pack(into, *patterns)

    members = _members(into)
    assert members["empty"].isdir()
    assert members["hollow"].isdir()
    assert members["link/a"].isreg()
    assert ("runs/5/a" in members) == ("link" not in patterns)
    # A circle ends where it begins again.
    assert set(_reasons(packed).values()) == {"a link to a directory that it is in"}
    assert len(members) <= 6


def test_a_file_that_becomes_unreadable_is_named_and_costs_no_other(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (into / name).write_text(name * 1000)
    opened = sandbox.open_inside

    def shortened(path: Path, directory: Path) -> object:
        content = opened(path, directory)
        if path.name == "b":
            os.truncate(path, 500)
        return content

    stat_before = os.fstat
    monkeypatch.setattr(sandbox, "open_inside", shortened)
    monkeypatch.setattr(
        os, "fstat",
        lambda number: os.stat_result([*stat_before(number)[:6], 1000, *stat_before(number)[7:]]),
    )  # fmt: skip

    assert _reasons(_pack(into, "*")) == {"b": "it became shorter while it was packed"}
    assert sorted(_members(into)) == ["a", "c"]


def test_the_search_for_files_is_bounded(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "MAX_SEARCHED", 20)
    (into / "many").mkdir()
    for number in range(50):
        (into / "many" / str(number)).touch()

    packed = _pack(into, "many")

    assert packed.members == 19
    assert _reasons(packed) == {"many": "more than 20 files"}
    assert "many/*" in _reasons(_pack(into, "many/*"))


def test_an_empty_output_is_a_valid_archive(into: Path) -> None:
    assert _pack(into) == Packed()


def test_as_many_files_are_stored_as_an_archive_may_have(into: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_MEMBERS", 20)
    for each in range(22):
        (into / f"f{each}").touch()

    packed = _pack(into, "*")

    assert packed.members == 20
    assert list(_reasons(packed).values()) == ["limit 20 files"] * 2


def test_files_with_long_names_are_stored_as_far_as_their_headers_are_read(
    into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (packing, archives):
        monkeypatch.setattr(module, "most_header_bytes", lambda _packed_bytes: 40_000)
    for each in range(30):
        (into / f"{each}{'x' * 200}").touch()

    packed = _pack(into, "*")

    assert packed.members == 23
    assert set(_reasons(packed).values()) == {"too many files with long names"}


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ArchiveLimits(packed_bytes=100_000, unpacked_bytes=10**9), "290 MB; limit 97.66 kB packed"),
        (ArchiveLimits(packed_bytes=10**6, unpacked_bytes=10**8), "290 MB; limit 95.37 MB"),
    ],
)
def test_a_file_that_is_too_large_costs_no_other(into: Path, limits: ArchiveLimits, reason: str) -> None:
    (into / "big").touch()
    os.truncate(into / "big", 290 * 1024**2)
    for number in range(100):
        (into / f"small{number}").write_text("x")

    packed = _pack(into, "*", limits=limits)

    assert packed.members == 100
    assert _reasons(packed) == {"big": reason}
    assert packed.too_large == [(into / "big", "big")]


def test_what_does_not_compress_leaves_room_for_what_does(into: Path) -> None:
    for number in range(20):
        (into / f"random{number}").write_bytes(os.urandom(100_000 + number))
    (into / "zeros").write_bytes(bytes(300_000))
    (into / "std.out").write_text("out")

    packed = _pack(
        into, "*", limits=ArchiveLimits(packed_bytes=1_000_000, unpacked_bytes=10**9), streams=("std.out",)
    )  # fmt: skip

    assert set(_members(into)) == {"std.out", "zeros", *(f"random{number}" for number in range(9))}
    assert len(packed.left_out) == 11


def test_the_end_of_standard_output_is_stored_whatever_its_size(into: Path) -> None:
    (into / "std.out").write_bytes(os.urandom(3_000_000) + b"the end")
    (into / "result").write_bytes(os.urandom(500_000))

    packed = _pack(into, "result", streams=("std.out", "std.err"))

    with tarfile.open(into.parent / "out.tar.gz") as archive:
        sizes = {member.name: member.size for member in archive}
        stream = archive.extractfile("std.out")
        assert stream is not None
        assert stream.read().endswith(b"the end")
    assert sizes == {"std.out": 250_000, "result": 500_000}
    assert _reasons(packed) == {"std.out": "2.861 MB; limit 976.6 kB; its end is stored"}


def test_only_as_many_names_are_given_as_there_is_room(into: Path) -> None:
    for number in range(9):
        os.mkfifo(into / f"{number}{'x' * 50}")
    packed = _pack(into, "*")

    long = packing.troubles(["absent"], packed.left_out, "", room=255)
    short = packing.troubles(["absent"], packed.left_out, "", room=120)

    assert long == (
        f"output sandbox: not found: absent; not stored: 0{'x' * 39}…, 1{'x' * 39}…, 2{'x' * 39}… (a pipe) and 6 more"
    )
    assert short == f"output sandbox: not found: absent; not stored: 0{'x' * 39}… (a pipe) and 8 more"
