"""An sshd for tests that reach a host by SSH: on loopback, a free port, under the user who runs the tests."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.pace import Deadline
from tests.programs import needed

_READY_WITHIN_S = 20.0
#: Where sshd puts a part of itself that has no rights; as root it insists.
_PRIVILEGE_SEPARATION = Path("/run/sshd")
_CONFIGURATION = """\
ListenAddress [{address}]:{port}
HostKey {directory}/host_key
PidFile {directory}/sshd.pid
AuthorizedKeysFile {directory}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
LogLevel ERROR
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SSHHost:
    """A running sshd, with the keys to log in."""

    address: str
    port: int
    user: str
    identity_file: Path
    #: The line of a file of known hosts.
    host_key: str

    @property
    def options(self) -> dict[str, object]:
        """Return the options of a CE behind this sshd."""
        return {
            "host": self.address,
            "port": self.port,
            "user": self.user,
            "identity_file": str(self.identity_file),
            "known_hosts": self.host_key,
        }


@contextmanager
def ssh_host(directory: Path, *, configuration: str = "", address: str = "127.0.0.1") -> Iterator[SSHHost]:
    """Run an sshd; its connections and their sessions end with it, but not the processes that these started.

    Args:
        directory: for its keys and its configuration; must exist.
        configuration: further lines of it.
        address: on which it listens.
    """
    needed("ssh", "sshd", "ssh-keygen")
    if os.getuid() == 0:
        _PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    for name in ("host_key", "user_key"):
        make_key(directory / name)
    shutil.copy(directory / "user_key.pub", directory / "authorized_keys")
    port = _free_port(address)
    written = _CONFIGURATION.format(address=address, port=port, directory=directory)
    (directory / "sshd_config").write_text(written + configuration)
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    with (directory / "sshd.log").open("wb") as log:
        server = subprocess.Popen(
            [program, "-D", "-e", "-f", str(directory / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await(address, port, server, log=directory / "sshd.log")
        yield SSHHost(
            address=address,
            port=port,
            user=getpass.getuser(),
            identity_file=directory / "user_key",
            host_key=known_host(port, directory / "host_key", address=address),
        )
    finally:
        _end(server)


def make_key(path: Path) -> None:
    """Make a key pair, *path* and *path*.pub."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], check=True)


def known_host(port: int, key: Path, *, address: str = "127.0.0.1") -> str:
    """Return the line of a known_hosts file for the host with this key."""
    return f"[{address}]:{port} {key.with_name(f'{key.name}.pub').read_text().strip()}"


def _end(server: "subprocess.Popen[bytes]") -> None:
    processes = [*psutil.Process(server.pid).children(recursive=True), psutil.Process(server.pid)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    server.wait()


def _free_port(address: str) -> int:
    with socket.socket(_family_of(address)) as asked:
        asked.bind((address, 0))
        port: int = asked.getsockname()[1]
        return port


def _family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _await(address: str, port: int, server: "subprocess.Popen[bytes]", *, log: Path) -> None:
    deadline = Deadline(_READY_WITHIN_S)
    while True:
        with socket.socket(_family_of(address)) as tried:
            if tried.connect_ex((address, port)) == 0:
                return
        if server.poll() is not None or deadline.has_passed():
            raise AssertionError(f"sshd did not start:\n{log.read_text()}")
        time.sleep(0.02)
