"""The pulses of the system's processes, as the supervisor hears them."""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

#: Looks in a row, ten seconds apart, at which a process had sent no pulse. Looks are counted, not seconds: no process
#: is silent because the machine was suspended, or too busy for its supervisor.
SILENT_LOOKS: Final = 6


class Pulses(asyncio.DatagramProtocol):
    """The processes that have sent a pulse, and how often they were silent since."""

    def __init__(self) -> None:
        #: {number of the process: looks in a row without a pulse}.
        self._silent_looks: dict[int, int] = {}

    async def listen(self, path: Path) -> asyncio.BaseTransport:
        """Hear the pulses that are sent to a new socket of this path, until the returned transport is closed."""
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: self, local_addr=str(path), family=socket.AF_UNIX
        )
        return transport

    def datagram_received(self, data: bytes, _address: object) -> None:
        """Note a pulse."""
        with suppress(ValueError):
            self._silent_looks[int(data)] = 0

    def silent(self, group: int) -> Sequence[int]:
        """Look at the processes of a process group that pulse; return those that have been silent too often."""
        silent = []
        for process, looks in tuple(self._silent_looks.items()):
            in_group = group_of(process)
            if in_group == group:
                self._silent_looks[process] = looks + 1
                if looks >= SILENT_LOOKS:
                    silent.append(process)
            elif in_group is None:
                del self._silent_looks[process]
        return silent

    def looks(self, group: int) -> Mapping[int, int]:
        """Return {process: looks in a row without a pulse} of the processes of a process group that pulse."""
        return {process: looks for process, looks in self._silent_looks.items() if group_of(process) == group}

    def forgive(self) -> None:
        """Begin to count anew: the supervisor itself did not run."""
        self._silent_looks = dict.fromkeys(self._silent_looks, 0)

    def forget(self, process: int) -> None:
        """Stop watching a process."""
        self._silent_looks.pop(process, None)


def group_of(process: int) -> int | None:
    """Return the process group; None if the process has ended."""
    try:
        return os.getpgid(process)
    except OSError:
        return None
