"""Payloads that damage the files of their job, and the report that still arrives; they run as an ordinary user."""

import shlex
from pathlib import Path

import pytest

from tests.agent.conftest import PYTHON, StartAgent
from tests.agent.scripted import ScriptedServer

#: More than the stack of a recursion, and than a path, can hold.
BURY = """
import os
for _ in range(5000):
    os.mkdir("d")
    os.chdir("d")
    if _ == 1500:
        open("found", "w").write("yes")
open("buried", "wb").write(b"1" * 3_000_000)
os.chmod("../../d", 0)
"""


def _shell(script: str) -> tuple[str, str]:
    return "/bin/sh", f"-c {shlex.quote(script)}"


def _python(script: str) -> tuple[str, str]:
    return PYTHON, f"-c {shlex.quote(script)}"


def test_output_without_read_permission_is_still_collected(server: ScriptedServer, start_plainly: StartAgent) -> None:
    script = "mkdir -p a/b; echo 1 > a/b/c; echo out; chmod 0 a/b/c a/b a std.out .; chmod 0 $TMPDIR"
    server.add_job(*_shell(script), output_sandbox=["a", "a/b/c", "*.txt"])

    agent = start_plainly()

    assert agent.wait() == 0, agent.log
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == "Execution complete; output sandbox: not found: *.txt"
    assert server.lease.files() == {"a/b/c": "1\n", "std.err": "", "std.out": "out\n"}
    assert list(agent.work.iterdir()) == []


def test_very_deep_directories_do_not_stop_pilot_or_other_jobs(
    server: ScriptedServer, start_plainly: StartAgent
) -> None:
    server.add_job(*_python(BURY), output_sandbox=["d", "**/found"])
    server.add_job(*_shell("echo second"))

    agent = start_plainly()

    assert agent.wait() == 0, agent.log
    first, second = server.leases
    assert first.finished is not None
    assert first.finished["exit_code"] == 0
    assert first.finished["usage"]["disk_mb"] > 2.8
    assert [content for name, content in first.files().items() if not name.startswith("std.")] == ["yes"]
    assert second.files()["std.out"] == "second\n"
    assert list(agent.work.iterdir()) == []


def test_a_deleted_open_file_counts_as_disk_usage(server: ScriptedServer, start_plainly: StartAgent) -> None:
    script = "exec 7> gone; rm gone; head -c 30000000 /dev/zero >&7; exec sleep 1000"
    server.add_job(*_shell(script), disk_mb=10)

    assert start_plainly().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert server.lease.finished["minor_status"].startswith("Disk limit exceeded: ")


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("n" * 300, "n" * 40 + "…"),
        ("**/" * 50 + "x", ("**/" * 50)[:40] + "…"),
        ("[", "["),
        ("a**b", "a**b"),
        ("nul\0", "nul?"),
    ],
    ids=["long", "deep", "bracket", "stars", "nul"],
)
def test_an_invalid_output_pattern_loses_no_other_output(
    server: ScriptedServer, start_plainly: StartAgent, pattern: str, named: str
) -> None:
    server.add_job(*_shell("echo out > kept"), output_sandbox=[pattern, "kept"])

    assert start_plainly().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == f"Execution complete; output sandbox: not found: {named}"
    assert server.lease.files()["kept"] == "out\n"


@pytest.mark.parametrize("replaced", ["rm std.out; mkfifo std.out", "ln -sf /etc/passwd std.out", 'rm -rf "$PWD"'])
def test_a_payload_that_removes_its_output_has_none_and_is_reported(
    server: ScriptedServer, start_plainly: StartAgent, replaced: str
) -> None:
    server.add_job(*_shell(f"{replaced}; echo told; exit 3"))

    assert start_plainly().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 3
    assert "std.out" not in server.lease.files()
    # Who peeks sees it all the same.
    assert any(beat.get("std_output") == "told\n" for beat in server.lease.heartbeats)


def test_output_data_of_any_name_are_reported(
    server: ScriptedServer, start_plainly: StartAgent, tmp_path: Path
) -> None:
    place = {"storage_element": "SE", "url": f"file://{tmp_path}", "path": "/lhcb/x"}
    server.add_job(
        *_python(r"import os; os.symlink('/etc/passwd', b'\xff.dat')"),
        output_data=["*.dat"], job_data={"destination": place},
    )  # fmt: skip

    assert start_plainly().wait() == 0

    assert server.lease.finished is not None
    sentence = r"Output data could not be stored: \xff.dat is a link out of the job's directory"
    assert server.lease.finished["minor_status"] == sentence
