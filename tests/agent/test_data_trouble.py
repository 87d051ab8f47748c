"""Storage elements that fail, and output that cannot be sent or named: the pilot goes on, without leaking secrets."""

from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from pilots.agent.data.storage import Storage
from pilots.agent.server.http import TooMuchError
from tests.agent.conftest import StartAgent
from tests.agent.scripted import ScriptedServer
from tests.agent.test_data import TOKEN, adler32, input_file, job_data, storage
from tests.cases import quick_cases
from tests.storage import StorageServer

__all__ = ["storage"]


def handed_back(server: ScriptedServer) -> str:
    """Return why the job was handed back."""
    finished = server.lease.finished
    assert finished is not None
    assert finished["exit_code"] == 222
    minor: str = finished["minor_status"]
    return minor


# ---- Transfers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", quick_cases([{}, {"size_bytes": 100}, {"checksum": adler32(b"x" * 100)}], quick=1))
def test_an_interrupted_transfer_is_repeated_and_partial_files_are_not_used(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, fields: dict[str, Any]
) -> None:
    storage.files["/lhcb/a"] = b"x" * 100
    storage.cuts = [50, 0]
    server.add_job("/usr/bin/wc", "-c a", job_data=job_data(input_file("/lhcb/a", f"{storage.url}/lhcb/a", **fields)))

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.files()["std.out"].split() == ["100", "a"]
    assert [verb for verb, *_ in storage.seen] == ["GET"] * 3


@pytest.mark.parametrize(
    "location",
    [
        "https://127.0.0.1:99999/x",
        "https://127.0.0.1:abc/x",
        "https://[bad/x",
        "https:///x",
        "https://127.0.0.1/a b?signature=hush",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
    ],
)
@pytest.mark.parametrize("policy", ["download", "in_place"])
def test_a_redirect_to_nowhere_loses_only_that_replica(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, location: str, policy: str
) -> None:
    storage.files["/far/lhcb/a"] = b"12345"
    storage.answers.append(location)
    far = {"url": f"{storage.url}/far/lhcb/a", "storage_element": "SE", "size_bytes": 5, "checksum": ""}
    file = input_file("/lhcb/a", f"{storage.url}/lhcb/a", other_copies=[far])
    server.add_job("/bin/true", job_data=job_data(file), input_data_policy=policy)

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert "input_data.unreadable" in agent.log
    assert "agent.fault" not in agent.log
    assert "hush" not in agent.log


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1:99999/x", "not a URL"),
        ("https://127.0.0.1:abc/x", "not a URL"),
        ("https://[bad/x", "not a URL"),
        ("https:/x", "addresses of the kind"),
        ("https://127.0.0.1/a b?signature=hush", "cannot be sent"),
        ("file:///nonexistent%00x", "no such file"),
        ("file://user:hush@host/nonexistent?hush", "no such file"),
    ],
)
@pytest.mark.parametrize("policy", ["download", "in_place"])
def test_an_invalid_url_hands_the_job_back_and_logs_no_secret(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, url: str, words: str, policy: str
) -> None:
    if words == "cannot be sent":
        url = url.replace("127.0.0.1", storage.url.removeprefix("https://"))
    server.add_job("/bin/true", job_data=job_data(input_file("/lhcb/a", url)), input_data_policy=policy)

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert words in handed_back(server)
    assert "hush" not in agent.log + handed_back(server)


@pytest.mark.parametrize("token", ["hush\nhush", "日本hush"])
def test_a_credential_that_cannot_be_sent_is_not_disclosed(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, token: str
) -> None:
    storage.files["/lhcb/a"] = b"12345"
    server.add_job("/bin/true", job_data=job_data(input_file("/lhcb/a", f"{storage.url}/lhcb/a"), token=token))

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert "cannot be sent" in handed_back(server)
    assert "hush" not in agent.log + handed_back(server)


# ---- Output ----------------------------------------------------------------------------------------------------------


def test_output_is_stored_and_registered_under_the_composed_name(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    decomposed = normalize("NFD", "café")
    (tmp_path / "disk").mkdir()
    place = {"storage_element": "SE", "url": (tmp_path / "disk").as_uri(), "path": "/lhcb/x"}
    server.add_job("/bin/sh", f"-c 'echo one > {decomposed}'", job_data=job_data(output=place), output_data=["caf*"])

    agent = start()

    assert agent.wait() == 0, agent.log
    composed = normalize("NFC", decomposed)
    assert [replica["lfn"] for replica in server.lease.replicas] == [f"/lhcb/x/{composed}"]
    assert [path.name for path in (tmp_path / "disk/lhcb/x").iterdir()] == [composed]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["a", normalize("NFC", "b-é"), normalize("NFD", "b-é")], "two spellings"),
        (["a", "b" * 250], "at most 255"),
    ],
)
def test_names_that_cannot_be_registered_fail_the_job_before_anything_is_stored(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, names: list[str], reason: str
) -> None:
    (tmp_path / "disk").mkdir()
    place = {"storage_element": "SE", "url": (tmp_path / "disk").as_uri(), "path": "/lhcb/x"}
    script = "; ".join(f'echo > "{name}"' for name in names)
    server.add_job("/bin/sh", f"-c '{script}'", job_data=job_data(output=place), output_data=["a", "b*"])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None, agent.log
    assert reason in server.lease.finished["minor_status"]
    assert list((tmp_path / "disk").iterdir()) == []
    assert server.lease.replicas == []


def test_a_partial_upload_fails_the_job_and_registers_the_stored_files(
    server: ScriptedServer, start: StartAgent, storage: StorageServer
) -> None:
    storage.refused.add("/lhcb/x/two")
    place = {"storage_element": "SE", "url": storage.url, "path": "/lhcb/x"}
    script = "-c 'for name in one two; do echo $name > $name; done'"
    server.add_job("/bin/sh", script, job_data=job_data(output=place), output_data=["one", "two"])

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None, agent.log
    assert "Output data could not be stored" in server.lease.finished["minor_status"]
    assert set(storage.files) == {f"{place['path']}/one"}
    assert [replica["lfn"] for replica in server.lease.replicas] == ["/lhcb/x/one"]
    assert TOKEN not in agent.log


def test_a_download_stops_at_the_registered_size(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"12345")
    arrived = tmp_path / "arrived"

    with pytest.raises(TooMuchError, match="it has 5 bytes, not 4"):
        Storage().fetch(f"file://{tmp_path}/large", token="", into=arrived, max_bytes=4, give_up=lambda: False)

    assert not arrived.exists()
