"""The Operations page of a running system: what is stopped for real is red there, and green when it works again."""

import http.client
import re
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.end_to_end.stack.running import environment, free_port, manage, running_up
from tests.pace import wait_for, within

#: Prints the cookie of a session of a new operator.
LOG_IN = """
from django.test import Client
from wms.accounts.models import User
client = Client()
client.force_login(User.objects.create_superuser("olga", "olga@example.org", "a-long-password"))
print("; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items()))
"""
PARTS = {"Beat", "Worker control", "Worker sites", "Web server"}
#: Seconds after which a process that has stopped is ended, and its successor works.
REPLACED_WITHIN_S = 180.0


@dataclass(frozen=True, slots=True)
class OperationsPage:
    """The page of a server on this machine, as its operator sees it."""

    port: int
    cookie: str

    def red(self) -> set[str]:
        """Return the names of the tiles in trouble."""
        return self._tiles("failed")

    def green(self) -> set[str]:
        """Return the names of the tiles that are well."""
        return self._tiles("done")

    def _tiles(self, style: str) -> set[str]:
        text = ""
        while "<h1>Operations</h1>" not in text:
            # A process that was stopped may have taken the connection.
            with suppress(OSError, http.client.HTTPException):
                text = self._text()
        return set(re.findall(rf'<section class="panel tile {style}">\s*<h2>.*</span> (.*)</h2>', text))

    def _text(self) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(2))
        try:
            connection.request("GET", "/operations/", headers={"Cookie": self.cookie})
            return connection.getresponse().read().decode()
        finally:
            connection.close()


def started_by(up: psutil.Process, *words: str) -> psutil.Process:
    """Return the process of the system whose command line has these words."""
    return next(child for child in up.children() if set(words) <= set(child.cmdline()))


def test_parts_that_stop_are_red_within_a_moment_and_green_when_they_are_replaced(tmp_path: Path) -> None:
    port, data = free_port(), tmp_path / "data"
    command = manage("up", "--port", str(port), "--data-dir", str(data), "--web-workers", "2")
    with running_up(command, tmp_path / "up.log") as up:
        done = subprocess.run(
            manage("shell", "--no-imports", "--command", LOG_IN),
            env={**environment(), "WMS_DATA_DIR": str(data)},
            capture_output=True,
            text=True,
            check=True,
            timeout=within(60),
        )
        page = OperationsPage(port, done.stdout.strip().splitlines()[-1])
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
