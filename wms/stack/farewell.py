"""Waits until it is asked to stop, and then asks the pilots of this machine to leave.

A program of its own, ``python -m wms.stack.farewell DIRECTORY``, started after the web server and so stopped before it:
pilots of this machine outlive the workers that start them, and hand their jobs back while somebody is there for them.
"""

import signal
import sys
from pathlib import Path

from pilots.backends.local import dismiss

_STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def main() -> None:
    """Wait, then say farewell to the pilots of the local CEs below the directory."""
    (directory,) = sys.argv[1:]
    # Blocked and waited for: none can come at a moment when it would be overlooked.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    signal.sigwait(_STOP)
    dismiss(Path(directory))


if __name__ == "__main__":
    main()
