"""wms-advertise: the processes that it counts, and its refusals before any request."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from resources.api.gateway import gateway_package
from resources.gateway import wms_advertise
from resources.gateway.wms_advertise import PATTERNS as SHIPPED
from resources.gateway.wms_advertise import STATES, AdvertisedProcess, body_of, count
from tests.pace import within

PATTERNS = {
    ce_type: {state: re.compile(pattern) for state, pattern in patterns.items()}
    for ce_type, patterns in SHIPPED.items()
}


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    # The text as a gateway runs it.
    command = [sys.executable, "-S", "-I", "-", *arguments]
    return subprocess.run(
        command,
        input=gateway_package().decode(),
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=within(60),
    )


def counted(*commands: str, ce_type: str = "job-manager") -> Mapping[str, int]:
    seen = [AdvertisedProcess(pid=100 + number, parent=1, command=command) for number, command in enumerate(commands)]
    return {state: many for state, many in count(seen, PATTERNS[ce_type], own_pid=1).items() if many}


@pytest.mark.parametrize(
    ("command", "state"),
    [
        ("job-manager: submitting job 17", "submitting"),
        ("/usr/libexec/globus-job-manager-script.pl -m samgrid -f /tmp/x -c submit", "submitting"),
        ("/usr/bin/perl -w /opt/sam/jim_job_manager.pl --state=polling", "polling"),
        ("perl /opt/globus-job-manager-script.pl -c poll", "polling"),
        ("python3.9 -u /opt/sam/jobmanager.py updating", "updating"),
        ("SAM-JobManager[update]", "updating"),
        ("job-manager cancelling", "cancelling"),
        ("job-manager canceling", "cancelling"),
        ("job-manager -c cancel", "cancelling"),
        ("/bin/sh /opt/job_manager gathering_output", "gathering"),
        ("job-manager gather-output 17", "gathering"),
        ("job-manager\nGathering Output", "gathering"),
        # Without a word of a state it is one of the current jobs all the same.
        ("job-manager", "idle"),
        ("job-manager resubmission", "idle"),
        ("job-manager pollution", "idle"),
        ("/usr/bin/perl /opt/globus-job-manager -id 17", "idle"),
    ],
)
def test_a_job_manager_is_in_the_state_that_its_command_line_names(command: str, state: str) -> None:
    assert counted(command) == {state: 1}


@pytest.mark.parametrize(
    "command",
    [
        "",
        "tail -f /var/log/job-manager.log submitting",
        "vi job-manager-submitting.conf",
        "grep job-manager.*submitting",
        "submitting job-manager",
        "python3 /opt/wms_advertise.py A --state submitting=job-manager submitting",
        "perl -e submit",
    ],
)
def test_other_processes_are_not_counted_as_job_managers(command: str) -> None:
    assert counted(command) == {}


def test_a_process_counts_once_for_the_first_state_that_fits() -> None:
    assert counted("job-manager submitting polling", "job-manager polling then submitting") == {"submitting": 2}


def test_the_program_and_its_parents_are_not_counted() -> None:
    command = "sh job-manager submitting"  # of a shell whose command line holds a pattern
    tree = [
        AdvertisedProcess(pid=10, parent=1, command=command),
        AdvertisedProcess(pid=20, parent=10, command=command),
        AdvertisedProcess(pid=30, parent=20, command=command),
        AdvertisedProcess(pid=40, parent=10, command=command),
    ]
    assert count(tree, PATTERNS["job-manager"], own_pid=30)["submitting"] == 1
    loop = [AdvertisedProcess(pid=10, parent=20, command=""), AdvertisedProcess(pid=20, parent=10, command="")]
    assert count(loop, PATTERNS["job-manager"], own_pid=10)["submitting"] == 0


def test_a_very_long_command_line_takes_no_time() -> None:
    assert counted("x" * 100_000, "python " * 20_000, "job-manager" * 10_000, "job-manager " + "submi" * 20_000) == {
        "idle": 2
    }


def test_all_five_states_and_the_idle_make_the_current_jobs() -> None:
    numbers = dict(zip(STATES, (1, 2, 4, 8, 16, 32), strict=True))
    body = {"current_submitting_jobs": 1, "current_gathering_output_jobs": 16, "current_jobs": 63, "max_jobs": 40}
    assert body_of(numbers, {"max_jobs": 40}) == body
    assert body_of(numbers, {"max_jobs": 40}, gateway="gate1") == {"gateway": "gate1", **body}


STAMP = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("ce_type", "command", "state"),
    [
        (
            "local",
            f"/usr/bin/python3.11 -I /srv/ce/agent-0123456789abcdef --server http://a --stamp {STAMP} --x",
            "idle",
        ),
        ("ssh", f"python3 -I -c import os\nmain() /home/p/agent-{STAMP}.pyz --vo v --stamp {STAMP}", "submitting"),
        ("ssh", f"/usr/bin/python3 -I /home/p/agent-{STAMP}.pyz --remove-program --stamp {STAMP}", "idle"),
        ("slurm", f"sbatch --parsable --job-name=wms-{STAMP} /home/p/pilot.sh", "submitting"),
        ("slurm", "/usr/bin/scancel --name=x", "cancelling"),
        ("slurm", "slurmstepd: [17.batch]", "idle"),
        ("htcondor", "condor_submit -terse", "submitting"),
        ("htcondor", "/usr/bin/condor_rm 17", "cancelling"),
        ("htcondor", "condor_transfer_data 17.0", "gathering"),
        ("htcondor", "condor_shadow -f 17.0 --schedd=<127.0.0.1:9618> <127.0.0.1> -", "idle"),
    ],
)
def test_pilots_of_our_own_ce_types_are_counted(ce_type: str, command: str, state: str) -> None:
    assert counted(command, ce_type=ce_type) == {state: 1}
    if ce_type != "htcondor":
        assert counted(command, ce_type="htcondor") == {}
    assert counted(f"vi {command}", ce_type=ce_type) == {}


def test_processes_of_one_job_count_once() -> None:
    pilot = f"python3 -I /srv/ce/agent-0123 --server http://a --stamp {STAMP}"
    other = pilot.replace("0123456789", "9876543210")
    installing = f"python3 -I -c main() /srv/agent-0.pyz --stamp {STAMP}"
    assert counted(pilot, pilot, other, pilot, ce_type="local") == {"idle": 2}
    assert counted(installing, pilot, ce_type="local") == {"submitting": 1}
    assert counted("slurmstepd: [17.batch]", "slurmstepd: [17.0]", "slurmstepd: [18.batch]", ce_type="slurm") == {
        "idle": 2
    }


def warnings_of(*arguments: str) -> list[str]:
    ran = run("X", "--dry-run", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stderr.splitlines()


def test_a_pattern_that_fits_no_process_is_warned_of_once() -> None:
    nowhere = [option for state in STATES for option in ("--state", f"{state}=^no such thing {state}$")]
    assert warnings_of(*nowhere) == [
        f"wms-advertise: warning: the pattern of {state}, ^no such thing {state}$, matches no process; "
        "check it, unless none runs now."
        for state in STATES
    ]
    # Whatever runs these tests is a process that fits.
    everything = [option for state in STATES for option in ("--state", f"{state}=.")]
    assert warnings_of(*everything) == []


def test_shipped_patterns_of_which_none_fits_are_warned_of_together() -> None:
    (warning,) = warnings_of("--ce-type", "htcondor", "--state", "idle=.")
    assert warning == (
        "wms-advertise: warning: the patterns of submitting, cancelling, gathering match no process; "
        "if some run, give others by --ce-type or --state."
    )


def test_both_ways_to_list_processes_find_this_one() -> None:
    for listed in (wms_advertise._of_proc(), wms_advertise._of_ps()):
        (found,) = [process for process in listed if process.pid == os.getpid()]
        assert found.parent == os.getppid()
        assert "pytest" in found.command or "python" in found.command or "execnet" in found.command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "the following arguments are required: SITE"),
        (("A",), "A token is required; use --token-file, or set WMS_ADVERTISE_TOKEN."),
        (("A", "--token-file", "/nowhere"), "The token cannot be read from /nowhere"),
        (("A", "--every", "0"), "argument --every"),
        (("A", "--max-jobs", "-1"), "argument --max-jobs"),
        (("A", "--dry-run", "--state", "submiting=x"), 'Did you mean "submitting"?'),
        (("A", "--dry-run", "--state", "submitting"), "is not STATE=PATTERN"),
        (("A", "--dry-run", "--state", "submitting=("), "not a regular expression"),
        (("A", "--dry-run", "--patterns", "/nowhere"), "The patterns cannot be read"),
        (("A", "--token", "secret"), "unrecognized arguments"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(arguments: tuple[str, ...], sentence: str) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "url", ["", "wms.example.org", "ftp://wms", "https://", "http://a:b@c", "http://[", "http://a?b"]
)
def test_an_invalid_server_url_is_wrong_usage(url: str) -> None:
    ran = run("A", "--server", url, WMS_ADVERTISE_TOKEN="t")
    assert ran.returncode == 2
    assert "is not an address of a server" in ran.stderr


def test_a_token_is_sent_in_clear_only_where_that_is_allowed() -> None:
    ran = run("A", "--server", "http://0.0.0.0:9", WMS_ADVERTISE_TOKEN="t")
    assert (ran.returncode, "is not encrypted" in ran.stderr) == (2, True)
    ran = run("A", "--server", "http://0.0.0.0:9", "--insecure", WMS_ADVERTISE_TOKEN="t")
    assert (ran.returncode, "does not answer" in ran.stderr) == (3, True)


def test_a_token_that_others_may_read_is_not_used(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    file.chmod(0o640)
    ran = run("A", "--server", "http://127.0.0.1:9", "--token-file", str(file))
    assert ran.returncode == 2
    assert f"run `chmod 600 {file}` first" in ran.stderr
    file.chmod(0o600)
    ran = run("A", "--server", "http://127.0.0.1:9", "--token-file", str(file))
    assert (ran.returncode, "does not answer" in ran.stderr) == (3, True)
    file.write_text("two words")
    assert run("A", "--server", "http://127.0.0.1:9", "--token-file", str(file)).returncode == 2


def test_patterns_come_from_a_file_and_options_come_after_it(tmp_path: Path) -> None:
    file = tmp_path / "patterns"
    file.write_text("# ours\n\nsubmitting = (\n  polling = ^b = c$\n")
    refused = run("A", "--dry-run", "--patterns", str(file))
    assert refused.returncode == 2
    assert run("A", "--dry-run", "--patterns", str(file), "--state", "submitting=x").returncode == 0


def test_the_program_runs_on_old_pythons_with_the_standard_library() -> None:
    program = gateway_package().decode()
    tree = ast.parse(program, feature_version=(3, 9))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names])
    }
    assert imported - {"wms"} <= sys.stdlib_module_names
    assert program.startswith("#!/usr/bin/env python3\n")


@pytest.mark.parametrize(("option", "value"), [("--every", "x"), ("--every", "0"), ("--max-jobs", "many")])
def test_a_wrong_value_is_reported_without_internal_terms(option: str, value: str) -> None:
    ended = run("LCG.CERN.ch", "--server", "http://localhost", option, value)
    assert ended.returncode == 2
    assert f"'{value}' is not a " in ended.stderr
    assert "invalid" not in ended.stderr
