"""wms-advertise as a process, counting real processes, against a live server."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from resources.domain.enums import SiteTokenPurpose
from resources.gateway.wms_advertise import REFUSED, STATES
from resources.models import Site, ThrottleState
from resources.services.site_tokens import issue_site_token, revoke_site_token
from tests.agent.running import INTERPRETERS, marker
from tests.cases import quick_cases
from tests.factories import make_throttled_site
from tests.pace import within

pytestmark = pytest.mark.django_db(transaction=True)

Spawn = Callable[[str], None]


@pytest.fixture
def mark() -> str:
    return marker()


@pytest.fixture
def spawn(mark: str) -> Iterator[Spawn]:
    """Return a function that starts a process with such a command line, which begins with its title."""
    sleep = shutil.which("sleep")
    with ExitStack() as stack:

        def spawn(title: str) -> None:
            started = stack.enter_context(subprocess.Popen([title, mark], executable=sleep))
            stack.callback(started.kill)

        yield spawn


@pytest.fixture
def site(transactional_db: None) -> Site:
    return make_throttled_site(name="LCG.CERN.ch")


@pytest.fixture
def token_file(site: Site, tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=timezone.now()) + "\n")
    return file


@pytest.fixture
def program(live_server: LiveServer, tmp_path: Path) -> Path:
    """Return the program, downloaded from the server as by a gateway."""
    with urllib.request.urlopen(f"{live_server.url}/api/v1/gateway/wms_advertise.py", timeout=within(30)) as answer:
        content = answer.read()
    file = tmp_path / "wms_advertise.py"
    file.write_bytes(content)
    return file


def patterns_of(mark: str) -> list[str]:
    """Return options that count only the processes of this test."""
    return [option for state in STATES for option in ("--state", f"{state}=^job-manager: {state}.* {mark}$")]


def advertise(
    program: Path, live_server: LiveServer, *options: str, python: str = sys.executable, **environment: str
) -> "subprocess.CompletedProcess[str]":
    command = [python, str(program), "LCG.CERN.ch", "--server", live_server.url, *options]
    return subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=within(120),
    )


@pytest.mark.parametrize("python", quick_cases(INTERPRETERS, quick=1))
def test_advertised_process_counts_start_the_throttle(
    live_server: LiveServer, program: Path, token_file: Path, spawn: Spawn, mark: str, python: str
) -> None:
    for many, state in enumerate(STATES, start=1):
        for _ in range(many):
            spawn(f"job-manager: {state} job 17")
    spawn("a log of job-manager: submitting")
    options = ("--token-file", str(token_file), *patterns_of(mark), "--max-submitting-jobs", "3")
    ran = advertise(program, live_server, *options, python=python)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "LCG.CERN.ch: 1 submitting, 5 gathering output, 21 in all; accepts matches (throttle: level0).\n"
    )
    throttle = ThrottleState.objects.get()
    assert throttle.advertised == {
        "CurrentSubmittingJobs": 1,
        "CurrentGatheringOutputJobs": 5,
        "CurrentJobs": 21,
        "MaxSubmittingJobs": 3,
        "CurMatches": 0,
    }
    assert throttle.room == 2
    assert advertise(program, live_server, *options, python=python).returncode == 0
    again = ThrottleState.objects.get()
    ((before,), (after,)) = throttle.gateways, again.gateways
    assert (again.version, after["sequence"]) == (2, before["sequence"] + 1)
    assert before["name"] == after["name"] == platform.node()


def test_the_advertising_shell_is_not_counted(
    live_server: LiveServer, program: Path, token_file: Path, spawn: Spawn, mark: str
) -> None:
    spawn("job-manager: submitting")
    words = (sys.executable, str(program), "LCG.CERN.ch", "--server", live_server.url, "--token-file", str(token_file))
    line = f"{' '.join(words)} --state 'submitting=job-manager: submitting' --state polling='{mark}$'; exit $?"
    # Of the processes of this test one fits; others of this machine are no concern of it.
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=within(120))
    assert ran.returncode == 0, ran.stderr
    assert ThrottleState.objects.get().advertised["CurrentSubmittingJobs"] == 1


def test_a_dry_run_contacts_no_server(program: Path, site: Site, spawn: Spawn, mark: str) -> None:
    spawn("job-manager: gathering")
    command = [sys.executable, str(program), "X", "--dry-run", *patterns_of(mark)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=within(60))
    assert ran.returncode == 0
    assert '"gathering": 1' in ran.stdout
    assert '"current_jobs": 1' in ran.stdout
    assert not ThrottleState.objects.exists()


def test_a_refusal_is_printed_in_the_words_of_the_server(
    live_server: LiveServer, program: Path, site: Site, token_file: Path
) -> None:
    wrong = advertise(program, live_server, WMS_ADVERTISE_TOKEN="wmss_wrong")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("wms-advertise: This token of a site is unknown or revoked")
    revoke_site_token(token_id=site.tokens.get().pk, now=timezone.now())
    assert advertise(program, live_server, "--token-file", str(token_file), "--every", "1").returncode == 1
    assert "Traceback" not in wrong.stderr


def test_an_unreachable_or_foreign_server_is_exit_code_3(live_server: LiveServer, program: Path, site: Site) -> None:
    for address in ("http://127.0.0.1:9", f"{live_server.url}/portal", f"{live_server.url}/admin"):
        command = [sys.executable, str(program), "LCG.CERN.ch", "--server", address]
        environment = {"PATH": os.environ["PATH"], "WMS_ADVERTISE_TOKEN": "t"}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=within(60))
        assert ran.returncode == 3, (address, ran.stderr)
        assert ran.stderr.startswith(f"wms-advertise: {address} ")


def test_an_advertisement_that_is_ignored_is_no_success(
    live_server: LiveServer, program: Path, token_file: Path, site: Site
) -> None:
    assert advertise(program, live_server, "--token-file", str(token_file)).returncode == 0
    remember_sequence(2**63 - 1)
    ran = advertise(program, live_server, "--token-file", str(token_file))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"the server ignored this advertisement. Its sequence 1 is not above {2**63 - 1}" in ran.stderr


def test_a_gateway_with_a_reset_clock_continues_after_the_last_sequence(
    live_server: LiveServer, program: Path, token_file: Path, site: Site
) -> None:
    assert advertise(program, live_server, "--token-file", str(token_file)).returncode == 0
    remember_sequence(2**62)
    assert advertise(program, live_server, "--token-file", str(token_file)).returncode == 0
    (gateway,) = ThrottleState.objects.get().gateways
    assert gateway["sequence"] == 2**62 + 1


def test_advertisements_of_two_gateways_are_added(
    live_server: LiveServer, program: Path, token_file: Path, site: Site, spawn: Spawn, mark: str
) -> None:
    spawn("job-manager: submitting job 17")
    options = ("--token-file", str(token_file), *patterns_of(mark))
    for name in ("gate1", "gate2", "gate1"):
        assert advertise(program, live_server, *options, "--gateway", name).returncode == 0
    state = ThrottleState.objects.get()
    assert [gateway["name"] for gateway in state.gateways] == ["gate1", "gate2"]
    assert (state.advertised["CurrentSubmittingJobs"], state.advertised["CurrentJobs"]) == (2, 2)


def remember_sequence(sequence: int) -> None:
    """Store this sequence as the last one accepted from the only gateway."""
    state = ThrottleState.objects.get()
    (gateway,) = state.gateways
    ThrottleState.objects.update(gateways=[{**gateway, "sequence": sequence}])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_advertising_repeats_until_sigterm(
    how: signal.Signals, live_server: LiveServer, program: Path, token_file: Path, site: Site
) -> None:
    command = [sys.executable, str(program), "LCG.CERN.ch", "--server", live_server.url, "--every", "1"]
    with subprocess.Popen([*command, "--token-file", str(token_file)], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            lines = [running.stdout.readline() for _ in range(3)]
            running.send_signal(how)
            assert running.wait(within(60)) == 0
        finally:
            running.kill()
    assert all("accepts matches" in line for line in lines)
    assert ThrottleState.objects.get().version >= 3


def test_the_earlier_of_two_programs_with_one_name_ends_with_the_reason(
    live_server: LiveServer, program: Path, token_file: Path, site: Site
) -> None:
    command = [sys.executable, str(program), "LCG.CERN.ch", "--server", live_server.url, "--gateway", "gw1"]
    command += ["--token-file", str(token_file)]
    with subprocess.Popen(
        [*command, "--every", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as earlier:
        try:
            assert earlier.stdout is not None
            assert "accepts matches" in earlier.stdout.readline()
            for _ in range(3):
                subprocess.run(command, check=True, timeout=within(60), capture_output=True)
            _, told = earlier.communicate(timeout=within(60))
        finally:
            earlier.kill()
    assert earlier.returncode == REFUSED
    assert 'wms-advertise: Another program advertises as the gateway "gw1" of LCG.CERN.ch' in told
    assert told.endswith("give each a name of its own by --gateway.\n")
