"""Becomes another program that is killed when its parent dies.

A program of its own, run with the standard library alone: ``python -I -S child.py PARENT COMMAND …``. Between the start
of a process and its first instruction its parent may have died already; that is looked at here.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_COULD_NOT_START = 127


def main(arguments: Sequence[str]) -> int:
    """Become the program; return only when that failed."""
    parent, *command = arguments
    # SIGKILL: the director did not end in order, so nobody is left who would wait for a graceful end.
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != int(parent):
        return _COULD_NOT_START
    # The director waits for signals instead of handling them, and a shell's background job ignores Ctrl-C; what is
    # blocked or ignored would stay so.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command[0], command)  # noqa: S606 - the director's own command line, and no shell wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {error}\n")
    return _COULD_NOT_START


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
