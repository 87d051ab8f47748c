"""Unread answers: a connection whose client reads too slowly is closed, so that it blocks no others.

granian waits for any client without limit. A client that sends requests and reads nothing occupies one of the few
thousand connections of a process at no cost. The kernel's state of each connection shows which clients do that.
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

from wms.web.bodies import is_late

_logger = logging.getLogger(__name__)

_DESCRIPTORS: Final = Path("/proc/self/fd")
_INTERNET: Final = frozenset({socket.AF_INET, socket.AF_INET6})
#: Seconds between two checks; a check takes some microseconds for each connection.
_LOOK_EVERY_S: Final = 1.0
#: Position of ``tcpi_bytes_acked`` in the kernel's ``struct tcp_info``.
_ACKED: Final = struct.Struct("=120xQ")
#: SO_LINGER of 0 s: closing drops unread data, instead of keeping it in the kernel.
_AT_ONCE: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class _Unread:
    """The time at which unread data was first seen on a connection, and the bytes acknowledged by then."""

    since_s: float
    acked_bytes: int


class UnreadAnswers:
    """The connections of this process with data that the client has not read yet."""

    def __init__(self) -> None:
        #: By inode of the socket, which is unique among open ones.
        self._unread: dict[int, _Unread] = {}
        self._ports = _listening_ports()

    def watch(self) -> None:
        """Start the thread that closes connections whose clients read too slowly."""
        threading.Thread(target=self._watch, name="unread", daemon=True).start()

    def look(self, *, now_s: float) -> int:
        """Close the connections of clients that are too slow, and return their number; *now_s* of a monotonic clock."""
        before, self._unread = self._unread, {}
        return sum(
            self._has_ended(connection, number, before.get(number), now_s=now_s)
            for number, connection in _connections(self._ports)
        )

    def _has_ended(self, connection: socket.socket, number: int, before: _Unread | None, *, now_s: float) -> bool:
        """Close the connection if its client is too slow; else note its progress."""
        with suppress(OSError):  # it has ended meanwhile
            if not _waiting_bytes(connection):
                return False
            (acked_bytes,) = _ACKED.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED.size))
            unread = before or _Unread(now_s, acked_bytes)
            if is_late(now_s - unread.since_s, moved_bytes=acked_bytes - unread.acked_bytes):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                connection.shutdown(socket.SHUT_RDWR)
                return True
            self._unread[number] = unread
        return False

    def _watch(self) -> None:
        while True:
            sleep(_LOOK_EVERY_S)
            if ended := self.look(now_s=monotonic()):
                _logger.warning("Connections closed whose clients did not read their answers: %d.", ended)


def _connections(ports: Collection[int]) -> Iterator[tuple[int, socket.socket]]:
    """Yield (inode, socket) of this process's TCP connections at *ports*, each open until the next is requested."""
    for number, each in _tcp_sockets():
        # Others are this process's own, such as those to the database.
        if each.getsockname()[1] in ports and not _listens(each):
            yield number, each


def _listening_ports() -> frozenset[int]:
    """Return the TCP ports at which this process listens; none with a Unix socket."""
    return frozenset(each.getsockname()[1] for _, each in _tcp_sockets() if _listens(each))


def _tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """Yield (inode, duplicate) of each open TCP socket; the duplicate is closed when the next one is requested."""
    for path in list(_DESCRIPTORS.iterdir()):
        number = int(path.name)
        with suppress(OSError):  # closed meanwhile
            if not S_ISSOCK(os.fstat(number).st_mode):
                continue
            # NB: the descriptor may belong to another socket by now; what follows uses the duplicate.
            with socket.socket(fileno=os.dup(number)) as each:
                if each.family in _INTERNET and each.type == socket.SOCK_STREAM:
                    yield os.fstat(each.fileno()).st_ino, each


def _listens(each: socket.socket) -> bool:
    return bool(each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _waiting_bytes(connection: socket.socket) -> int:
    """Return the number of sent bytes that the client has not acknowledged."""
    return int.from_bytes(ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)
