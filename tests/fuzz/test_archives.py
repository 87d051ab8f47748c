"""Random archives: accepted, or refused with a sentence, by the server; unpacked by the pilot inside its directory."""

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilots.agent.job import sandbox
from tests.cases import quick_cases
from tests.fuzz.conftest import EXAMPLES, LONG
from tests.fuzz.work import calls_of, refuse_far_too_long, refuse_long
from wms.jobs.domain.archives import SandboxTooLargeError
from wms.jobs.services.archives import DamagedArchiveError, check_output_archive, is_safe_archive
from wms.kernel.errors import RejectedError
from wms.wire.archives import MAX_MEMBERS, ArchiveError

MOST_UNPACKED_BYTES: Final = 1_000_000
NAMES: Final = (
    *("a", "b", "d/a", "d/b/c", "d", "a/", "./a", "d//a", ".", "..", "../a", "/a", "/etc/passwd", "d/../../a", "", "/"),
    *("é", "e\u0301", "\u202ea", "a\nb", "a\x1b[2J", "\udcff", "a" * 99, "a" * 300, "d/" * 40 + "a", "d/" * 2500),
)
TARGETS: Final = (*NAMES, "../../../../etc/passwd", "b/../../a", "d/..", "\0", "a\0b", "/dev/null", "link", "link/a")
TYPES: Final = (
    *(tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE),
    *(tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE, tarfile.XGLTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.SOLARIS_XHDTYPE, b"M", b"V", b"\0", b"Z"),
)
ATTRIBUTES: Final = (
    *(("path", "/etc/passwd"), ("path", "../a"), ("linkpath", "/"), ("size", "-1"), ("size", "9" * 30), ("size", "x")),
    *(("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.map", "0,1,2"), ("GNU.sparse.size", "99999")),
    *(("GNU.sparse.name", "../a"), ("GNU.sparse.realsize", "-5"), ("uid", "-1"), ("mtime", "nan"), ("é", "\udcff")),
    *(("hdrcharset", "BINARY"), ("SCHILY.xattr.user.a", "x" * 40_000), ("", ""), ("path", "a" * 5000)),
)
FORMS: Final[tuple[Literal[0, 1, 2], ...]] = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
PACKERS: Final[tuple[Callable[[bytes], bytes], ...]] = (bytes, bytes, gzip.compress, bz2.compress, lzma.compress)


@st.composite
def members(draw: st.DrawFn) -> bytes:
    """Draw one member: a header whose numbers may be wrong, and the bytes after it."""
    info = tarfile.TarInfo(draw(st.sampled_from(NAMES)))
    info.type = draw(st.sampled_from(TYPES[:6]) | st.sampled_from(TYPES))
    info.linkname = draw(st.sampled_from(TARGETS)) if info.type in {tarfile.SYMTYPE, tarfile.LNKTYPE} else ""
    info.mode = draw(st.sampled_from((0o644, 0o755, 0o4755, 0o2777, 0o1777, 0, 0o7777)))
    content = draw(st.binary(max_size=20) | st.sampled_from((b"30 path=/etc/passwd\n", b"9" * 600, b"12 size=5\n")))
    info.size = draw(st.just(len(content)) | st.sampled_from((0, 1, 511, 513, 2**20, 8**11 - 1, 2**40)))
    form = draw(st.sampled_from(FORMS))
    if form == tarfile.PAX_FORMAT:
        info.pax_headers = dict(draw(st.lists(st.sampled_from(ATTRIBUTES), max_size=3)))
    try:
        header = info.tobuf(form, "utf-8", "surrogateescape")
    except ValueError:  # no place for such a name or number in this form
        info.name, info.linkname, info.size = "a", "a"[: len(info.linkname)], len(content)
        header = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
    return header + content + bytes(-len(content) % 512)


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """Draw an archive, packed in some way and possibly damaged."""
    content = b"".join(draw(st.lists(members(), max_size=6)))
    content = draw(st.sampled_from(PACKERS))(content + bytes(draw(st.sampled_from((0, 512, 1024, 10_240)))))
    for _ in range(draw(st.sampled_from((0, 0, 1, 3)))):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        content = content[:place] + draw(st.binary(max_size=3)) + content[place + draw(st.integers(0, 3)) :]
    return content


@st.composite
def zips(draw: st.DrawFn) -> bytes:
    """Draw a zip archive, which the server stores as a single file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))) as archive:
        for name in draw(st.lists(st.sampled_from(("a", "../a", "/a", "é", "d/")), max_size=4, unique=True)):
            archive.writestr(name, bytes(draw(st.sampled_from((0, 5, 100_000)))))
    return packed.getvalue()


def contents_of(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Return the members of the directory by name: kind and, of files, content."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(directory.rglob("*")):
        kind = stat.S_IFMT(path.lstat().st_mode)
        found[str(path.relative_to(directory))] = (kind, path.read_bytes() if kind == stat.S_IFREG else b"")
    return found


def leads_in_a_circle(link: Path) -> bool:
    """Return whether the kernel refuses to follow the link because it is a loop."""
    try:
        link.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def refuse_escapes(content: bytes) -> None:
    """Unpack *content* as a pilot does, even if the server refused it, and assert that no file leaves its directory."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        job = top / "outer" / "job"
        job.mkdir(parents=True)
        (top / "a").write_bytes(b"a neighbour's")
        before = contents_of(top)
        with suppress(sandbox.UnsafeMemberError, OSError, ValueError, ArchiveError):
            sandbox.unpack(io.BytesIO(content), into=job, max_bytes=MOST_UNPACKED_BYTES)
        after = contents_of(top)
        inside = {job_file: after.pop(job_file) for job_file in list(after) if job_file.startswith("outer/job/")}
        assert after == before
        assert {kind for kind, _ in inside.values()} <= {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
        for job_file, (kind, _) in inside.items():
            path = top / job_file
            if kind == stat.S_IFLNK:
                if leads_in_a_circle(path):  # of which realpath makes up an end
                    continue
                assert os.path.realpath(path).startswith(str(job.resolve())), job_file
            else:
                assert path.lstat().st_mode & 0o7022 == 0 or kind == stat.S_IFDIR, job_file


@settings(settings.get_profile("fuzz"), max_examples=15 * EXAMPLES)
@given(archives())
def test_any_archive_is_accepted_or_refused_and_stays_in_its_directory(content: bytes) -> None:
    with suppress(RejectedError):
        is_safe_archive(io.BytesIO(content), max_unpacked_bytes=MOST_UNPACKED_BYTES)
    with suppress(RejectedError):
        check_output_archive(io.BytesIO(content), max_unpacked_bytes=MOST_UNPACKED_BYTES)
    refuse_escapes(content)


@settings(settings.get_profile("fuzz"), max_examples=15 * EXAMPLES)
@given(st.lists(members(), min_size=1, max_size=6))
def test_archives_accepted_by_the_server_can_be_unpacked_by_the_pilot(parts: list[bytes]) -> None:
    content = b"".join(parts) + bytes(1024)
    try:
        taken = is_safe_archive(io.BytesIO(content), max_unpacked_bytes=MOST_UNPACKED_BYTES)
    except RejectedError:
        return
    if taken:
        with tempfile.TemporaryDirectory() as name:
            sandbox.unpack(io.BytesIO(content), into=Path(name), max_bytes=MOST_UNPACKED_BYTES)


@settings(settings.get_profile("fuzz"), max_examples=EXAMPLES)
@given(zips())
def test_a_zip_is_a_single_file(content: bytes) -> None:
    assert not is_safe_archive(io.BytesIO(content), max_unpacked_bytes=MOST_UNPACKED_BYTES)


def test_a_link_to_what_is_below_itself_stays_in_its_directory() -> None:
    info = tarfile.TarInfo("d")
    info.type, info.linkname = tarfile.SYMTYPE, "d//a"
    refuse_escapes(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))


@pytest.mark.parametrize("pack", quick_cases(PACKERS[2:], quick=1))
def test_a_decompression_bomb_is_not_read_completely(pack: Callable[[bytes], bytes]) -> None:
    header = tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT)
    bomb = io.BytesIO(pack(header * (MAX_MEMBERS * 3)))
    calls = calls_of(partial(suppressed, bomb, MOST_UNPACKED_BYTES))
    assert calls < 200 * MAX_MEMBERS

    with pytest.raises(DamagedArchiveError):
        is_safe_archive(io.BytesIO(pack(header + header[:100])), max_unpacked_bytes=MOST_UNPACKED_BYTES)


@pytest.mark.parametrize("pack", PACKERS[2:])
@pytest.mark.parametrize("attributes", [0, 1, 60])
def test_a_small_archive_of_many_members_is_checked_fast(attributes: int, pack: Callable[[bytes], bytes]) -> None:
    content = pack(b"".join(header_of(f"f{number}", attributes=attributes) for number in range(MAX_MEMBERS)))
    content = content[: 64 * 1024]
    # Plain headers of as many members as allowed are read; an archive that was cut off is damaged.
    refused = pytest.raises(SandboxTooLargeError) if attributes else suppress(DamagedArchiveError)
    with refused:
        is_safe_archive(io.BytesIO(content), max_unpacked_bytes=MOST_UNPACKED_BYTES)
    attempt = partial(suppressed, io.BytesIO(content), MOST_UNPACKED_BYTES)
    assert calls_of(attempt) < 140 * MAX_MEMBERS
    (refuse_long if LONG else refuse_far_too_long)(attempt)


def header_of(name: str, *, attributes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = {f"a{number}": "b" for number in range(attributes)}
    return info.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.parametrize("pack", PACKERS[2:])
def test_as_many_small_files_as_an_archive_may_have_are_taken(pack: Callable[[bytes], bytes]) -> None:
    """As tar of GNU and tarfile of Python write them: with times of their own, and something in them."""
    packed, chance = io.BytesIO(), Random(1)
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for number in range(MAX_MEMBERS):
            info = tarfile.TarInfo(f"output/{number}.txt")
            info.mtime, info.size = 1_790_000_000 + chance.random() * 3600, 20
            archive.addfile(info, io.BytesIO(chance.randbytes(10).hex().encode()))
    assert is_safe_archive(io.BytesIO(pack(packed.getvalue())), max_unpacked_bytes=MOST_UNPACKED_BYTES)


def suppressed(content: io.BytesIO, most_bytes: int) -> None:
    """Inspect the archive, ignoring a refusal."""
    with suppress(RejectedError):
        is_safe_archive(content, max_unpacked_bytes=most_bytes)
