"""Downloads from storage elements: over HTTPS and HTTP, and from directories of this computer."""

import hashlib
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.serving import LoopbackServer
from tests.storage import StorageServer
from wms.client import WrongUsageError
from wms.client.replicas import NoReadableReplicaError, fetch

LFN = "/lhcb/user/a/alice/hits.root"
CONTENT = bytes(range(256)) * 4000


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StorageServer]:
    (tmp_path / "keys").mkdir()
    with StorageServer(tmp_path / "keys") as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        server.files[LFN] = CONTENT
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "hits.root"


def replica(url: str | None, *, element: str = "CERN-DST", size_bytes: int | None = None, checksum: str = "") -> Any:
    return {"lfn": LFN, "storage_element": element, "url": url, "size_bytes": size_bytes, "checksum": checksum}


def problems(*replicas: Any, target: Path, **environment: str) -> dict[str, str]:
    """Return {storage element: sentence}; nothing is left of the attempts."""
    before = sorted(target.parent.iterdir())
    with pytest.raises(NoReadableReplicaError) as refused:
        fetch(replicas, target, environment=environment)
    assert sorted(target.parent.iterdir()) == before
    return {element: " ".join(sentences) for element, sentences in refused.value.errors.items()}


@pytest.mark.parametrize(
    "checksum", ["", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", f"adler32:{zlib.adler32(CONTENT):08x}", "crc7:0"]
)
def test_a_file_comes_over_https_with_its_size_and_checksum_compared(
    storage: StorageServer, target: Path, checksum: str
) -> None:
    seen: list[tuple[int, int | None]] = []
    given = replica(storage.url + LFN, size_bytes=len(CONTENT), checksum=checksum)
    used = fetch([given], target, environment={}, on_bytes=lambda have, whole: seen.append((have, whole)))
    assert used is given
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in target.parent.iterdir()] == ["hits.root"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"size_bytes": 7}, f"its file has {len(CONTENT)} bytes, in the catalogue it has 7"),
        ({"checksum": "adler32:00000001"}, "its file has the checksum adler32:"),
        ({"checksum": "sha256:" + 64 * "0"}, "its file has the checksum sha256:"),
    ],
)
def test_a_replica_with_a_wrong_checksum_is_skipped(
    storage: StorageServer, target: Path, wrong: dict[str, Any], sentence: str
) -> None:
    bad = replica(storage.url + LFN, **wrong)
    assert sentence in problems(bad, target=target)["CERN-DST"]
    good = replica(storage.url + LFN, element="RAL", size_bytes=len(CONTENT))
    assert fetch([bad, good], target, environment={}) is good


def test_a_copy_on_this_computer_is_taken_first(storage: StorageServer, target: Path, tmp_path: Path) -> None:
    local = tmp_path / f"disk one{LFN}"
    local.parent.mkdir(parents=True)
    local.write_bytes(CONTENT)
    url = f"file://{tmp_path}/disk%20one{LFN}"
    assert fetch([replica(storage.url + LFN), replica(url, element="DISK")], target)["storage_element"] == "DISK"
    assert target.read_bytes() == CONTENT
    assert storage.seen == []
    assert "bytes, in the catalogue" in problems(replica(url, size_bytes=1), target=tmp_path / "x")["CERN-DST"]


def test_each_replica_that_cannot_be_read_has_its_reason(storage: StorageServer, target: Path) -> None:
    with LoopbackServer(BaseHTTPRequestHandler) as closed:
        pass
    storage.answers = [403]
    found = problems(
        replica(storage.url + LFN, element="A"),
        replica("file:///nowhere/x", element="B"),
        replica("root://eos.cern.ch//x", element="C"),
        replica(None, element="D"),
        replica(f"{closed.url}/x", element="E"),
        replica("https://[", element="F"),
        replica(f"{storage.url}/x\x7f", element="G"),
        target=target,
    )
    assert found["A"].startswith("it answers 403")
    assert "cannot be read on this computer (No such file" in found["B"]
    assert "`wms` cannot read root:" in found["C"]
    assert "no address" in found["D"]
    assert "cannot be reached" in found["E"]
    assert found["F"] == "its address is not a URL"
    assert "characters that cannot be sent" in found["G"]


def test_an_untrusted_certificate_is_reported(
    storage: StorageServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    sentence = problems(replica(storage.url + LFN), target=target)["CERN-DST"]
    assert "is not trusted" in sentence
    assert "SSL_CERT_DIR" in sentence
    assert storage.seen == []


def test_an_existing_file_is_replaced_only_on_demand(storage: StorageServer, target: Path) -> None:
    target.write_text("mine")
    with pytest.raises(WrongUsageError, match="--force"):
        fetch([replica(storage.url + LFN)], target)
    assert target.read_text() == "mine"
    assert storage.seen == []
    # One that appears while the file arrives is not replaced either.
    target.unlink()

    def appear(*_: object) -> None:
        target.write_text("mine, too")

    with pytest.raises(WrongUsageError, match="--force"):
        fetch([replica(storage.url + LFN)], target, on_bytes=appear)
    assert [path.read_text() for path in target.parent.iterdir()] == ["mine, too"]
    fetch([replica(storage.url + LFN)], target, force=True)
    assert target.read_bytes() == CONTENT


def test_a_transfer_that_breaks_off_is_repeated(storage: StorageServer, target: Path) -> None:
    storage.cuts = [1000, 500_000]
    fetch([replica(storage.url + LFN, size_bytes=len(CONTENT))], target)
    assert target.read_bytes() == CONTENT
    assert len(storage.seen) == 3


def test_a_storage_element_that_always_breaks_off_is_given_up(
    storage: StorageServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.client.replicas._RETRY_S", 0.5)
    storage.cuts = [1000] * 1000
    assert "did not arrive whole" in problems(replica(storage.url + LFN), target=target)["CERN-DST"]


# ---- token -----------------------------------------------------------------------------------------------------------


def test_the_token_of_the_user_opens_a_storage_element(storage: StorageServer, target: Path, tmp_path: Path) -> None:
    storage.token = "of-alice"
    (tmp_path / "token").write_text("of-alice\n")
    assert "401" in problems(replica(storage.url + LFN), target=target)["CERN-DST"]
    with pytest.raises(NoReadableReplicaError, match="set BEARER_TOKEN"):
        fetch([replica(storage.url + LFN)], target, environment={})
    for environment in ({"BEARER_TOKEN": "of-alice"}, {"BEARER_TOKEN_FILE": str(tmp_path / "token")}):
        fetch([replica(storage.url + LFN)], target, environment=environment, force=True)
        assert target.read_bytes() == CONTENT
    with pytest.raises(WrongUsageError, match="BEARER_TOKEN_FILE"):
        fetch([replica("x")], target, environment={"BEARER_TOKEN_FILE": str(tmp_path / "none")}, force=True)


def test_the_token_goes_only_to_the_storage_element_and_only_encrypted(
    storage: StorageServer, target: Path, tmp_path: Path
) -> None:
    tokens: list[str | None] = []

    class Plain(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            tokens.append(self.headers["Authorization"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Plain) as plain, StorageServer(tmp_path) as other:
        fetch([replica(f"{plain.url}/x")], target, environment={"BEARER_TOKEN": "secret"})
        assert tokens == [None]
        storage.answers = [f"{plain.url}/x"]
        found = problems(replica(storage.url + LFN), target=tmp_path / "x", BEARER_TOKEN="secret")
        assert found == {"CERN-DST": "it redirects to an address that is not encrypted, or not on the network"}
        assert tokens == [None]
        with (tmp_path / "keys" / "storage.pem").open("ab") as trusted:
            trusted.write((tmp_path / "storage.pem").read_bytes())
        other.files["/moved"] = b"moved"
        storage.answers = [f"{other.url}/moved"]
        fetch([replica(storage.url + LFN)], target, environment={"BEARER_TOKEN": "secret"}, force=True)
        assert target.read_bytes() == b"moved"
        assert storage.seen[-1] == ("GET", LFN, "secret")
        assert other.seen == [("GET", "/moved", "")]
        storage.answers = [storage.url + LFN] * 20
        assert "redirects more than" in problems(replica(storage.url + LFN), target=tmp_path / "x")["CERN-DST"]


def test_a_storage_element_cannot_redirect_to_a_file_of_this_computer(target: Path) -> None:
    class Redirecting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", Path(__file__).as_uri())
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Redirecting) as server:
        assert "not on the network" in problems(replica(f"{server.url}/x"), target=target)["CERN-DST"]


def test_a_token_that_cannot_be_sent_is_not_shown(storage: StorageServer, target: Path) -> None:
    found = problems(replica(storage.url + LFN), target=target, BEARER_TOKEN="sec\nret €")
    assert "characters that cannot be sent" in found["CERN-DST"]
    assert "€" not in str(found)
    assert "secret" not in str(found)
