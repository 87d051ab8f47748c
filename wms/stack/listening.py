"""The address of the web server: an IP address and port, or a Unix socket."""

import http.client
import json
import socket
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Self

from wms.kernel.trusted_paths import UntrustedPathError, require_trusted
from wms.stack.errors import StackError

LOOPBACK = "127.0.0.1"
#: Prefix of a Unix socket's path on the command line.
UNIX_PREFIX = "unix:"
#: Bytes; the limit of Linux.
_MAX_SOCKET_PATH = 107
#: The group of the socket's directory gives access to a proxy under another account.
_SOCKET_MODE = "0o660"
_ANSWER_WITHIN_S = 5.0


class PortTakenError(StackError):
    """Another program listens at this address."""


class UnreachableAddressError(StackError):
    """The web server cannot listen at this address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address of this machine with a port, or, if *path* is given, a Unix socket."""

    host: str = LOOPBACK
    port: int = 8000
    path: Path | None = None

    @property
    def url(self) -> str:
        """The address for programs of this machine; empty for a Unix socket."""
        return "" if self.path else f"http://{_in_url(self._own_host)}:{self.port}/"

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return self.path is None and not ip_address(self.host).is_loopback

    @property
    def server_options(self) -> list[str]:
        """Options of ``python -m wms.web``."""
        if self.path:
            return ["--uds", str(self.path), "--uds-permissions", _SOCKET_MODE]
        return ["--host", self.host, "--port", str(self.port)]

    def check(self) -> None:
        """Return if the web server can listen here.

        Raises:
            PortTakenError: another program does.
            UnreachableAddressError: no socket can be made there.
        """
        if self.path:
            _check_socket(self.path)
            return
        family = socket.AF_INET6 if isinstance(ip_address(self.host), IPv6Address) else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that was just closed is free
            try:
                trial.bind((self.host, self.port))
            except OSError as error:
                raise PortTakenError(
                    f"Port {self.port} of {self.host} cannot be used ({error.strerror}): name another one with --port."
                ) from error

    def answers(self, *, host: str = "") -> bool:
        """Whether the web server answers without an internal error.

        Args:
            host: name in the request, one of WMS_ALLOWED_HOSTS, as others are logged as errors; empty: the address.
        """
        try:
            status, _ = self._get("/healthz", host)
        except (OSError, http.client.HTTPException):
            return False
        return status < http.HTTPStatus.INTERNAL_SERVER_ERROR

    def is_silent(self, part: str, *, host: str = "") -> bool:
        """Whether the web server's readiness, if it answers, says that the part is down; *host* as for answers()."""
        try:
            _, answer = self._get("/readyz", host)
            return bool(json.loads(answer).get(part) == "down")
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def _get(self, path: str, host: str) -> tuple[int, bytes]:
        connection = (
            _UnixConnection(self.path)
            if self.path
            else http.client.HTTPConnection(self._own_host, self.port, timeout=_ANSWER_WITHIN_S)
        )
        try:
            connection.request("GET", path, headers={"Host": host} if host else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    @classmethod
    def named(cls, text: str, *, port: int) -> Self:
        """Return the listener of ``--listen``: an IP address or ``unix:PATH``.

        Raises:
            UnreachableAddressError: it is neither.
        """
        if text.startswith(UNIX_PREFIX):
            return cls(path=Path(text.removeprefix(UNIX_PREFIX)).absolute())
        try:
            return cls(host=str(ip_address(text)), port=port)
        except ValueError as error:
            sentence = f"{text!r} is not an address to listen at; give an IP of this machine, or {UNIX_PREFIX}PATH."
            raise UnreachableAddressError(sentence) from error

    @property
    def _own_host(self) -> str:
        """The host by which this machine reaches the listener; the loopback address for a listener on all addresses."""
        address = ip_address(self.host)
        if not address.is_unspecified:
            return self.host
        return "::1" if isinstance(address, IPv6Address) else LOOPBACK


def _check_socket(path: Path) -> None:
    if not path.parent.is_dir() or len(str(path).encode()) > _MAX_SOCKET_PATH:
        sentence = f"name a path of at most {_MAX_SOCKET_PATH} bytes in a directory that exists."
        raise UnreachableAddressError(f"{path} cannot be a socket: {sentence}")
    try:
        require_trusted(path)
    except UntrustedPathError as error:
        raise UnreachableAddressError(str(error)) from error
    if not path.exists():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()  # of a server that was killed
        except OSError as error:
            raise UnreachableAddressError(f"{path} cannot be used ({error.strerror}): name another path.") from error
        else:
            raise PortTakenError(f"Another program listens at {path}: name another path with --listen.")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_ANSWER_WITHIN_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
