"""Stand-ins for pilots on a plain host, which do what the test orders; and functions that find them."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pilots.backends import host
from pilots.backends.interface import BatchRequest, CEDescription, PilotOrder
from pilots.backends.local import LocalBackend
from pilots.backends.plain_host import PlainHostBackend
from pilots.backends.ssh import SSHBackend
from tests.pace import wait_for

SITE, CE = "CERN", "ce01"
#: Stands in for the agent: takes its secret as that does, then does what its queue is called.
_SCRIPT = """\
echo begun >> begun
read -r secret < secret
rm secret
echo "$secret" > taken.unfinished
mv taken.unfinished taken
echo "hello from {stamp}"
case {queue} in
    exit*) exit {code} ;;
    stubborn) trap '' TERM; echo > deaf ;;
esac
exec sleep 600
"""


def order(queue: str = "sleep") -> PilotOrder:
    """Return the batch request of a pilot that does what *queue* names: sleep, exit<number>, stubborn."""
    slot = BatchRequest(queue=queue)
    return PilotOrder(
        stamp=uuid4().hex, secret=f"wmsr_{uuid4().hex}", vo="lhcb", site=SITE, ce=CE, queue=queue, slot=slot
    )


def script_of(order: PilotOrder) -> str:
    code = order.queue.removeprefix("exit") if order.queue.startswith("exit") else "0"
    return _SCRIPT.format(stamp=order.stamp, queue=order.queue, code=code)


class StandInLocal(LocalBackend):
    """A local CE whose pilots are stand-ins."""

    def script(self, order: PilotOrder) -> str:
        return script_of(order)


class StandInSSH(SSHBackend):
    """A host reached by SSH whose pilots are stand-ins."""

    def script(self, order: PilotOrder) -> str:
        return script_of(order)


def description(directory: Path, options: Mapping[str, object], *, server_url: str = "http://x/") -> CEDescription:
    return CEDescription(site=SITE, ce=CE, options=options, directory=directory, server_url=server_url)


def start(backend: PlainHostBackend, place: Path, queue: str = "sleep") -> tuple[str, Path]:
    """Return the stamp and the directory of a pilot that has started."""
    wanted = order(queue)
    (submission,) = backend.submit([wanted])
    assert submission.error == ""
    assert submission.batch_id
    wait_for((place / wanted.stamp / "taken").exists)
    return wanted.stamp, place / wanted.stamp


def process_of(own: Path) -> host.Process:
    process = host.process_of(own)
    assert process is not None
    return process


@contextmanager
def no_pilot_left(directory: Path) -> Iterator[None]:
    """Kill, at the end, the processes that were started below the directory."""
    try:
        yield
    finally:
        processes = [host.process_of(file.parent) for file in directory.rglob(host.PROCESS)]
        for process in processes:
            if process is not None and process.pilot_lives:
                with suppress(ProcessLookupError):
                    os.kill(process.pilot, signal.SIGKILL)
        wait_for(lambda: not any(process is not None and process.lives for process in processes))
