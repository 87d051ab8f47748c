"""A real proxy for tests: tinyproxy, with a hosts file of its own, so that only it knows where the server is."""

import socket
import subprocess
import time
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.pace import within
from tests.programs import needed

#: A host that only the proxy can reach.
HIDDEN_HOST = "wms.only.example"
_CONFIGURATION = """\
Listen 127.0.0.1
Port {port}
Timeout 60
Allow 127.0.0.1
LogFile "{log}"
"""


class TinyProxy:
    """``with TinyProxy(directory) as proxy``: a proxy on loopback; with a *password* it is for ``pilot`` alone."""

    def __init__(self, directory: Path, *, password: str = "") -> None:
        needed("tinyproxy", "unshare")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._log = directory / "tinyproxy.log"
        self._password = password
        configuration = _CONFIGURATION.format(port=self._port, log=self._log)
        configuration += f"BasicAuth pilot {password}\n" if password else ""
        (directory / "tinyproxy.conf").write_text(configuration)
        (directory / "hosts").write_text(f"127.0.0.1 localhost {HIDDEN_HOST}\n")
        start = f"mount --bind {directory}/hosts /etc/hosts && exec tinyproxy -d -c {directory}/tinyproxy.conf"
        self._command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", start]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        give_up_at = time.monotonic() + within(10)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port)).close()
                break
            except OSError:
                assert self._process.poll() is None, "tinyproxy does not start"
                assert time.monotonic() < give_up_at, "tinyproxy does not listen"
                time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def url(self, password: str | None = None) -> str:
        """Return its address, with its password or another one."""
        given = self._password if password is None else password
        return f"http://{f'pilot:{quote(given, safe=str())}@' if given else ''}127.0.0.1:{self._port}"

    @property
    def requests(self) -> list[str]:
        """Return the requests that it was sent, such as ``CONNECT host:port HTTP/1.1``."""
        lines = self._log.read_text().splitlines()
        return [line.rpartition("): ")[2] for line in lines if "Request (file descriptor" in line]
