"""Answers that are not taken: a connection whose client reads too slowly ends, so that it keeps no other one out.

granian waits for as long as a client likes. A client that asks and reads nothing keeps a connection of the few thousand
that a process takes, and costs itself nothing. What the kernel knows of each connection tells who that is.
"""

import logging
import os
import socket
import struct
import sys
import termios
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from stat import S_ISSOCK
from time import monotonic, sleep
from typing import Final

from wms.web.limits import BodyLimits

_logger = logging.getLogger(__name__)

_DESCRIPTORS: Final = Path("/proc/self/fd")
_INTERNET: Final = frozenset({socket.AF_INET, socket.AF_INET6})
#: A look costs some microseconds for each connection.
_LOOK_EVERY_S: Final = 1.0
#: Of the kernel's ``struct tcp_info``: where ``tcpi_bytes_acked`` is, and where it ends.
_ACKED: Final = struct.Struct("=120xQ")
#: Closing it drops what the client did not take, instead of keeping it in the kernel.
_AT_ONCE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class _Unread:
    """When something that was sent on a connection was first seen not to be taken, and how much was by then."""

    since_s: float
    acked_bytes: int


class UnreadAnswers:
    """The connections of this process on which something was sent that the client has not taken yet."""

    def __init__(self, limits: BodyLimits) -> None:
        self._limits = limits
        #: By the number of the socket, which no other one has at the same time.
        self._unread: dict[int, _Unread] = {}
        self._ports = _listening_ports()

    def watch(self) -> None:
        """Start the thread that ends connections whose clients read too slowly."""
        threading.Thread(target=self._watch, name="unread", daemon=True).start()

    def look(self, *, now_s: float) -> int:
        """End the connections of clients that were too slow by now, and return how many; at a steady clock's time."""
        before, self._unread = self._unread, {}
        return sum(
            self._has_ended(connection, number, before.get(number), now_s=now_s)
            for number, connection in _connections(self._ports)
        )

    def _has_ended(self, connection: socket.socket, number: int, before: _Unread | None, *, now_s: float) -> bool:
        """End the connection if its client is too slow; else note how far it is."""
        with suppress(OSError):  # it has ended by itself meanwhile
            if not _waiting_bytes(connection):
                return False
            (acked_bytes,) = _ACKED.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.size))
            unread = before or _Unread(now_s, acked_bytes)
            if self._limits.is_late(now_s - unread.since_s, received_bytes=acked_bytes - unread.acked_bytes):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                connection.shutdown(socket.SHUT_RDWR)
                return True
            self._unread[number] = unread
        return False

    def _watch(self) -> None:
        while True:
            sleep(_LOOK_EVERY_S)
            if ended := self.look(now_s=monotonic()):
                _logger.warning("Connections were ended whose clients did not take their answers: %d.", ended)


def _connections(ports: Collection[int]) -> Iterator[tuple[int, socket.socket]]:
    """Yield (number, socket) of the TCP connections to *ports* of this process, each while it is looked at."""
    for number, each in _tcp_sockets():
        # The others are this process's own, such as those to the database.
        if each.getsockname()[1] in ports and not _listens(each):
            yield number, each


def _listening_ports() -> frozenset[int]:
    """Return the TCP ports at which this process accepts connections; none if it has a Unix socket."""
    return frozenset(each.getsockname()[1] for _, each in _tcp_sockets() if _listens(each))


def _tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """Yield a duplicate of each TCP socket that this process has open; it is closed when the next one is asked for."""
    for path in list(_DESCRIPTORS.iterdir()):
        number = int(path.name)
        with suppress(OSError):  # closed meanwhile
            if not S_ISSOCK(os.fstat(number).st_mode):
                continue
            # NB: the number may be another socket's by now; what follows is about the duplicate.
            with socket.socket(fileno=os.dup(number)) as each:
                if each.family in _INTERNET and each.type == socket.SOCK_STREAM:
                    yield os.fstat(each.fileno()).st_ino, each


def _listens(each: socket.socket) -> bool:
    return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _waiting_bytes(connection: socket.socket) -> int:
    """Return how much was sent on the connection that the other side has not confirmed."""
    return int.from_bytes(ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
