"""The command line of dirac-jobexec, and the script that runs the steps, in the shells of worker nodes."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pace import within
from wms.jobs.domain.jobexec import Invocation, InvocationError, invocation_of, is_jobexec, script_of
from wms.jobs.domain.workflow_xml import Workflow, WorkflowStep

SHELLS = [shell for shell in ("/bin/sh", shutil.which("dash"), shutil.which("bash")) if shell]


def step(*words: str, log: str = "a.log", takes_arguments: bool = False) -> WorkflowStep:
    return WorkflowStep(words, takes_arguments=takes_arguments, log=log)


def script(*steps: WorkflowStep, arguments: Sequence[str] = ()) -> bytes:
    return script_of(Workflow(steps, arguments), file_name="jobDescription.xml", outputs={"std.out", "std.err"})


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(
    shell: str, directory: Path, *steps: WorkflowStep, given: Sequence[str] = (), default: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    (directory / "steps.sh").write_bytes(script(*steps, arguments=default))
    command = [shell, "./steps.sh", *given]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=within(60), check=False)


# ---- The command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("executable", "is_it"),
    [
        ("dirac-jobexec", True),
        ("/cvmfs/dirac.egi.eu/v9/bin/dirac-jobexec", True),
        ("$DIRACROOT/scripts/dirac-jobexec", True),
        ("./dirac-jobexec", False),
        ("bin/dirac-jobexec", False),
        ("dirac-jobexec.sh", False),
    ],
)
def test_the_program_is_known_by_its_name(executable: str, is_it: bool) -> None:
    assert is_jobexec(executable) is is_it


@pytest.mark.parametrize(
    ("arguments", "invocation"),
    [
        ("jobDescription.xml", ("jobDescription.xml", "", ())),
        ("jobDescription.xml -o LogLevel=INFO", ("jobDescription.xml", "", ())),
        ("-d ./w.xml --option LogLevel=INFO", ("w.xml", "", ())),
        ("w.xml -p arguments=': testing one 1'", ("w.xml", ": testing one 1", ())),
        ("w.xml --parameter=arguments='a \"b c\" %j' -o x", ("w.xml", 'a "b c" %j', ())),
        ("w.xml -p arguments=a -p arguments=b=c", ("w.xml", "b=c", ())),
        ("w.xml --cfg pilot.cfg  -p JOB_ID=7 -p JOB_ID=8", ("w.xml", "", ("--cfg", "-p JOB_ID"))),
        ("'my workflow.xml' pilot.cfg", ("my workflow.xml", "", ("pilot.cfg",))),
    ],
)
def test_the_command_line_of_dirac_is_read(arguments: str, invocation: tuple[str, str, tuple[str, ...]]) -> None:
    assert invocation_of(arguments) == Invocation(*invocation)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "dirac-jobexec runs one file, such as jobDescription.xml; arguments name 0."),
        ("a.xml b.xml", "dirac-jobexec runs one file, such as jobDescription.xml; arguments name 2."),
        ("a.xml --frobnicate", "dirac-jobexec: option --frobnicate not recognized."),
        ("a.xml -p", "dirac-jobexec: option -p requires argument."),
        ("a.xml 'b", "A quote in arguments is not closed, or a backslash is the last character. Close it."),
        (
            'a.xml -p arguments="it\'s"',
            "A quote in arguments is not closed, or a backslash is the last character. Close it.",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(arguments: str, sentence: str) -> None:
    with pytest.raises(InvocationError) as refused:
        invocation_of(arguments)
    assert str(refused.value) == sentence


# ---- The script ------------------------------------------------------------------------------------------------------


def test_a_step_writes_its_log_and_the_output_of_the_job(shell: str, tmp_path: Path) -> None:
    ran = run(shell, tmp_path, step("sh", "-c", "echo out; echo err >&2; echo more", log="logs/1/a.log"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "out\nmore\n", "err\n")
    log = (tmp_path / "logs/1/a.log").read_text()
    assert log == "==== sh: standard output ====\nout\nmore\n==== sh: standard error ====\nerr\n"
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.log", "steps.sh"]


def test_all_steps_run_and_the_first_failure_is_the_exit_code(shell: str, tmp_path: Path) -> None:
    ran = run(shell, tmp_path, step("sh", "-c", "exit 3"), step("no-such-program"), step("echo", "last"))
    assert (ran.returncode, ran.stdout) == (3, "last\n")
    assert ran.stderr.startswith("Step 1 (sh) failed with exit code 3.\n")
    assert ran.stderr.endswith("Step 2 (no-such-program) failed with exit code 127.\n")
    assert run(shell, tmp_path, step("sh", "-c", "kill -9 $$"), step("true")).returncode == 137


def test_steps_with_one_log_add_to_it(shell: str, tmp_path: Path) -> None:
    ran = run(shell, tmp_path, step("echo", "one"), step("echo", "two"))
    assert ran.stdout == "one\ntwo\n"
    assert [line for line in (tmp_path / "a.log").read_text().splitlines() if line[:1] != "="] == ["one", "two"]


def test_a_log_that_is_the_output_of_the_job_is_written_once(shell: str, tmp_path: Path) -> None:
    ran = run(shell, tmp_path, step("sh", "-c", "echo out; echo err >&2", log="std.out"))
    assert (ran.stdout, ran.stderr) == ("out\n", "err\n")
    assert not (tmp_path / "std.out").exists()


def test_programs_are_files_of_the_job_then_commands_and_never_of_the_shell(shell: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("#!/bin/sh\necho by its own line, $1\n")
    (tmp_path / "plain.py").write_text("import sys\nprint('by Python,', sys.argv[1])\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/far.py").write_text("print('far')\n")
    steps = [
        step("/home/alice/own.py", "1"),
        step("plain.py", "2"),
        step(str(tmp_path / "elsewhere/far.py")),
        step("exit", "5"),
        step("jobexec_step"),
        step("cd", "/"),
        step("pwd"),
    ]
    ran = run(shell, tmp_path, *steps)
    assert ran.stdout == f"by its own line, 1\nby Python, 2\nfar\n{tmp_path}\n"
    assert ran.returncode == 127


def test_a_file_that_cannot_be_run_fails_its_step_only(shell: str, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    ran = run(shell, tmp_path, step("/"), step("missing.py"), step("echo", "x", log="taken"), step("echo", "last"))
    assert ran.returncode == 126
    assert ran.stdout == "last\n"


def test_steps_without_arguments_get_those_of_the_workflow(shell: str, tmp_path: Path) -> None:
    steps = [step("printf", "<%s>", takes_arguments=True), step("printf", "[%s]", "own")]
    assert run(shell, tmp_path, *steps).stdout == "<>[own]"
    assert run(shell, tmp_path, *steps, default=["a b", "$c"]).stdout == "<a b><$c>[own]"
    assert run(shell, tmp_path, *steps, default=["a b"], given=["'d'", ""]).stdout == "<'d'><>[own]"


def test_the_environment_of_steps_is_that_of_the_job(shell: str, tmp_path: Path) -> None:
    assert run(shell, tmp_path, step("sh", "-c", "set; env")).stdout.count("jobexec_") == 0


def test_a_process_left_behind_does_not_delay_the_next_step(shell: str, tmp_path: Path) -> None:
    ran = run(
        shell,
        tmp_path,
        step("sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $! >pid; sleep 30 & echo $! >>pid"),
        step("echo", "b"),
    )
    subprocess.run(["kill", *(tmp_path / "pid").read_text().split()], check=True)
    assert ran.stdout == "b\n"


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20), max_size=5))
def test_words_reach_programs_as_they_are(words: list[str]) -> None:
    for shell in SHELLS:
        command = [shell, "-c", script(step("printf", "%s\\0", *words, log="std.out")).decode()]
        ran = subprocess.run(command, capture_output=True, timeout=within(60), check=True)
        assert ran.stdout.decode().split("\0")[:-1] == (words or [""])
