"""The parts of the system as their supervisor sees them: one JSON document for each connection to its socket.

The socket's path is in WMS_PARTS_SOCKET, which ``wms-server up`` sets. Neither database, broker nor disk is needed.
"""

import os
import socket
import time
from collections.abc import Sequence
from typing import Final

import msgspec

VARIABLE: Final = "WMS_PARTS_SOCKET"
#: Seconds in which the supervisor answers, or counts as silent; a page waits for it.
_WITHIN_S: Final = 0.2


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """A process that sends pulses."""

    pid: int
    #: Seconds without a pulse, in whole looks of the supervisor (ADR 96): the last look also counts while all is well.
    silent_s: float


class PartState(msgspec.Struct, frozen=True, kw_only=True):
    """A service of ``wms-server up``, such as the web server, a worker, or an embedded database."""

    name: str
    #: Seconds since it was started; None: it has ended, and is started again after a pause.
    running_s: float | None
    #: Seconds since it last worked, if it does not; 0: it works.
    hangs_s: float
    #: Restarts of it and of single processes of it, since the supervisor began.
    restarts: int
    #: Restarts in the last ten minutes.
    restarts_lately: int
    #: Why there was one, last; empty: there was none.
    last_reason: str
    processes: Sequence[ProcessState]
    #: Processes that hang and are left so, as too many were ended before.
    left: Sequence[int]


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The document: the supervisor, and the services that it has started."""

    supervisor_s: float
    parts: Sequence[PartState]


def has_supervisor() -> bool:
    """Return whether this process was started by ``wms-server up``."""
    return VARIABLE in os.environ


def read_parts() -> Parts | None:
    """Return the state of all parts; None: there is no supervisor, or it is silent."""
    if not has_supervisor():
        return None
    until = time.monotonic() + _WITHIN_S
    received = bytearray()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(_WITHIN_S)
            asking.connect(os.environ[VARIABLE])
            while block := asking.recv(65536):
                received += block
                asking.settimeout(max(0.001, until - time.monotonic()))
        return msgspec.json.decode(received, type=Parts)
    except (OSError, msgspec.DecodeError):
        return None
