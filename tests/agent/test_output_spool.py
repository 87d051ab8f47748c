"""Output that cannot be delivered stays on the node, and the owner is notified."""

import os
import tarfile
from pathlib import Path

import pytest

from tests.agent.conftest import StartAgent, kept_archive
from tests.agent.scripted import ScriptedServer
from tests.agent.test_data import job_data
from tests.cases import quick_cases


def test_refused_output_is_kept_and_its_location_reported(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'echo worth a lot'")
    refusal = (413, {"code": "sandbox_too_large", "detail": "A sandbox may have 1 byte."})
    server.script("/sandboxes/", refusal, refusal)

    agent = start()

    assert agent.wait() == 0
    assert server.lease.finished is not None
    place = kept_archive(server, tmp_path)
    assert server.lease.finished["minor_status"].endswith(f"; it is kept at {os.uname().nodename}:{place}")
    with tarfile.open(place) as archive:
        content = archive.extractfile("std.out")
        assert content is not None
        assert content.read() == b"worth a lot\n"
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert list(agent.work.iterdir()) == []


@pytest.mark.parametrize("refused", [False, True])
def test_oversized_output_is_kept_on_the_node_and_its_ends_stored(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, refused: bool
) -> None:
    script = "head -c 20000 /dev/urandom > big; echo 1 > small; echo out"
    server.add_job("/bin/sh", f"-c '{script}'", output_sandbox=["big", "small"])
    if refused:
        server.script("/sandboxes/", (400, {"code": "unsafe_archive", "detail": "It is not liked."}))
    else:
        server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    sentence = (
        "the output was refused (It is not liked.); only the ends of standard output and error were stored"
        if refused
        else "output sandbox: too large: big (20000 bytes; limit 8000 bytes packed)"
    )
    archive = kept_archive(server, tmp_path, "output.tar.gz" if refused else "rest-of-output.tar.gz")
    assert minor == f"Execution complete; {sentence}; it is kept at {os.uname().nodename}:{archive}"
    assert server.lease.files() == {"std.err": "", "std.out": "out\n"} | ({} if refused else {"small": "1\n"})
    with tarfile.open(archive) as content:
        sizes = {member.name: member.size for member in content}
    assert sizes == {"big": 20000} | ({"small": 2, "std.err": 0, "std.out": 4} if refused else {})


@pytest.mark.parametrize("is_all_lost", [True, False])
def test_output_that_cannot_be_kept_is_reported_as_lost(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, is_all_lost: bool
) -> None:
    script = "head -c 20000 /dev/urandom > big; truncate -s 300M bigger; echo out"
    wanted = ["bigger"] if is_all_lost else ["big", "bigger"]
    server.add_job("/bin/sh", f"-c '{script}'", output_sandbox=wanted)
    server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    assert server.lease.finished["output_lost"]
    bigger = "bigger (300 MB; limit 200 MB)"
    if is_all_lost:
        assert minor == f"Execution complete; output sandbox: too large: {bigger}; it is lost"
        return
    archive = kept_archive(server, tmp_path, "rest-of-output.tar.gz")
    assert bigger in minor
    assert minor.endswith(f"; 1 of 2 files are kept at {os.uname().nodename}:{archive}")


def test_the_output_that_fits_is_kept_too_if_the_upload_fails(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'head -c 20000 /dev/urandom > big; echo out'", output_sandbox=["big"])
    server.configuration["sandbox_max_bytes"] = 8000
    refusal = (400, {"code": "unsafe_archive", "detail": "It is not liked."})
    server.script("/sandboxes/", refusal, refusal)

    assert start().wait() == 0

    assert server.lease.finished is not None
    packed, rest = (kept_archive(server, tmp_path, name) for name in ("output.tar.gz", "rest-of-output.tar.gz"))
    place = f"it is kept at {os.uname().nodename}:{packed}; output sandbox: too large: big ("
    assert place in server.lease.finished["minor_status"]
    assert server.lease.finished["output_lost"]
    with tarfile.open(packed) as content:
        assert content.getnames() == ["std.err", "std.out"]
    with tarfile.open(rest) as content:
        assert content.getnames() == ["big"]


def test_the_whole_output_is_stored_at_the_element_once_if_the_upload_is_refused_too(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    (tmp_path / "se").mkdir()
    place = {"storage_element": "SE", "url": f"file://{tmp_path}/se", "path": "/lhcb/1"}
    server.add_job(
        "/bin/sh", "-c 'head -c 20000 /dev/urandom > big; echo out'", output_sandbox=["big"], output_se="SE",
        job_data={"input_files": [], "destination": place, "credentials": {}},
    )  # fmt: skip
    server.configuration["sandbox_max_bytes"] = 8000
    server.script("/sandboxes/", (400, {"code": "unsafe_archive", "detail": "It is not liked."}))

    assert start().wait() == 0

    assert len(server.requests_to("/outputs/")) == len(server.lease.replicas) == 1
    assert server.lease.finished is not None
    assert "all of it is stored as LFN:/lhcb/1/output_sandbox_" in server.lease.finished["minor_status"]
    assert server.lease.files()["std.out"] == "out\n"


def test_output_too_large_for_the_server_goes_to_the_element_that_the_server_names(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    (tmp_path / "se").mkdir()
    server.sandbox_place = {"storage_element": "SE", "url": f"file://{tmp_path}/se", "path": "/lhcb/1"}
    server.add_job("/bin/sh", "-c 'head -c 20000 /dev/urandom > big; echo out'", output_sandbox=["big"])
    server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    assert minor.endswith("; all of it is stored as LFN:/lhcb/1/output_sandbox_1.tar.gz at SE")
    with tarfile.open(tmp_path / "se/lhcb/1/output_sandbox_1.tar.gz") as content:
        assert {member.name: member.size for member in content}["big"] == 20000
    assert "output_lost" not in server.lease.finished


def test_the_ends_of_the_streams_are_stored_from_memory_if_the_disk_is_full(
    server: ScriptedServer, start: StartAgent
) -> None:
    script = "echo said; for n in 1 2 3 4; do head -c 150000 /dev/urandom > f$n; done"
    server.add_job("/bin/sh", f"-c '{script}'", output_sandbox=["f*"])
    limited = ("/bin/sh", "-c", 'ulimit -f 400; exec "$@"', "sh")  # 200 KB: like a disk that is full

    assert start(enter=limited).wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == (
        "Execution complete; the output could not be packed: File too large; only the ends of standard output and "
        "error were stored"
    )
    assert server.lease.files() == {"std.out": "said\n", "std.err": ""}


def test_standard_streams_that_the_payload_removes_are_named(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'rm -f *; echo lost; echo r > r.txt'", output_sandbox=["r.txt"])

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == ("Execution complete; output sandbox: not found: std.out, std.err")


def test_a_long_reason_leaves_room_for_the_place_where_the_output_is(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    lfn = f"/lhcb/user/a/alice/{'long' * 30}/missing.dst"
    place = {"storage_element": "CERN-DST", "url": f"file://{tmp_path}/se", "path": "/lhcb/user/a/alice/1"}
    server.add_job(
        "/bin/sh", "-c 'head -c 20000 /dev/urandom > big'", output_sandbox=["big"], output_data=[f"LFN:{lfn}"],
        job_data=job_data(output=place),
    )  # fmt: skip
    server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    assert minor.startswith("Output data could not be st")
    archive = kept_archive(server, tmp_path, "rest-of-output.tar.gz")
    assert minor.endswith(f"; it is kept at {os.uname().nodename}:{archive}")
    assert len(minor) <= 255


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["here.txt", "*.log"], "output sandbox: not found: *.log"),
        (["absent", "here.txt", "sub/*"], "output sandbox: not found: absent, sub/*"),
        ([f"file{n}" for n in range(9)], "output sandbox: not found: file0, file1, file2 and 6 more"),
        (["x" * 200], f"output sandbox: not found: {'x' * 40}…"),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 3])
def test_missing_files_of_the_output_sandbox_are_named(
    server: ScriptedServer, start: StartAgent, wanted: list[str], said: str, exit_code: int
) -> None:
    server.add_job("/bin/sh", f"-c 'echo x > here.txt; exit {exit_code}'", output_sandbox=wanted)

    assert start().wait() == 0

    ended = "Exited with code 3" if exit_code else "Execution complete"
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == f"{ended}; {said}"
    assert ("here.txt" in server.lease.files()) == ("here.txt" in wanted)


@pytest.mark.parametrize("wanted", quick_cases([["link", "pipe", "none", "empty", "runs"], ["*"]], quick=1))
def test_output_that_cannot_be_stored_is_named_with_its_reason(
    server: ScriptedServer, start: StartAgent, wanted: list[str]
) -> None:
    script = "ln -s nothing link; mkfifo pipe; mkdir empty; mkdir r5; echo 1 > r5/a; ln -s r5 runs"
    server.add_job("/bin/sh", f"-c '{script}'", output_sandbox=wanted)

    assert start().wait() == 0

    assert server.lease.finished is not None
    absent = "not found: none; " if "none" in wanted else ""
    sentence = f"output sandbox: {absent}not stored: link (a link to nothing), pipe (a pipe)"
    assert server.lease.finished["minor_status"] == f"Execution complete; {sentence}"
    files = {"std.err": "", "std.out": "", "runs/a": "1\n"} | ({"r5/a": "1\n"} if wanted == ["*"] else {})
    assert server.lease.files() == files
    assert "empty" in server.lease.directories()


def test_an_upload_is_tried_again_before_anything_is_kept(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'echo out'")
    server.script("/sandboxes/", 503, 500, "drop the connection instead of answering")

    assert start().wait() == 0

    assert server.lease.files()["std.out"] == "out\n"
    assert not list(tmp_path.glob("kept*"))


@pytest.mark.parametrize("path", ["input", "output"])
def test_heartbeats_continue_during_sandbox_transfers(server: ScriptedServer, start: StartAgent, path: str) -> None:
    sandbox = server.add_sandbox(b"data", file_name="data")
    server.add_job("/bin/sh", "-c 'echo done'", input_sandboxes=[sandbox])
    slow = "wait so many seconds: 1.5"
    server.script(f"{sandbox['sandbox'][7:]}/" if path == "input" else "/sandboxes/", slow)

    assert start().wait() == 0

    moving = next(
        seen for seen in server.seen
        if seen.path.endswith("/sandboxes/" if path == "output" else f"{sandbox['sandbox'][7:]}/")
    )  # fmt: skip
    during = [seen for seen in server.requests_to("/heartbeat/") if moving.at <= seen.at <= moving.at + 1.5]
    assert len(during) >= 3
    if path == "output":
        assert during[-1].body["wall_s"] >= 0
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


@pytest.mark.parametrize("path", ["input", "output"])
def test_a_kill_command_is_executed_during_sandbox_transfers(
    server: ScriptedServer, start: StartAgent, path: str
) -> None:
    sandbox = server.add_sandbox(b"data", file_name="data")
    server.add_job("/bin/sh", "-c 'echo done'", input_sandboxes=[sandbox])
    name = f"{sandbox['sandbox'][7:]}/" if path == "input" else "/sandboxes/"
    server.script(name, *[503] * 100)
    agent = start()
    server.wait_until(lambda: server.requests_to(name) and server.lease.heartbeats)

    server.order("kill", id=3)

    assert agent.wait() == 0
    assert 3 in server.lease.acknowledged
