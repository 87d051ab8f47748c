"""The Operations page of a running system: what is stopped for real is red there, and green when it works again."""

import http.client
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from tests.end_to_end.stack.running import environment, environment_of, free_port, manage, running_up
from tests.pace import wait_for, within
from wms.client import Client

#: Prints the cookie of a session of a new operator.
LOG_IN = """
from django.test import Client
from wms.accounts.models import User
client = Client()
client.force_login(User.objects.create_superuser("olga", "olga@example.org", "a-long-password"))
print("; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items()))
"""
PARTS = {"Beat", "Worker control", "Worker sites", "Web server"}
#: A site whose host fails the jobs of three users, one that does not answer, and one that never advertises its load.
SITES = """
vos: [{name: lhcb, setup: LHCb-Production}]
groups: [{name: lhcb_user, vo: lhcb}]
users:
  - {username: alice, groups: [lhcb_user], default_group: lhcb_user}
  - {username: bob, groups: [lhcb_user], default_group: lhcb_user}
  - {username: charlie, groups: [lhcb_user], default_group: lhcb_user}
sites:
  - name: here
    vos: [lhcb]
    ces: [{name: desk, type: local, queues: [{name: desk, cpu_time_s: 300000, memory_mb: 1000}]}]
  - name: away
    vos: [lhcb]
    ces: [{name: farm, type: ssh, options: {host: 127.0.0.1, port: 9}, queues: [{name: farm, cpu_time_s: 300000}]}]
  - {name: full, vos: [lhcb], throttle: {policy: matches, max_matches: 5, when_expired: closed}}
"""
FILLED_MB = 4000
#: Seconds after which a process that has stopped is ended, and its successor works.
REPLACED_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True)
class OperationsPage:
    """The page of a server on this machine, as its operator sees it."""

    port: int
    cookie: str

    def red(self) -> set[str]:
        """Return the names of the tiles in trouble."""
        return self._tiles("trouble")

    def green(self) -> set[str]:
        """Return the names of the tiles that are well."""
        return self._tiles("well")

    def text(self) -> str:
        """Return the page."""
        text = ""
        while "<h1>Operations</h1>" not in text:
            # A process that was stopped may have taken the connection.
            with suppress(OSError, http.client.HTTPException):
                text = self._answer()
        return text

    def _tiles(self, style: str) -> set[str]:
        return set(re.findall(rf'<section class="panel tile {style}">\s*<h2>.*</span> (.*)</h2>', self.text()))

    def _answer(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(2))
        try:
            connection.request("GET", "/operations/", headers={"Cookie": self.cookie})
            return connection.getresponse().read().decode()
        finally:
            connection.close()


@contextmanager
def operations_page(directory: Path, **variables: str) -> Iterator[tuple[psutil.Process, OperationsPage]]:
    """Run a system in *directory*; yield its supervisor and its page."""
    port = free_port()
    command = manage("up", "--port", str(port), "--data-dir", str(directory / "data"), "--web-workers", "2")
    with running_up(command, directory / "up.log", variables=variables) as up:
        said = run(directory, "shell", "--no-imports", "--command", LOG_IN)
        yield up, OperationsPage(port, said.splitlines()[-1])


def run(directory: Path, *command: str) -> str:
    """Run a command for the system in *directory*, and return what it says."""
    return subprocess.run(
        manage(*command),
        env={**environment(), "WMS_DATA_DIR": str(directory / "data")},
        capture_output=True,
        text=True,
        check=True,
        timeout=within(60),
    ).stdout.strip()


def started_by(up: psutil.Process, *words: str) -> psutil.Process:
    """Return the process of the system whose command line has these words."""
    return next(child for child in up.children() if set(words) <= set(child.cmdline()))


def test_parts_that_stop_are_red_within_a_moment_and_green_when_they_are_replaced(tmp_path: Path) -> None:
    with operations_page(tmp_path) as (up, page):
        all_well = {*PARTS, "Broker", "Supervisor", "Reports of beat and control", "Reports of sites"}
        wait_for(lambda: all_well <= page.green(), 120, state=page.red)

        web = started_by(up, "wms.web").children()[0]
        for process in (started_by(up, "beat"), started_by(up, "control"), started_by(up, "sites"), web):
            process.send_signal(signal.SIGSTOP)
        wait_for(lambda: page.red() >= PARTS, REPLACED_WITHIN_S, state=page.red)
        wait_for(lambda: all_well <= page.green(), 2 * REPLACED_WITHIN_S, state=page.red)

        valkey = next(child for child in up.children() if "valkey-server" in child.name())
        valkey.send_signal(signal.SIGSTOP)
        wait_for(lambda: "Broker" in page.red(), 60, state=page.red)
        valkey.send_signal(signal.SIGCONT)
        wait_for(lambda: "Broker" in page.green(), 60, state=page.red)


def test_what_stops_jobs_and_what_fills_up_is_red_within_a_minute(tmp_path: Path) -> None:
    least_free_mb = (shutil.disk_usage(tmp_path).free // 2**20 - FILLED_MB // 2) // 2
    variables = {"WMS_BLACK_HOLE_FAILURES": "4", "WMS_SANDBOX_MIN_FREE_MB": str(least_free_mb)}
    with operations_page(tmp_path, **variables) as (_, page):
        stopping = {"Computing elements", "Black holes", "Throttles"}
        disk = f"Disk of {tmp_path / 'data'}"
        wait_for(lambda: {*stopping, disk, "Limits of zero"} <= page.green(), 60, state=page.red)

        (tmp_path / "wms.yaml").write_text(SITES)
        run(tmp_path, "configure", str(tmp_path / "wms.yaml"))
        for user in ("alice", "bob", "charlie"):
            client = Client(f"http://127.0.0.1:{page.port}", run(tmp_path, "token", user))
            with closing(client.connection):
                client.submit(executable="/bin/false", parameters={"values": ["1", "2"]})
        wait_for(lambda: stopping <= page.red(), 60, state=page.text)

        with (tmp_path / "filling").open("wb") as filling:
            os.posix_fallocate(filling.fileno(), 0, FILLED_MB << 20)
        wait_for(lambda: disk in page.red(), 60, state=page.text)
        (tmp_path / "filling").unlink()
        wait_for(lambda: disk in page.green(), 60, state=page.text)

        (tmp_path / "limit.yaml").write_text("limits: [{scope: {vo: lhcb}, running: 0}]")
        run(tmp_path, "configure", str(tmp_path / "limit.yaml"), "--confirm")
        wait_for(lambda: "Limits of zero" in page.red(), 60, state=page.text)

        with psycopg.connect(environment_of(tmp_path / "data")["WMS_DATABASE_URL"]) as stuck:
            stuck.execute("SELECT 1")
            wait_for(lambda: f"process {stuck.info.backend_pid} of PostgreSQL" in page.text(), 60, state=page.text)
