"""The rules for members of archives, and reading real archives, compared with a real unpacking."""

import bz2
import errno
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.cases import examples
from wms.jobs.domain.archives import (
    SandboxTooLargeError,
    UnsafeArchiveError,
    check_members,
    flaw_of_name,
)
from wms.jobs.services.archives import check_output_archive, is_safe_archive
from wms.wire.archives import (
    END,
    MAX_DEPTH,
    MAX_MEMBERS,
    MAX_STREAMS,
    SMALL_ARCHIVE_UNPACKED_BYTES,
    ArchiveReader,
    Member,
    MemberKind,
    TooCompressedError,
    blocks_of,
)
from wms.wire.compressions import unpacked

FILE, DIRECTORY, SYMLINK, HARD_LINK, SPECIAL = MemberKind


def check(*members: Member, max_members: int = 100, max_unpacked_bytes: int = 1000) -> None:
    check_members(members, max_members=max_members, max_unpacked_bytes=max_unpacked_bytes)


def file(name: str, *, mode: int = 0o644, size_bytes: int = 1) -> Member:
    return Member(name=name, kind=FILE, mode=mode, size_bytes=size_bytes)


def directory(name: str, *, mode: int = 0o755) -> Member:
    return Member(name=name, kind=DIRECTORY, mode=mode)


def symlink(name: str, target: str) -> Member:
    return Member(name=name, kind=SYMLINK, link_target=target, mode=0o777)


def hard_link(name: str, target: str) -> Member:
    return Member(name=name, kind=HARD_LINK, link_target=target)


@pytest.mark.parametrize(
    "members",
    [
        (),
        (directory("."), directory("./a"), file("./a/b")),
        (file("a"), file("a")),
        (file("run.sh", mode=0o755), directory("d", mode=0o2775)),
        (directory("lib"), symlink("lib/l", "../lib64/l"), file("lib64/l")),
        (symlink("current", "v1"), directory("v1")),
        (symlink("d/here", ".."),),
        (file("a"), hard_link("b/c", "./a")),
        (file("a..b"), file("..c"), file("été 2009.txt")),
    ],
)
def test_ordinary_archives_are_accepted(members: Sequence[Member]) -> None:
    check(*members)


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ((file("/etc/passwd"),), "/etc/passwd"),
        ((file("a/."),), "a/."),
        ((file("a//."),), "a//."),
        ((file("a/"),), "a/"),
        ((file("../x"),), "../x"),
        ((file("a/../../x"),), "a/../../x"),
        ((file("a/../x"),), "a/../x"),
        ((directory(".."),), ".."),
        ((file("."),), "."),
        ((file(""),), ""),
        ((symlink("l", "/etc"),), "l"),
        ((symlink("l", ".."),), "l"),
        ((symlink("l", ""),), "l"),
        ((symlink("d/l", "../../x"),), "d/l"),
        # The lexical path stays inside, the real one climbs above the top.
        ((symlink("a/b/top", "../.."), symlink("l", "a/b/top/..")), "l"),
        ((symlink("l", "."), file("l/x")), "l/x"),
        ((symlink("l", "x"), file("l")), "l"),
        ((symlink("l", "x"), symlink("l", "y")), "l"),
        ((symlink("l", "x"), directory("l")), "l"),
        ((file("f"), symlink("f", "x")), "f"),
        ((file("d/f"), symlink("d", "x")), "d"),
        ((directory("d"), file("d")), "d"),
        ((file("f"), file("f/g")), "f/g"),
        ((hard_link("h", "/etc/passwd"),), "h"),
        ((file("etc/passwd"), hard_link("h", "/etc/passwd")), "h"),
        ((hard_link("h", "../x"),), "h"),
        ((hard_link("h", "later"), file("later")), "h"),
        ((symlink("l", "x"), hard_link("h", "l")), "h"),
        ((file("f"), file("g"), hard_link("f", "g")), "f"),
        ((Member(name="dev/null", kind=SPECIAL),), "dev/null"),
        ((file("s", mode=0o4755),), "s"),
        ((file("s", mode=0o2755),), "s"),
        ((directory("s", mode=0o4755),), "s"),
        ((file("a\nb"),), "a\\nb"),
        ((file("a\udce9"),), "a\\udce9"),
        ((file("n" * 256),), "n" * 200),
        ((file("d/" * MAX_DEPTH + "f"),), "d/"),
        ((file("f", size_bytes=-512),), "f"),
    ],
)
def test_an_archive_that_could_reach_out_is_refused_by_its_member(members: Sequence[Member], named: str) -> None:
    with pytest.raises(UnsafeArchiveError) as refusal:
        check(*members)
    assert f'The member "{named}' in refusal.value.detail
    refusal.value.detail.encode()  # can be sent


def test_a_bomb_is_refused_at_the_member_that_is_too_much() -> None:
    taken: list[int] = []

    def bomb() -> Iterator[Member]:
        for number in range(10**9):
            taken.append(number)
            yield file(f"f{number}", size_bytes=300)

    with pytest.raises(SandboxTooLargeError):
        check_members(bomb(), max_members=10**9, max_unpacked_bytes=1000)
    assert taken == [0, 1, 2, 3]


def test_an_archive_of_exactly_the_limits_is_accepted_and_one_more_is_not() -> None:
    check(file("a", size_bytes=600), file("b", size_bytes=400), max_members=2)
    with pytest.raises(SandboxTooLargeError):
        check(file("a", size_bytes=600), file("b", size_bytes=401))
    with pytest.raises(SandboxTooLargeError):
        check(file("a"), file("b"), file("c"), max_members=2)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0", "a\tb", "a\u202eb", "a\u200bb", "\udcff", "é" * 128])
def test_bad_file_names_have_a_flaw(name: str) -> None:
    assert flaw_of_name(name) is not None


@pytest.mark.parametrize("name", ["a", ".bashrc", "-rf", "é" * 127, "a b", "..."])
def test_good_file_names_have_no_flaw(name: str) -> None:
    assert flaw_of_name(name) is None


# Few parts, so that names meet each other: the interesting archives are those whose members share paths.
parts = st.sampled_from(["a", "b", "c", ".", "..", ""])
paths = st.lists(parts, min_size=1, max_size=5).map("/".join)
members = st.builds(
    Member,
    name=paths,
    kind=st.sampled_from([FILE, DIRECTORY, SYMLINK, HARD_LINK]),
    link_target=paths,
    mode=st.sampled_from([0o644, 0o755]),
    size_bytes=st.just(0),
)


@given(archive=st.lists(members, max_size=6))
@example(archive=[symlink("a", "a/a")])
@example(archive=[symlink("a", "."), symlink("a/l", "..")])
@example(archive=[symlink("a/b/top", "../.."), symlink("l", "a/b/top/.."), file("l/x")])
@settings(max_examples=examples(600), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_whatever_is_accepted_unpacks_inside_its_directory(
    archive: list[Member], tmp_path_factory: pytest.TempPathFactory
) -> None:
    try:
        check(*archive)
    except UnsafeArchiveError:
        return
    outside = tmp_path_factory.mktemp("unpacking")
    inside = outside / "x" / "job"
    inside.mkdir(parents=True)
    with tarfile.open(fileobj=_packed(archive)) as tar:
        # The most trusting way to unpack: what is tested is the check, not tarfile's filters.
        # NB: an attribute, for Python before 3.11.4 knows neither the filters nor the argument.
        tar.extraction_filter = lambda member, _path: member
        for info in tar:
            try:
                tar.extract(info, inside)
            except (OSError, KeyError):  # the file system refuses, such as a file in the place of a directory
                continue
    for path in [*outside.iterdir(), *(outside / "x").iterdir()]:
        assert path in {outside / "x", inside}
    for path in inside.rglob("*"):
        if path.is_symlink():
            assert _leads_inside(path, inside), f"{path} -> {path.readlink()}"


def _leads_inside(link: Path, top: Path) -> bool:
    try:
        link.stat()
    except OSError as error:
        # A loop of links leads nowhere; resolve() would return what it had when it gave up.
        if error.errno == errno.ELOOP:
            return True
    return link.resolve().is_relative_to(top.resolve())


def _packed(archive: Sequence[Member]) -> io.BytesIO:
    types = {FILE: tarfile.REGTYPE, DIRECTORY: tarfile.DIRTYPE, SYMLINK: tarfile.SYMTYPE, HARD_LINK: tarfile.LNKTYPE}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member in archive:
            info = tarfile.TarInfo(member.name)
            info.type, info.linkname = types[member.kind], member.link_target
            # As for root: no user is kept out of a directory.
            info.mode = 0o755 if member.kind is DIRECTORY else member.mode
            tar.addfile(info)
    packed.seek(0)
    return packed


def test_a_link_is_to_a_path_that_a_system_can_hold() -> None:
    check(symlink("a", "d/" * 2047))
    with pytest.raises(UnsafeArchiveError, match="is a link to a path of 4096 bytes or more"):
        check(symlink("a", "d/" * 2048))


@pytest.mark.parametrize(
    ("name", "blocks"), [("f{}", 1), ("é" * 40 + "{}", 1), ("d" * 100 + "/" + "é" * 40 + "{}", 1), ("x" * 97 + "{}", 3)]
)
def test_a_plain_header_is_written_if_the_name_fits(name: str, blocks: int) -> None:
    written = b"".join(blocks_of(file(name.format(1000), size_bytes=0)))

    assert len(written) == blocks * tarfile.BLOCKSIZE
    assert [member.name for member in ArchiveReader(io.BytesIO(gzip.compress(written)))] == [name.format(1000)]


@pytest.mark.parametrize("name", ["f{}", "é" * 40 + "{}"])
def test_an_archive_of_as_many_equal_files_as_allowed_is_accepted(name: str) -> None:
    members = [b"".join(blocks_of(file(name.format(number), size_bytes=0))) for number in range(MAX_MEMBERS)]
    content = gzip.compress(b"".join(members) + END)

    check_output_archive(io.BytesIO(content), max_unpacked_bytes=1)
    assert is_safe_archive(io.BytesIO(content), max_unpacked_bytes=1)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_archives_may_have_many_compressed_streams_but_not_any_number(pack: Callable[[bytes], bytes]) -> None:
    last = pack(b"".join(blocks_of(file("a"), [b"x"])) + END)
    many = io.BytesIO(pack(b"") * (MAX_STREAMS - 1) + last + bytes(100_000))
    assert [member.name for member in ArchiveReader(many, unpacked=unpacked)] == ["a"]
    too_many = io.BytesIO(pack(b"") * (2 * MAX_STREAMS) + last)
    with pytest.raises(TooCompressedError, match="streams"):
        list(ArchiveReader(too_many, unpacked=unpacked))
    assert too_many.tell() < len(too_many.getvalue())


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress])
def test_what_unpacks_to_far_more_than_gzip_could_pack_is_refused(pack: Callable[[bytes], bytes]) -> None:
    zeros = file("a", size_bytes=SMALL_ARCHIVE_UNPACKED_BYTES + 5 * 1024 * 1024)
    content = b"".join(blocks_of(zeros, [bytes(zeros.size_bytes)])) + END
    assert is_safe_archive(io.BytesIO(gzip.compress(content)), max_unpacked_bytes=len(content))
    with pytest.raises(SandboxTooLargeError, match="pack it with gzip"):
        is_safe_archive(io.BytesIO(pack(content)), max_unpacked_bytes=len(content))
