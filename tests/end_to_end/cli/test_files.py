"""`wms files`."""

from pathlib import Path

import pytest

from resources.models import OutputName, Replica, StorageElement
from tests.end_to_end.cli.conftest import SampleData, Wms, WmsOf
from tests.factories import make_replica, make_storage_element, make_vo
from tests.storage import StorageServer
from wms.client.storage import UnreadableError, delete, look

pytestmark = pytest.mark.django_db(transaction=True)


def test_replicas_are_listed_and_files_uploaded(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    element = make_storage_element(name="CERN-DST", vos=[sample.vo])
    make_replica(lfn="/lhcb/user/a", vo=sample.vo, storage_element=element, size_bytes=1_500_000)
    make_replica(lfn="/lhcb/prod/b", vo=sample.vo, storage_element=element)
    assert [row[:2] for row in wms("files", "list").rows] == [
        ["/lhcb/user/a", "CERN-DST"],
        ["/lhcb/prod/b", "CERN-DST"],
    ]
    assert wms("files", "list", "LFN:/lhcb/user/a").rows == [["/lhcb/user/a", "CERN-DST", "1500000", ""]]
    assert "1.5 MB" in wms("files", "list", "--directory", "/lhcb/user", width=80).out
    assert wms("files", "list", "--json", "lfn").json == [{"lfn": "/lhcb/user/a"}, {"lfn": "/lhcb/prod/b"}]
    file = tmp_path / "in.txt"
    file.write_text("hello")
    ((path, sandbox, size),) = wms("files", "put", file).rows
    assert (path, sandbox[:7], size) == (str(file), "sha256:", "5")
    assert wms("submit", "--executable", "cat", "--input", sandbox).code == 0
    assert wms("files", "put", tmp_path / "missing").code == 2
    assert wms("files").code == 2


def test_a_file_of_a_storage_element_is_downloaded(
    sample: SampleData, wms: Wms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    with StorageServer(tmp_path / "keys") as storage:
        monkeypatch.setenv("SSL_CERT_FILE", str(storage.certificate))
        storage.files["/lhcb/user/hits.root"] = b"hits\n"
        away = make_storage_element(name="ALBA", vos=[sample.vo], url="root://eos.example.org/")
        near = make_storage_element(name="CERN-DST", vos=[sample.vo], url=storage.url)
        for element in (away, near):
            make_replica(lfn="/lhcb/user/hits.root", vo=sample.vo, storage_element=element, size_bytes=5)
        get = ("files", "get", "LFN:/lhcb/user/hits.root", "-d", tmp_path / "o")
        assert wms(*get).rows == [[str(tmp_path / "o" / "hits.root"), "CERN-DST", "5"]]
        assert [path.read_text() for path in (tmp_path / "o").iterdir()] == ["hits\n"]
        again = wms(*get, width=80)
        assert again.code == 0
        assert "1 were there already; --force fetches them again." in again.out
        (tmp_path / "o" / "hits.root").write_text("of mine")
        assert "another file (7 bytes, not 5)" in wms(*get).err
        assert wms(*get, "--force", "--json", "storage_element").json == [{"storage_element": "CERN-DST"}]
        assert (tmp_path / "o" / "hits.root").read_text() == "hits\n"
        refused = wms(*get, "--storage-element", "ALBA", "--force")
        assert refused.code == 1
        assert "No replica of /lhcb/user/hits.root can be read from here." in refused.err
        assert "  ALBA: `wms` cannot read root:" in refused.err
    assert "has no replica of /lhcb/none" in wms("files", "get", "/lhcb/none", "-d", tmp_path).err
    assert wms("files", "get", "hits.root").code == 2
    assert wms("files", "get", "/a/x", "/b/x").code == 2
    assert "cannot be made" in wms("files", "get", "/a/x", "-d", tmp_path / "o" / "hits.root").err


def test_files_of_several_vos_with_one_name_need_the_vo(wms_of: WmsOf, sample: SampleData, tmp_path: Path) -> None:
    (tmp_path / "se" / "x").mkdir(parents=True)
    (tmp_path / "se" / "x" / "data").write_text("hits")
    atlas = make_vo(name="atlas")
    for vo in (sample.vo, atlas):
        element = make_storage_element(vos=[vo], url=f"file://{tmp_path}/se")
        make_replica(lfn="/x/data", vo=vo, storage_element=element)
    wms = wms_of(sample.olga)
    ambiguous = wms("files", "get", "/x/data", "-d", tmp_path)
    assert (ambiguous.code, "name the VO" in ambiguous.err) == (2, True)
    assert wms("files", "get", "/x/data", "-d", tmp_path, "--vo", "atlas").code == 0
    assert (tmp_path / "data").read_text() == "hits"


def test_files_are_removed_from_catalogue_and_storage_elements(
    wms_of: WmsOf, sample: SampleData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    disk = tmp_path / "disk" / "lhcb"
    disk.mkdir(parents=True)
    (disk / "hits").write_text("hits")
    with StorageServer(tmp_path / "keys") as storage:
        monkeypatch.setenv("SSL_CERT_FILE", str(storage.certificate))
        storage.files["/lhcb/hits"] = storage.files["/lhcb/kept"] = b"hits"
        urls = {"DISK": (tmp_path / "disk").as_uri(), "HTTPS": storage.url, "TAPE": "root://tape.example.org/"}
        for name, url in urls.items():
            element = make_storage_element(name=name, vos=[sample.vo], url=url)
            make_replica(lfn="/lhcb/hits", vo=sample.vo, storage_element=element)
        make_replica(lfn="/lhcb/kept", vo=sample.vo, storage_element=element)
        wms = wms_of(sample.olga)
        removed = wms("files", "rm", "LFN:/lhcb/hits")
        assert removed.code == 1
        assert removed.rows[0] == ["/lhcb/hits", "DISK, HTTPS, TAPE"]
        assert "The file of /lhcb/hits at TAPE is left: `wms` cannot read root:" in removed.out
        assert set(storage.files) == {"/lhcb/kept"}
        assert not (disk / "hits").exists()
        assert wms("files", "rm", "/lhcb/hits").code == 1
        assert wms("files", "rm", "/lhcb/kept", "--catalogue-only").code == 0
        assert set(storage.files) == {"/lhcb/kept"}
    assert not Replica.objects.exists()


def test_a_file_that_the_user_may_not_remove_stays(sample: SampleData, wms: Wms, tmp_path: Path) -> None:
    (tmp_path / "hits").write_text("hits")
    element = make_storage_element(name="DISK", vos=[sample.vo], url=tmp_path.as_uri())
    make_replica(lfn="/hits", vo=sample.vo, storage_element=element)
    refused = wms("files", "rm", "/hits", "--vo", sample.vo.name)
    assert (refused.code, "remove files that your jobs have not stored" in refused.err) == (1, True)
    assert (tmp_path / "hits").exists()
    assert Replica.objects.exists()


@pytest.fixture
def disk(sample: SampleData, tmp_path: Path) -> Path:
    """Return the directory that is a storage element; the catalogue has a file `hits` there, of 4 bytes."""
    (tmp_path / "disk" / "lhcb").mkdir(parents=True)
    (tmp_path / "disk" / "lhcb" / "hits").write_text("hits")
    element = make_storage_element(name="DISK", vos=[sample.vo], url=(tmp_path / "disk").as_uri())
    make_replica(lfn="/lhcb/hits", vo=sample.vo, storage_element=element, size_bytes=4)
    return tmp_path / "disk"


def test_a_storage_element_that_is_not_mounted_here_keeps_its_file(
    wms_of: WmsOf, sample: SampleData, disk: Path
) -> None:
    disk.rename(disk.parent / "elsewhere")
    removed = wms_of(sample.olga)("files", "rm", "/lhcb/hits")
    assert removed.code == 1
    assert f"The file of /lhcb/hits at DISK is left: {disk}/lhcb/hits cannot be found on this computer" in removed.out


def test_a_file_of_another_size_is_not_deleted(wms_of: WmsOf, sample: SampleData, disk: Path) -> None:
    (disk / "lhcb/hits").write_text("others")
    removed = wms_of(sample.olga)("files", "rm", "/lhcb/hits")
    assert "is left: it has 6 bytes, in the catalogue it has 4." in removed.out
    assert (disk / "lhcb/hits").read_text() == "others"


def test_files_that_were_removed_before_a_refusal_are_named(wms_of: WmsOf, sample: SampleData, disk: Path) -> None:
    make_replica(lfn="/lhcb/other", vo=sample.vo, storage_element=StorageElement.objects.get())
    owner = sample.alice
    OutputName.objects.create(vo=sample.vo, lfn="/lhcb/hits", owner=owner, writer_id=1)
    removed = wms_of(owner)("files", "rm", "/lhcb/hits", "/lhcb/other")
    assert (removed.code, removed.rows[0][0]) == (1, "/lhcb/hits")
    assert "/lhcb/other and what follows it are not removed: Only managers of" in removed.out
    assert Replica.objects.get().lfn == "/lhcb/other"
    assert not (disk / "lhcb/hits").exists()


def test_a_file_that_was_stored_after_the_removal_stays(disk: Path) -> None:
    url = (disk / "lhcb/hits").as_uri()
    seen = look(url, token="")
    assert seen is not None
    (disk / "lhcb/new").write_text("also")
    (disk / "lhcb/new").rename(disk / "lhcb/hits")
    with pytest.raises(UnreadableError, match="a new file has been stored there"):
        delete(url, token="", seen=seen)
    assert (disk / "lhcb/hits").read_text() == "also"
