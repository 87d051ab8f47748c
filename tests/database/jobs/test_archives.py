"""Members of sandboxes that are archives, and the archives that are refused."""

import bz2
import gzip
import io
import lzma
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from pytest_django import Settings

from tests.database.jobs.test_sandboxes import files_in, tar, upload
from tests.factories import make_user
from wms.jobs.domain.archives import SandboxTooLargeError, UnsafeArchiveError
from wms.jobs.models import Sandbox
from wms.jobs.services import archives
from wms.jobs.services.archives import DamagedArchiveError

pytestmark = pytest.mark.usefixtures("directory")

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": lambda content: content,
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "two streams of xz": lambda content: lzma.compress(content[:700]) + lzma.compress(content[700:]),
    "two members of gz": lambda content: gzip.compress(content[:700]) + gzip.compress(content[700:]),
}


@pytest.mark.django_db
@pytest.mark.parametrize("packing", PACKERS)
def test_archives_are_recognized_by_content_not_by_name(packing: str) -> None:
    packed = PACKERS[packing](tar(("a", b"x" * 2000), ("d/b", b"")))
    assert upload(packed, owner=make_user(), name="data.txt").sandbox.is_archive


@pytest.mark.django_db
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"#!/bin/sh\n",
        gzip.compress(b"not a tar"),
        b"\x1f\x8bdamaged",
        b"PK\x03\x04",
        bytes(10240),
        b"BZh9",
        b"\xfd7zXZ\0",
    ],
    ids=["empty", "script", "gzipped text", "broken gzip", "zip", "zeros", "broken bzip2", "broken xz"],
)
def test_anything_else_is_a_single_file_whatever_its_name(content: bytes) -> None:
    assert not upload(content, owner=make_user(), name="x.tar.gz").sandbox.is_archive


@pytest.mark.django_db
@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_form_of_tar_is_read(format: int) -> None:  # noqa: A002 - tarfile's word
    name = "/".join(["directory"] * 9) + "/a name of some length"
    assert upload(tar((name, b"x"), ("b", b"y" * 600), format=format), owner=make_user()).sandbox.is_archive


@pytest.mark.django_db
@pytest.mark.parametrize("packing", PACKERS)
def test_an_unsafe_archive_is_refused_in_every_packing(packing: str, directory: Path) -> None:
    packed = PACKERS[packing](tar(("harmless", b"x" * 2000), ("../../.ssh/authorized_keys", b"x")))
    with pytest.raises(UnsafeArchiveError, match=r"\.\./\.\./\.ssh/authorized_keys"):
        upload(packed, owner=make_user())
    assert files_in(directory) == []
    assert not Sandbox.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, b"S", b"Z"])
def test_a_special_file_member_is_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("odd")
    info.type = kind
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(info)
    if kind == tarfile.CONTTYPE:  # an ordinary file by an old name
        assert upload(packed.getvalue(), owner=make_user()).sandbox.is_archive
        return
    with pytest.raises(UnsafeArchiveError, match='"odd"'):
        upload(packed.getvalue(), owner=make_user())


@pytest.mark.django_db
def test_a_decompression_bomb_is_refused_by_its_header(settings: Settings) -> None:
    settings.WMS_SANDBOX_MAX_UNPACKED_BYTES = 10**6
    info = tarfile.TarInfo("bomb")
    info.size = 10**12
    with pytest.raises(SandboxTooLargeError):
        upload(gzip.compress(info.tobuf()), owner=make_user())


@pytest.mark.django_db
def test_a_decompression_bomb_in_header_extensions_takes_no_memory() -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 150 * 1024 * 1024
    packed = lzma.compress(info.tobuf() + b"9" * info.size, preset=0)
    tracemalloc.start()
    with pytest.raises(SandboxTooLargeError):
        upload(packed, owner=make_user())
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 20 * 1024 * 1024


@pytest.mark.django_db
def test_too_many_members_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    upload(tar(*[(f"f{number}", b"") for number in range(3)]), owner=make_user())
    with pytest.raises(SandboxTooLargeError):
        upload(tar(*[(f"f{number}", b"") for number in range(4)]), owner=make_user())


@pytest.mark.django_db
def test_too_many_global_attributes_are_refused() -> None:
    packed = io.BytesIO()
    attributes = {f"comment{number}": "x" for number in range(65)}
    with tarfile.open(fileobj=packed, mode="w", pax_headers=attributes) as archive:
        archive.addfile(tarfile.TarInfo("a"))
    with pytest.raises(UnsafeArchiveError):
        upload(packed.getvalue(), owner=make_user())


@pytest.mark.django_db
@pytest.mark.parametrize("packing", ["tar", "gz", "bz2", "xz"])
def test_a_damaged_archive_is_refused(packing: str) -> None:
    # More than a block of bzip2, or nothing of it can be unpacked and it is a single file.
    whole = PACKERS[packing](tar(("a", Random(1).randbytes(2_000_000)), ("b", b"x")))
    with pytest.raises(DamagedArchiveError):
        upload(whole[: len(whole) * 3 // 4], owner=make_user())


@pytest.mark.django_db
def test_an_archive_with_a_corrupt_header_is_refused() -> None:
    whole = bytearray(tar(("a", b"x"), ("b", b"y")))
    whole[1024] ^= 1  # the second header's name: its check sum no longer fits, which tarfile takes for the end
    with pytest.raises(DamagedArchiveError):
        upload(bytes(whole), owner=make_user())


@pytest.mark.django_db
def test_a_header_with_a_negative_offset_is_refused() -> None:
    info = tarfile.TarInfo("loop")
    header = bytearray(info.tobuf(format=tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 11 + b"\x00"  # a negative size in base 256
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    with pytest.raises((UnsafeArchiveError, DamagedArchiveError)):
        upload(bytes(header) + tar(("a", b"x")), owner=make_user())


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE])
def test_a_member_of_negative_size_is_refused(kind: bytes) -> None:
    info = tarfile.TarInfo("a")
    info.type, info.linkname, info.pax_headers = kind, "b" if kind == tarfile.SYMTYPE else "", {"size": "-1"}
    with pytest.raises(UnsafeArchiveError):
        upload(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024), owner=make_user())
