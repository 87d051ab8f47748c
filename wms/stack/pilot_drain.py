"""The program that asks the pilots of this machine to leave when the system stops.

``python -m wms.stack.pilot_drain DIRECTORY`` is started after the web server and so stopped before it: pilots of this
machine outlive the workers that start them, and hand their jobs back while the server is still there.
"""

import signal
import sys
from pathlib import Path

from pilots.backends.local import dismiss

_STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def main() -> None:
    """Wait for a signal to stop, then end the pilots of the local CEs below the directory."""
    (directory,) = sys.argv[1:]
    # Blocked and waited for: none can come at a moment when it would be overlooked.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    signal.sigwait(_STOP)
    dismiss(Path(directory))


if __name__ == "__main__":
    main()
