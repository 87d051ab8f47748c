"""The pulse of a process: every few seconds it tells the supervisor that it runs, by a datagram, as sd_notify does.

The datagram is the number of the process. It goes to the socket that WMS_PULSE_SOCKET names, which ``wms-server up``
sets; without it nothing is sent. It needs neither database nor broker, so that their outages stop no pulse (ADR 96).
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

VARIABLE: Final = "WMS_PULSE_SOCKET"
_EVERY_S: Final = 5.0


def begin(works: Callable[[], bool] = lambda: True) -> None:
    """Send pulses from a thread of this process as long as *works* returns true.

    Args:
        works: called in that thread; false stops the pulse, and the supervisor replaces the process.
    """
    if VARIABLE in os.environ:
        threading.Thread(target=_send_while, args=(works,), name="pulse", daemon=True).start()


def send() -> None:
    """Send one pulse; a supervisor that does not listen is none of this process's business."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.sendto(b"%d" % os.getpid(), socket.MSG_DONTWAIT, path)


def _send_while(works: Callable[[], bool]) -> None:
    while True:
        if works():
            send()
        time.sleep(_EVERY_S)
