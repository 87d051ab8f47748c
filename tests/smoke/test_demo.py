"""`manage.py demo` from an empty directory: the whole system, with real pilots on a local computing element.

Its jobs end as they should, and nobody gets into the account that runs it: neither other accounts of the machine nor
its own jobs.
"""

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import uuid4

import psutil
import pytest

from tests.end_to_end.stack.running import PROJECT, READY_WITHIN_S, environment, free_port, manage, processes_of
from tests.end_to_end.stack.test_demo import IMPATIENT
from tests.pace import wait_for, within

#: The demonstration's own limit, and what starting may take on a busy machine.
ENDED_WITHIN_S = 300.0
NOBODY = 65534
PUBLISHED = {name: f"{name}-demo" for name in ("alice", "bob", "charlie", "mary", "olga")}
#: Prints where it finds one of the secrets, which come reversed so that it does not find its own arguments.
SEARCH = """
import os, stat, sys
words = [word.encode()[::-1] for word in sys.argv[2:]]
def look(data, where):
    if any(word in data for word in words):
        print("found in", where)
def look_into(path):
    try:
        if os.path.isfile(path) and os.path.getsize(path) < 1 << 22:
            with open(path, "rb") as file:
                look(file.read(), path)
    except OSError:
        pass
def look_into_memory(process):
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                first, last = (int(number, 16) for number in line.split()[0].split("-"))
                try:
                    memory.seek(first)
                    look(memory.read(last - first), f"memory of {process}")
                except (OSError, OverflowError, ValueError):
                    pass
    except OSError:
        pass
for process in filter(str.isdigit, os.listdir("/proc")):
    if int(process) == os.getpid():
        continue
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{process}/{name}", "rb") as file:
                look(file.read(), f"{name} of {process}")
        except OSError:
            pass
    look_into_memory(process)
    for descriptor in range(64):
        try:
            if not stat.S_ISREG(os.stat(f"/proc/{process}/fd/{descriptor}").st_mode):
                continue
        except OSError:
            continue
        look_into(f"/proc/{process}/fd/{descriptor}")
for top in (*sys.argv[1].split(":"), os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm", "/run/user"):
    for directory, below, files in os.walk(top):
        for name in files:
            look_into(os.path.join(directory, name))
print("over")
"""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """The demonstration, running."""

    process: "subprocess.Popen[bytes]"
    port: int
    directory: Path
    passwords: dict[str, str]

    @property
    def log(self) -> Path:
        return self.directory / "demo.log"

    def ask(self, path: str, body: dict[str, object] | None = None, *, token: str = "") -> dict[str, object]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers)
        with urlopen(request, timeout=within(60)) as answer:
            answered: dict[str, object] = json.loads(answer.read())
            return answered

    def log_in(self, username: str, password: str) -> str:
        return str(self.ask("/api/v1/auth/token/", {"username": username, "password": password})["token"])


@contextmanager
def running_demo(*program: str) -> Iterator[Demo]:
    """Run the demonstration with its output in a file, in a directory that other accounts may enter."""
    # Jobs of the same account have a /tmp of their own, so that nothing there would be found.
    place = PROJECT if os.geteuid() and os.access(PROJECT, os.W_OK) else None
    directory = Path(tempfile.mkdtemp(prefix="wms-demo-", dir=place))
    directory.chmod(0o755)
    port, log = free_port(), directory / "demo.log"
    with log.open("wb") as output:
        log.chmod(0o644)
        process = subprocess.Popen(
            [*program, "demo", "--port", str(port), "--data-dir", str(directory / "data")],
            env=environment(),
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(lambda: "Ctrl-C stops it." in log.read_text() or process.poll() is not None, ENDED_WITHIN_S)
        assert process.poll() is None, log.read_text()
        log_ins = re.findall(r"^  [* ] (\w+) +([A-Za-z0-9_-]{16})  ", log.read_text(), re.MULTILINE)
        yield Demo(process=process, port=port, directory=directory, passwords=dict(log_ins))
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=within(60)) == 0, log.read_text()
        assert processes_of(directory) == []
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    """Run the demonstration until its jobs have ended, and then on."""
    with running_demo(*manage()) as running:
        yield running


def test_all_jobs_of_the_demonstration_end_as_they_should(demo: Demo) -> None:
    said = demo.log.read_text()
    assert "All 68 jobs ended as they should." in said
    assert re.search(r"^ *\d+  pinned +bob +LCG\.GRIDKA\.de +Done +\d+\.\d s  at LCG\.GRIDKA\.de", said, re.MULTILINE)
    assert re.search(r"^ *\d+  fails +alice +\S+ +Failed ", said, re.MULTILINE)
    assert re.search(r"^ *\d+  killed +charlie +\S+ +Killed .* begun$", said, re.MULTILINE)
    assert re.search(r"sort\.sh; sorted-down\.txt, sorted-up\.txt$", said, re.MULTILINE)
    assert re.search(r"^Administration  http://127\.0\.0\.1:\d+/admin/", said, re.MULTILINE)
    assert re.search(r"^    alice     [A-Za-z0-9_-]{16}  lhcb_user, lhcb_calib$", said, re.MULTILINE)


def secrets_of(demo: Demo) -> list[str]:
    """Return what the web server accepts: passwords, a token, and the key that signs all others."""
    token = demo.log_in("alice", demo.passwords["alice"])
    return [*demo.passwords.values(), token, (demo.directory / "data" / "secret_key").read_text().strip()]


def test_passwords_are_those_printed_and_no_published_ones(demo: Demo) -> None:
    assert demo.passwords.keys() == PUBLISHED.keys()
    for username, password in PUBLISHED.items():
        with pytest.raises(HTTPError) as refused:
            demo.log_in(username, password)
        refused.value.close()
        assert refused.value.code in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
    assert stat.S_IMODE(demo.log.stat().st_mode) == 0o600
    assert stat.S_IMODE((demo.directory / "data").stat().st_mode) == 0o700


def test_a_job_of_the_demonstration_finds_no_credential_but_its_own(demo: Demo) -> None:
    secrets = secrets_of(demo)
    token = demo.log_in("alice", demo.passwords["alice"])
    words = [word[::-1] for word in [*secrets, token]]
    job: dict[str, object] = {
        "request_id": str(uuid4()),
        "executable": "/usr/bin/python3",
        "arguments": shlex.join(["-c", SEARCH, str(demo.directory), *words]),
        "output_sandbox": ["std.out", "std.err"],
    }
    submitted = demo.ask("/api/v1/jobs/", job, token=token)["jobs"]
    assert isinstance(submitted, list)
    address = f"/api/v1/jobs/{submitted[0]['id']}/"

    def status() -> str:
        return str(demo.ask(address, token=token)["status"])

    wait_for(lambda: status() in {"Done", "Failed"}, READY_WITHIN_S, every_s=0.5, state=status)
    assert str(demo.ask(f"{address}peek/", token=token)["std_output"]).splitlines() == ["over"]


@pytest.mark.slow
@pytest.mark.nightly  # starts a demonstration of its own
@pytest.mark.root
def test_another_account_of_the_machine_finds_no_credential_of_the_demonstration() -> None:
    with running_demo(sys.executable, "-c", IMPATIENT, str(PROJECT)) as demo:
        words = [word[::-1] for word in secrets_of(demo)]
        assert psutil.Process(demo.process.pid).children()
        done = subprocess.run(
            ["/usr/bin/python3", "-c", SEARCH, str(demo.directory), *words],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            cwd="/",
            env={"HOME": "/nonexistent"},
            capture_output=True,
            text=True,
            timeout=within(120),
            check=False,
        )
    assert (done.stdout, done.stderr) == ("over\n", "")
