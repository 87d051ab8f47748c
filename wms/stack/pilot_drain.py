"""The program that ends the pilots of this machine when the system stops.

``python -m wms.stack.pilot_drain DIRECTORY`` starts after the web server and so stops before it: pilots of this machine
outlive the workers that start them, and give their jobs back while the web server still runs.
"""

import signal
import sys
from pathlib import Path

from pilots.backends.local import dismiss

_STOP = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def main() -> None:
    """Wait for a signal to stop, then end the pilots of the local CEs below the directory."""
    (directory,) = sys.argv[1:]
    # Blocked and waited for: a signal that arrives earlier is not lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP)
    signal.sigwait(_STOP)
    dismiss(Path(directory))


if __name__ == "__main__":
    main()
