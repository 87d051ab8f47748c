"""Input data before the payload and output data after it; the agent is a process, storage is a real HTTPS server."""

import hashlib
import json
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from tests.agent.conftest import StartAgent, kept_archive
from tests.agent.scripted import ScriptedServer
from tests.storage import StorageServer

TOKEN = "bearer-of-the-storage"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageServer]:
    with StorageServer(tmp_path, token=TOKEN) as storage:
        yield storage


def input_file(lfn: str, url: str, **more: object) -> dict[str, Any]:
    return {"lfn": lfn, "url": url, "storage_element": "SE", "size_bytes": None, "checksum": "", **more}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return the directory that is a storage element."""
    disk = tmp_path / "a disk"
    disk.mkdir()
    return disk


def job_data(*files: dict[str, Any], output: dict[str, str] | None = None, token: str = TOKEN) -> dict[str, Any]:
    return {"input_files": list(files), "destination": output, "credentials": {"SE": token} if token else {}}


def stored_url(directory: Path, lfn: str, content: bytes) -> str:
    """Write a file of a file:// storage element; return its URL."""
    path = directory / "disk with blanks" / lfn[1:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path.as_uri()


def catalog(server: ScriptedServer) -> dict[str, str]:
    catalog: dict[str, str] = json.loads(server.lease.files()["input_data.json"])
    return catalog


# ---- Input -----------------------------------------------------------------------------------------------------------


def test_files_are_fetched_into_the_directory_and_a_catalog_says_where_they_are(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, tmp_path: Path
) -> None:
    storage.files["/data/lhcb/b%20c"] = b"over https"
    files = [
        input_file(
            "/lhcb/a", stored_url(tmp_path, "/lhcb/a", b"from disk"), size_bytes=9, checksum=adler32(b"from disk")
        ),
        input_file("/lhcb/b c", f"{storage.url}/data/lhcb/b%20c", size_bytes=10, checksum=sha256(b"over https")),
        input_file("/lhcb/other/a", stored_url(tmp_path, "/lhcb/other/a", b"same name")),
    ]
    server.add_job(
        "/bin/sh", "-c 'cat a \"b c\" input_data.2/a; env'", job_data=job_data(*files), output_sandbox=["*.json"]
    )

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
    assert server.lease.files()["std.out"].startswith("from diskover httpssame name")
    assert [Path(path).name for path in catalog(server).values()] == ["a", "b c", "a"]
    assert list(catalog(server)) == ["/lhcb/a", "/lhcb/b c", "/lhcb/other/a"]
    assert storage.seen == [("GET", "/data/lhcb/b%20c", TOKEN)]
    assert TOKEN not in agent.log + server.lease.files()["std.out"]


def test_input_data_policy_in_place_downloads_no_files(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, tmp_path: Path
) -> None:
    storage.files["/lhcb/b"] = b"over https"
    url = stored_url(tmp_path, "/lhcb/a", b"from disk")
    files = [
        input_file("/lhcb/a", url, checksum=sha256(b"from disk")),
        input_file("/lhcb/b", f"{storage.url}/lhcb/b", size_bytes=10),
    ]
    server.add_job(
        "/bin/sh", "-c ls", job_data=job_data(*files), input_data_policy="in_place", output_sandbox=["*.json"]
    )

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert catalog(server) == {
        "/lhcb/a": str(tmp_path / "disk with blanks/lhcb/a"),
        "/lhcb/b": f"{storage.url}/lhcb/b",
    }
    assert [verb for verb, *_ in storage.seen] == ["HEAD"]
    assert server.lease.files()["std.out"].split() == ["input_data.json", "std.err", "std.out"]


@pytest.mark.parametrize("policy", ["download", "in_place"])
def test_files_of_the_input_sandbox_are_fetched_whatever_the_policy_and_archives_unpacked(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, policy: str
) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\nsort data.txt; ls\n")
    packed = tmp_path / "packed.tgz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(tmp_path / "run.sh", "bin/run.sh")
    files = [
        input_file("/lhcb/a", stored_url(tmp_path, "/lhcb/a", b"from disk")),
        input_file("/lhcb/data.txt", stored_url(tmp_path, "/lhcb/data.txt", b"of the sandbox\n"), is_of_sandbox=True),
        input_file("/lhcb/p.tgz", stored_url(tmp_path, "/lhcb/p.tgz", packed.read_bytes()), is_of_sandbox=True),
    ]
    server.add_job(
        "bin/run.sh", job_data=job_data(*files), input_data_policy=policy, output_sandbox=["input_data.json"]
    )

    agent = start()

    assert agent.wait() == 0, agent.log
    assert list(catalog(server)) == ["/lhcb/a"]
    fetched = ["a"] if policy == "download" else []
    expected = ["of the sandbox", *fetched, "bin", "data.txt", "input_data.json", "p.tgz", "std.err", "std.out"]
    assert server.lease.files()["std.out"].splitlines() == expected


@pytest.mark.parametrize("content", [b"not an archive", b"\x1f\x8bdamaged"])
def test_a_damaged_archive_of_the_input_sandbox_fails_the_job(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, content: bytes
) -> None:
    file = input_file("/lhcb/p.tgz", stored_url(tmp_path, "/lhcb/p.tgz", content), is_of_sandbox=True)
    server.add_job("/bin/true", job_data=job_data(file))

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"].startswith("Input sandbox /lhcb/p.tgz cannot be unpacked: ")


def adler32(content: bytes) -> str:
    return f"adler32:{zlib.adler32(content):08x}"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.mark.parametrize("policy", ["download", "in_place"])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"size_bytes": 4}, "5 bytes, not 4"),
        ({"size_bytes": 6}, "5 bytes, not 6"),
        ({"checksum": "adler32:00000001"}, "adler32 mismatch"),
        ({"checksum": f"sha256:{'0' * 64}"}, "sha256 mismatch"),
        ({"url": "file:///nonexistent/a"}, "no such file"),
        ({"url": "file:///dev/zero"}, "no such file"),
        ({"url": ""}, "no copy of it is left"),
        ({"url": "ftp://127.0.0.1/a"}, "addresses of the kind"),
    ],
)
def test_mismatching_input_data_hand_the_job_back_and_recheck_the_node(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, policy: str, fields: dict[str, Any], reason: str
) -> None:
    file = (
        input_file("/lhcb/a", stored_url(tmp_path, "/lhcb/a", b"12345"), **fields)
        if "url" not in fields
        else input_file("/lhcb/a", **fields)
    )
    server.add_job("/bin/sh", "-c 'echo never'", job_data=job_data(file), input_data_policy=policy)

    agent = start()

    assert agent.wait() == 0, agent.log
    finished = server.lease.finished
    assert finished is not None
    assert finished["exit_code"] == 222
    assert "Input data /lhcb/a cannot be read" in finished["minor_status"]
    assert reason in finished["minor_status"]
    assert "Running" not in server.lease.statuses
    assert len(server.node_reports) == 2


@pytest.mark.parametrize("policy", ["download", "in_place"])
@pytest.mark.parametrize(
    "fields",
    [
        {"url": "file:///nonexistent/a"},
        {"checksum": "adler32:00000001"},
        {"size_bytes": 4},
        {"url": "https://near.example.org/data/lhcb/a"},
    ],
)
def test_an_unreadable_replica_is_replaced_by_the_next_nearest(
    server: ScriptedServer,
    start: StartAgent,
    storage: StorageServer,
    tmp_path: Path,
    policy: str,
    fields: dict[str, Any],
) -> None:
    storage.files["/far/lhcb/a"] = b"12345"
    near = {"url": stored_url(tmp_path, "/lhcb/a", b"12345"), "storage_element": "near", **fields}
    far = {"url": f"{storage.url}/far/lhcb/a", "storage_element": "SE", "size_bytes": 5, "checksum": adler32(b"12345")}
    if near["url"].startswith("https:"):
        storage.files["/data/lhcb/a"] = b"12345"
        storage.answers.append(404)
        near["url"] = f"{storage.url}/data/lhcb/a"
    file = input_file("/lhcb/a", **near, other_copies=[{**near, "url": "file:///nonexistent/b"}, far])
    more: dict[str, Any] = {"input_data_policy": policy, "output_sandbox": ["std.out", "*.json"]}
    server.add_job("/bin/sh", "-c 'ls -d input_data*'", job_data=job_data(file), **more)

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert server.lease.files()["std.out"].split() == ["input_data.json"]
    place = catalog(server)["/lhcb/a"]
    assert place == far["url"] if policy == "in_place" else place.endswith("/a")
    # The token is for its own storage element, and no other gets it.
    assert storage.seen[-1] == ("HEAD" if policy == "in_place" else "GET", "/far/lhcb/a", TOKEN)
    assert {token for _, path, token in storage.seen if path.startswith("/data")} <= {""}


@pytest.mark.parametrize(
    ("answer", "trusted", "reason"),
    [(404, True, "404"), (403, True, "403"), (0, False, "certificate"), ("http://127.0.0.1/x", True, "unencrypted")],
)
def test_a_refusing_or_untrusted_storage_element_hands_the_job_back(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, answer: int | str, trusted: bool, reason: str
) -> None:
    storage.answers.append(answer)
    server.add_job("/bin/true", job_data=job_data(input_file("/lhcb/a", f"{storage.url}/lhcb/a")))

    agent = start(*(["--ca", str(storage.certificate)] if trusted else []))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert reason in server.lease.finished["minor_status"]
    assert len(storage.seen) == trusted


def test_a_failing_storage_element_is_retried_and_its_token_is_not_redirected(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with StorageServer(elsewhere) as other:
        other.files["/moved"] = b"content"
        storage.answers += [503, f"{other.url}/moved"]
        (elsewhere / "both.pem").write_bytes(storage.certificate.read_bytes() + other.certificate.read_bytes())
        server.add_job("/bin/cat", "a", job_data=job_data(input_file("/lhcb/a", f"{storage.url}/lhcb/a")))

        agent = start("--ca", str(elsewhere / "both.pem"))

        assert agent.wait() == 0, agent.log
        assert other.seen == [("GET", "/moved", "")]
    assert server.lease.files()["std.out"] == "content"
    assert [token for *_, token in storage.seen] == [TOKEN, TOKEN]


# ---- Output ----------------------------------------------------------------------------------------------------------


def test_output_is_stored_and_registered_before_the_last_report(
    server: ScriptedServer, start: StartAgent, storage: StorageServer
) -> None:
    place = {"storage_element": "SE", "url": f"{storage.url}/data/", "path": "/lhcb/user/a/alice/7"}
    server.add_job(
        "/bin/sh",
        "-c 'echo one > one.root; mkdir sub; echo two > \"sub/two 2.root\"; echo no > no.txt'",
        job_data=job_data(output=place),
        output_data=["*.root", "sub"],
    )
    storage.answers.append(503)

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert storage.files == {
        "/data/lhcb/user/a/alice/7/one.root": b"one\n",
        "/data/lhcb/user/a/alice/7/sub/two%202.root": b"two\n",
    }
    assert server.lease.replicas == [
        {
            "lfn": f"/lhcb/user/a/alice/7/{name}",
            "storage_element": "SE",
            "size_bytes": 4,
            "checksum": sha256(content),
        }
        for name, content in {"one.root": b"one\n", "sub/two 2.root": b"two\n"}.items()
    ]
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


def test_missing_directories_are_created_at_the_storage_element(
    server: ScriptedServer, start: StartAgent, storage: StorageServer
) -> None:
    storage.directories = {"/data"}
    place = {"storage_element": "SE", "url": f"{storage.url}/data", "path": "/lhcb/7"}
    script = "'echo one > one; mkdir sub; echo two > \"sub/two 2\"'"
    server.add_job("/bin/sh", f"-c {script}", job_data=job_data(output=place), output_data=["one", "sub"])

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert storage.files == {"/data/lhcb/7/one": b"one\n", "/data/lhcb/7/sub/two%202": b"two\n"}
    assert {token for *_, token in storage.seen} == {TOKEN}
    assert len(server.lease.replicas) == 2


def test_a_storage_element_that_still_refuses_the_file_fails_the_job(
    server: ScriptedServer, start: StartAgent, storage: StorageServer
) -> None:
    storage.directories = {"/elsewhere"}
    place = {"storage_element": "SE", "url": f"{storage.url}/data", "path": "/lhcb/7"}
    server.add_job("/bin/sh", "-c 'echo one > one'", job_data=job_data(output=place), output_data=["one"])

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] != 0
    assert "409" in server.lease.finished["minor_status"]
    assert server.lease.replicas == []


def test_output_does_not_replace_a_file_of_its_name(server: ScriptedServer, start: StartAgent, disk: Path) -> None:
    old = disk / "lhcb/x/one"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb/x"}
    server.add_job("/bin/sh", "-c 'echo new > one'", job_data=job_data(output=place), output_data=["one"])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert {str(path.relative_to(disk)): path.read_text() for path in disk.rglob("*") if path.is_file()} == {
        "lhcb/x/one": "old",
        "default/one": "new\n",
    }
    assert [replica["lfn"] for replica in server.lease.replicas] == ["/default/one"]
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == (
        "Execution complete; /lhcb/x/one: it exists, so it is stored as LFN:/default/one"
    )


def test_what_an_earlier_attempt_has_left_is_removed_and_replaced(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    (disk / "lhcb").mkdir()
    for name in ("one", ".wms-earlier"):
        (disk / "lhcb" / name).write_text("old")
    left = {"size_bytes": 3, "checksum": sha256(b"old")}
    server.reservations["/lhcb/one"] = {"earlier": [left], "leftovers": ["/lhcb/.wms-earlier"]}
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb"}
    server.add_job("/bin/sh", "-c 'echo new > one'", job_data=job_data(output=place), output_data=["one"])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert {path.name: path.read_text() for path in (disk / "lhcb").iterdir()} == {"one": "new\n"}
    assert [replica["lfn"] for replica in server.lease.replicas] == ["/lhcb/one"]


def test_a_name_that_somebody_registers_meanwhile_costs_only_the_name(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    server.script("/replicas/", (409, {"code": "name_taken", "detail": "a file of this name has been registered"}))
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb"}
    server.add_job("/bin/sh", "-c 'echo new > one'", job_data=job_data(output=place), output_data=["one"])

    assert start().wait() == 0

    assert (disk / "default/one").read_text() == "new\n"
    assert [replica["lfn"] for replica in server.lease.replicas] == ["/default/one"]
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


def test_output_data_of_which_one_cannot_be_stored_are_kept_on_the_node(
    server: ScriptedServer, start: StartAgent, disk: Path, tmp_path: Path
) -> None:
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb"}
    script = "'echo precious > good.root; mkfifo pipe.root'"
    server.add_job("/bin/sh", f"-c {script}", job_data=job_data(output=place), output_data=["*.root"])

    assert start().wait() == 0

    archive = kept_archive(server, tmp_path, "output-data.tar.gz")
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"].startswith(
        "Output data could not be stored: pipe.root is a pipe; 1 of 2"
    )
    with tarfile.open(archive) as kept_files:
        assert kept_files.getnames() == ["good.root"]


def test_a_reservation_of_other_files_is_repeated(server: ScriptedServer, start: StartAgent, disk: Path) -> None:
    server.script("/outputs/", (200, {"files": []}))
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb"}
    server.add_job("/bin/sh", "-c 'echo new > one'", job_data=job_data(output=place), output_data=["one"])

    assert start().wait() == 0

    assert len(server.requests_to("/outputs/")) == 2
    assert [replica["lfn"] for replica in server.lease.replicas] == ["/lhcb/one"]
    assert (disk / "lhcb/one").read_text() == "new\n"


def test_what_is_stored_under_another_name_before_a_failure_is_named(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    (disk / "lhcb").mkdir()
    (disk / "lhcb/one").write_text("old")
    (disk / "lhcb/two").symlink_to("/nowhere")
    server.reservations["/lhcb/two"] = {"stored_as": "/lhcb/one/two"}
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb"}
    server.add_job(
        "/bin/sh", "-c 'echo new > one; echo new > two'", job_data=job_data(output=place), output_data=["one", "two"]
    )

    assert start().wait() == 0

    assert (disk / "default/one").read_text() == "new\n"
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    minor = server.lease.finished["minor_status"]
    assert "Output data could not be stored" in minor
    assert minor.endswith("/lhcb/one: it exists, so it is stored as LFN:/default/one")


@pytest.mark.parametrize(
    ("script", "patterns", "answer", "reason"),
    [
        ("echo one > one", ["two*"], None, "no file matches two*"),
        ("ln -s /etc/passwd one", ["one"], None, "a link out of the job's directory"),
        ("echo one > one", ["one"], 403, "403"),
    ],
)
def test_missing_or_refused_output_data_fail_the_job_and_keep_its_sandbox(
    server: ScriptedServer,
    start: StartAgent,
    storage: StorageServer,
    script: str,
    patterns: list[str],
    answer: int | None,
    reason: str,
) -> None:
    if answer:
        storage.answers.append(answer)
    place = {"storage_element": "SE", "url": storage.url, "path": "/lhcb/x"}
    server.add_job("/bin/sh", f"-c 'echo said; {script}'", job_data=job_data(output=place), output_data=patterns)

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert "Output data could not be stored" in server.lease.finished["minor_status"]
    assert reason in server.lease.finished["minor_status"]
    assert server.lease.files()["std.out"] == "said\n"
    assert server.lease.replicas == []
    assert storage.files == {}


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("results", None),
        ("link", None),
        ("empty", "empty is an empty directory"),
        ("nowhere", "nowhere is a link to nothing"),
        ("LFN:/lhcb/x/pipe", "pipe is a pipe"),
        ("LFN:/lhcb/x/results", "results is a directory"),
        ("LFN:/lhcb/x/nowhere", "nowhere is a link to nothing"),
    ],
)
def test_output_data_that_cannot_be_stored_are_named_with_the_reason(
    server: ScriptedServer, start: StartAgent, disk: Path, entry: str, said: str | None
) -> None:
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb/x"}
    script = "mkdir -p results/none empty; echo 1 > results/a; ln -s results link; ln -s none nowhere; mkfifo pipe"
    server.add_job("/bin/sh", f"-c '{script}'", job_data=job_data(output=place), output_data=[entry])

    assert start().wait() == 0

    assert server.lease.finished is not None
    if said is None:
        assert server.lease.finished["exit_code"] == 0, server.lease.finished
        assert [each["lfn"] for each in server.lease.replicas] == [f"/lhcb/x/{entry}/a"]
    else:
        assert server.lease.finished["minor_status"] == f"Output data could not be stored: {said}"


def test_the_output_of_a_payload_that_failed_is_not_stored(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb/x"}
    server.add_job("/bin/sh", "-c 'echo one > one; exit 3'", job_data=job_data(output=place), output_data=["one"])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 3
    assert list(disk.iterdir()) == []


def test_a_site_without_a_place_for_the_output_does_not_run_the_job(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/true", job_data=job_data(), output_data=["one"])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert "output_se" in server.lease.finished["minor_status"]


@pytest.mark.parametrize("entry", ["one", "o*", "LFN:/lhcb/user/a/alice/run1/one"])
def test_refused_output_data_are_kept_on_the_node(
    server: ScriptedServer, start: StartAgent, storage: StorageServer, tmp_path: Path, entry: str
) -> None:
    storage.answers.append(403)
    place = {"storage_element": "SE", "url": storage.url, "path": "/lhcb/x"}
    server.add_job("/bin/sh", "-c 'echo worth > one'", job_data=job_data(output=place), output_data=[entry])

    agent = start("--ca", str(storage.certificate))

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    archive = kept_archive(server, tmp_path, "output-data.tar.gz")
    assert server.lease.finished["minor_status"].endswith(f":{archive}"), server.lease.finished
    with tarfile.open(archive) as kept_files:
        assert kept_files.getnames() == ["one"]


def test_a_file_whose_name_is_decomposed_is_stored_under_the_composed_logical_name(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    lfn = normalize("NFC", "/lhcb/user/a/alice/é.root")
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb/x"}
    server.add_job(
        "/bin/sh", f"-c 'echo new > {normalize('NFD', 'é')}.root'", job_data=job_data(output=place),
        output_data=[f"LFN:{lfn}"],
    )  # fmt: skip

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert [replica["lfn"] for replica in server.lease.replicas] == [lfn]
    assert (disk / lfn[1:]).read_text() == "new\n"


def test_too_many_logical_names_fail_the_job_before_anything_is_stored(
    server: ScriptedServer, start: StartAgent, disk: Path
) -> None:
    place = {"storage_element": "SE", "url": disk.as_uri(), "path": "/lhcb/x"}
    lfns = [f"LFN:/lhcb/user/a/alice/{number}/one" for number in range(500)]
    server.add_job("/bin/sh", "-c 'echo > one'", job_data=job_data(output=place), output_data=["one", *lfns])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert "501 files match, at most 500 are stored" in server.lease.finished["minor_status"]
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(("content", "fault"), [(b"x" * 400_000, None), (None, "job")])
def test_input_data_for_which_the_node_has_no_room_are_the_nodes_fault(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, content: bytes | None, fault: str | None
) -> None:
    url = "file:///nonexistent/a" if content is None else stored_url(tmp_path, "/lhcb/a", content)
    server.add_job("/bin/true", job_data=job_data(input_file("/lhcb/a", url)))
    limited = ("/bin/sh", "-c", 'ulimit -f 400; exec "$@"', "sh")  # 200 KB: like a disk that is full

    agent = start(enter=limited)

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert server.lease.finished.get("fault") == fault, server.lease.finished
