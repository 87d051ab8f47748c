"""One job in the agent, from the lease to the last report; the agent is a separate process."""

import io
import os
import shlex
import tarfile
from pathlib import Path

import pytest

from tests.agent.conftest import StartAgent
from tests.agent.running import WITHOUT_NAMESPACES, marker, processes_with
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer


def _archive(**files: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return content.getvalue()


def test_a_job_runs_and_its_output_is_uploaded(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'echo to standard output; echo to standard error >&2; echo kept > result.txt'")
    server.waiting[0]["output_sandbox"] = ["result.*"]

    agent = start()

    assert agent.wait() == 0, agent.log
    lease = server.lease
    assert lease.statuses == ["Running", "Completing"]
    assert lease.finished is not None
    assert lease.finished["exit_code"] == 0
    assert lease.files() == {
        "result.txt": "kept\n",
        "std.err": "to standard error\n",
        "std.out": "to standard output\n",
    }
    assert list(agent.work.iterdir()) == []
    assert server.leaving == ["no job for me"]


def test_the_payload_sees_a_small_environment_and_nothing_of_the_pilot(
    server: ScriptedServer, start: StartAgent
) -> None:
    server.add_job("/bin/sh", "-c 'env; ls /proc/self/fd; pwd; read line || echo no input'", job_name="mine")
    server.waiting[0]["environment"] = {"COLOR": "blue sky", "WMS_JOB_ID": "forged"}

    agent = start(environment={"SECRET_OF_THE_SITE": "x", "LANG": "C.UTF-8"})

    assert agent.wait() == 0, agent.log
    lines = server.lease.files()["std.out"].splitlines()
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    directory = told.pop("HOME")
    assert told.pop("USER") == told.pop("LOGNAME") != ""
    for of_the_shell in ("_", "OLDPWD", "SHLVL"):
        told.pop(of_the_shell, None)
    assert directory.startswith(str(agent.work))
    assert told.pop("TMPDIR").startswith(str(Path(directory).parent))
    assert told.pop("PATH")
    assert told == {
        "PWD": directory,
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",
        "COLOR": "blue sky",
        "WMS_JOB_ID": "1",
        "DIRACJOBID": "1",
        "JOBID": "1",
        "WMS_JOB_NAME": "mine",
        "WMS_JOB_OWNER": "alice",
        "WMS_MATCH_ID": server.lease.match_id,
        "WMS_PROCESSORS": "1",
        "DIRAC_PROCESSORS": "1",
        "DIRAC_JOB_PROCESSORS": "1",
        "DIRAC_WHOLENODE": "False",
        "WMS_SITE": "LCG.Test.org",
        "DIRACSITE": "LCG.Test.org",
        "WMS_CE": "ce1",
        "WMS_QUEUE": "grid",
    }
    assert lines[-6:] == ["0", "1", "2", "3", directory, "no input"]  # 3 is of ls itself
    assert PILOT_TOKEN not in agent.log
    assert server.lease.token not in agent.log


def test_arguments_are_split_like_a_shell_without_a_shell(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("printf", "'%s\\n' 'two words' $HOME ';' '*' \"\"")

    start().wait()

    assert server.lease.files()["std.out"] == "two words\n$HOME\n;\n*\n\n"


@pytest.mark.parametrize(
    ("executable", "arguments", "exit_code", "minor"),
    [
        ("/bin/sh", "-c 'exit 3'", 3, None),
        ("/bin/sh", "-c 'exit 222'", 222, None),
        ("/bin/sh", "-c 'kill -TERM $$'", 143, "Killed by signal 15 (SIGTERM)"),
        ("/bin/sh", "-c 'kill -SEGV $$'", 139, "Killed by signal 11 (SIGSEGV)"),
        ("no-such-program", "", 127, "Executable not found: no-such-program"),
        ("/no/such/program", "", 127, "Executable not found: /no/such/program"),
        ("../../../bin/true", "", 127, "Executable not found: ../../../bin/true"),
        ("x" * 256, "", 127, f"Executable not found: {'x' * 256}"[:255]),
        ("/bin/sh", "nul\0", 126, "The executable cannot be run: Invalid argument"),
        ("/etc/passwd", "", 126, "The executable may not be executed on the node: /etc/passwd"),
        ("/bin/sh", "'unbalanced", None, "The arguments cannot be split as a shell would: No closing quotation"),
    ],
)
def test_exit_codes_and_signals_are_reported(
    server: ScriptedServer, start: StartAgent, executable: str, arguments: str, exit_code: int | None, minor: str | None
) -> None:
    server.add_job(executable, arguments)

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == exit_code
    assert server.lease.finished.get("minor_status") == minor


def test_input_sandboxes_are_unpacked_or_put_under_their_names(server: ScriptedServer, start: StartAgent) -> None:
    archive = server.add_sandbox(_archive(**{"lib/data.txt": "of the archive\n"}), file_name="x", is_archive=True)
    script = server.add_sandbox(b"#!/bin/sh\ncat lib/data.txt $1\n", file_name="run.sh")
    plain = server.add_sandbox(b"", file_name="empty")
    server.add_job("run.sh", "empty", input_sandboxes=[archive, script, plain])

    agent = start()

    assert agent.wait() == 0, agent.log
    assert server.lease.files()["std.out"] == "of the archive\n"
    assert {seen.token for seen in server.seen if "/sandboxes/" in seen.path} == {server.lease.token}


def test_a_script_without_an_interpreter_line_is_run_by_the_shell(server: ScriptedServer, start: StartAgent) -> None:
    script = server.add_sandbox(b"echo by the shell: $1\n", file_name="run.sh")
    server.add_job("./run.sh", "argument", input_sandboxes=[script])

    start().wait()

    assert server.lease.files()["std.out"] == "by the shell: argument\n"


_FOREIGN = b"\x7fELF\2\2\1" + bytes(9) + b"\0\2\0\x16" + bytes(44)  # for s390x
_NO_PROGRAM = "The interpreter of run.sh, no-such, is not on the node"
_WINDOWS = "The first line of run.sh ends with a Windows line ending (CR): save it with Unix line endings"
_FILES: list[tuple[bytes, int, str | None]] = [
    (b"#!/bin/sh\r\necho done\r\n", 127, _WINDOWS),
    (b"#!/usr/bin/env python3\r\nprint()\r\n", 127, _WINDOWS),
    (b"", 126, "The executable run.sh is empty"),
    (b"#!/no/such/python -u\n", 127, "The interpreter of run.sh, /no/such/python, is not on the node"),
    (b"#!no-such\n", 127, _NO_PROGRAM),
    (b"#!/usr/bin/env no-such\n", 127, _NO_PROGRAM),
    (b"#!/etc/passwd\n", 126, "The interpreter of run.sh, /etc/passwd, may not be executed on the node"),
    (_FOREIGN, 126, f"Exec format error: run.sh is for s390x, the node is {os.uname().machine}"),
    (b"\x1f\x8b\x08\0", 126, "Exec format error: run.sh"),
    (b"#!\nexit 5\n", 5, None),
    (b"# caf\xc3\xa9\nexit 6\n", 6, None),
    (b"#!/usr/bin/env sh\nexit 7\n", 7, None),
]


def test_a_file_that_cannot_be_executed_is_named_with_the_reason(server: ScriptedServer, start: StartAgent) -> None:
    for content, _, _ in _FILES:
        server.add_job("run.sh", input_sandboxes=[server.add_sandbox(content, file_name="run.sh")])

    assert start().wait() == 0

    ends = [lease.finished or {} for lease in server.leases]
    assert [(end["exit_code"], end.get("minor_status")) for end in ends] == [
        (exit_code, minor) for _, exit_code, minor in _FILES
    ]


def test_a_damaged_input_sandbox_is_fetched_again(server: ScriptedServer, start: StartAgent) -> None:
    sandbox = server.add_sandbox(b"the right content", file_name="data")
    server.add_job("cat", "data", input_sandboxes=[sandbox])
    digest = sandbox["sandbox"].removeprefix("sha256:")
    server.script(f"{digest}/", (200, b"the wrong content"), (200, b"the right content and more"))

    assert start().wait() == 0

    assert server.lease.files()["std.out"] == "the right content"


def test_repeatedly_damaged_input_hands_the_job_back(server: ScriptedServer, start: StartAgent) -> None:
    sandbox = server.add_sandbox(b"the right content", file_name="data")
    server.add_job("cat", "data", input_sandboxes=[sandbox])
    server.script(f"{sandbox['sandbox'][7:]}/", *[(200, b"the wrong content")] * 3)

    assert start().wait() == 0

    assert server.lease.finished == {
        "exit_code": 222,
        "minor_status": "Input sandbox data arrives damaged",
        "usage": {},
    }
    assert server.lease.statuses == []


def test_an_unsafe_archive_fails_the_job_and_leaves_nothing_outside(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    sandbox = server.add_sandbox(_archive(**{"../../escaped": "x"}), file_name="x.tar.gz", is_archive=True)
    server.add_job("true", input_sandboxes=[sandbox])

    agent = start()

    assert agent.wait() == 0
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert "cannot be unpacked" in server.lease.finished["minor_status"]
    assert list(agent.work.iterdir()) == []
    assert not list(tmp_path.rglob("escaped"))


def test_a_missing_input_sandbox_fails_the_job(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("true", input_sandboxes=[server.add_sandbox(b"x", file_name="data")])
    server.sandboxes.clear()

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert "Input sandbox data cannot be fetched" in server.lease.finished["minor_status"]


@pytest.mark.parametrize("missing", ["/no/such/release", "no-such-command"])
def test_missing_software_hands_the_job_back(server: ScriptedServer, start: StartAgent, missing: str) -> None:
    server.add_job("true", software=["/bin", "sh", missing])

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 222
    assert server.lease.finished["minor_status"] == f"Software is missing on the node: {missing}"
    assert server.lease.finished["fault"] == "job"
    # Its operators are told, but the node did what it should: nothing is wrong with it for other jobs.
    assert len(server.node_reports) == 1
    assert server.flaws == [{"name": "software", "detail": f"Software is missing on the node: {missing}"}]
    assert server.lease.statuses == []


def test_output_is_chosen_by_patterns_and_never_from_outside(server: ScriptedServer, start: StartAgent) -> None:
    script = (
        "mkdir -p plots/deep; echo 1 > plots/a.txt; echo 2 > plots/deep/b.txt; echo 3 > c.root; echo 4 > 'odd [1].dat';"
        "ln -s /etc/passwd stolen.root; ln -s c.root alias.root; mkfifo pipe.root; echo 5 > $TMPDIR/t.root;"
        "chmod 000 plots/deep; printf x > \"$(printf 'bell\\a.root')\""
    )
    server.add_job("/bin/sh", f"-c {shlex.quote(script)}", std_output="logs/out.txt", std_error="logs/out.txt")
    server.waiting[0]["output_sandbox"] = ["plots", "*.root", "odd [1].dat", "absent", "../*", "/etc/hosts"]

    agent = start()

    assert agent.wait() == 0, agent.log
    files = server.lease.files()
    assert files.pop("plots/deep/b.txt", "2\n") == "2\n"  # only root can read it
    assert files == {
        "alias.root": "3\n",
        "bell\\x07.root": "x",
        "c.root": "3\n",
        "logs/out.txt": "",
        "odd [1].dat": "4\n",
        "plots/a.txt": "1\n",
    }
    assert list(agent.work.iterdir()) == []


def test_an_oversized_output_keeps_the_ends_of_the_streams(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["sandbox_max_bytes"] = 8000
    server.add_job("/bin/sh", "-c 'head -c 20000 /dev/urandom > big; seq 9999'", output_sandbox=["big"])

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
    assert server.lease.finished["minor_status"].startswith(
        "Execution complete; output sandbox: too large: std.out (48888 bytes; limit 8000 bytes packed; "
        "its end is stored)"
    )
    assert server.lease.files()["std.out"].endswith("9998\n9999\n")
    assert len(server.lease.files()["std.out"]) == 2000


def test_refused_output_is_reported_with_the_result(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("/bin/sh", "-c 'exit 5'")
    refusal = (413, {"code": "sandbox_too_large", "detail": "A sandbox may have 1 byte."})
    server.script("/sandboxes/", refusal, refusal)

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 5
    assert "output_sandbox" not in server.lease.finished
    sentence = "Exited with code 5; the output was refused: A sandbox may have 1 byte.; it is kept at "
    assert server.lease.finished["minor_status"].startswith(sentence)


def test_usage_counts_all_processes(server: ScriptedServer, start: StartAgent) -> None:
    burn = "import time; x = bytearray(50_000_000)\nwhile time.process_time() < 0.5: pass"
    server.add_job("/bin/sh", f"-c {shlex.quote(f'head -c 3000000 /dev/zero > f; python3 -c {shlex.quote(burn)}')}")

    agent = start()

    assert agent.wait() == 0
    assert server.lease.finished is not None, agent.log
    assert server.lease.finished["exit_code"] == 0, server.lease.files()
    usage = server.lease.finished["usage"]
    assert 0.5 <= usage["cpu_s"] < 3
    assert usage["wall_s"] >= 0.5
    assert 50 <= usage["memory_mb"] < 300
    assert 2.8 <= usage["disk_mb"] < 4


def test_processes_left_by_a_payload_are_ended(server: ScriptedServer, start: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", f"-c 'env -i setsid sleep {mark} & (setsid setsid sleep {mark} &) ; exit 0'")

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0
    assert processes_with(mark) == []


@pytest.mark.root
def test_killing_the_supervisor_harms_only_the_payload(server: ScriptedServer, start_plainly: StartAgent) -> None:
    mark = marker()
    server.add_job("/bin/sh", f"-c 'setsid sleep {mark} & kill -9 $PPID; sleep {mark}'")
    server.add_job("true")

    assert start_plainly(**WITHOUT_NAMESPACES).wait() == 0

    killed, after = server.leases
    assert killed.finished is not None
    assert killed.finished["exit_code"] is None
    assert after.finished is not None
    assert after.finished["exit_code"] == 0
    assert processes_with(mark) == []


@pytest.mark.parametrize(
    ("std_output", "said"),
    [
        ("a/b", "Output cannot be written to a: Is a directory"),
        ("c", "Output cannot be written to a: it is a symbolic link"),
    ],
)
def test_a_standard_stream_that_cannot_be_opened_is_the_fault_of_the_job(
    server: ScriptedServer, start: StartAgent, std_output: str, said: str
) -> None:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        if std_output == "c":
            link = tarfile.TarInfo("a")
            link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
            archive.addfile(link)
    sandbox = server.add_sandbox(content.getvalue(), file_name="in.tar.gz", is_archive=True)
    server.add_job("/bin/true", std_output=std_output, std_error="a", input_sandboxes=[sandbox])

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == said
    assert server.lease.finished["exit_code"] is None
    assert server.flaws == []
