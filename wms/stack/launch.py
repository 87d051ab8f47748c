"""Start a program that ends with its parent, as another user than root where necessary.

This file is also a program of its own, run with the standard library alone: ``python -I -S launch.py SIGNAL PARENT
IDENTITY COMMAND …``. It does the work of ``unshare`` and ``setpriv``, which a machine may lack, in one process.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

#: The user and the group without rights; user namespaces also map every unmapped identity to it.
NOBODY = 65534

# From <linux/prctl.h>, <linux/sched.h> and <linux/capability.h>.
_PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_CLONE_NEWUSER = 0x10000000
_CAPABILITY_VERSION_3 = 0x20080522
_CAP_DAC_OVERRIDE = 1

_COULD_NOT_START = 127


class ProcessUser(StrEnum):
    """The user as whom a program runs."""

    SAME = "same"
    #: The own user outside, nobody inside a user namespace: no file has to be copied or to change its owner. For root,
    #: and for an account without a name.
    MAPPED = "mapped"
    #: Nobody, with the right to pass root's directories: for root where user namespaces are forbidden (containers).
    NOBODY = "nobody"


def launched(
    command: Sequence[str], *, identity: ProcessUser = ProcessUser.SAME, death_signal: signal.Signals = signal.SIGTERM
) -> list[str]:
    """Return the command line that runs *command*, and sends it *death_signal* when the calling thread ends.

    NB: the kernel watches the *thread* that starts the program; start it from the main thread.
    """
    own = [sys.executable, "-I", "-S", __file__]
    return [*own, str(int(death_signal)), str(os.getpid()), identity.value, *command]


def main(arguments: Sequence[str]) -> int:
    """Become the program; return only if that failed, or without a command, which only tests the identity."""
    death_signal, parent, identity, *command = arguments
    try:
        _become(ProcessUser(identity))
        _die_with_parent(int(death_signal), parent=int(parent))
        if not command:
            return 0
        # A shell's background job ignores Ctrl-C, and its children would inherit that.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - the caller's own command line, and no shell wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]} could not be started: {error}\n")
    return _COULD_NOT_START


def _become(identity: ProcessUser) -> None:
    if identity is ProcessUser.MAPPED:
        _enter_user_namespace()
    elif identity is ProcessUser.NOBODY:
        _drop_to_nobody()


def _enter_user_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    _call("unshare", _CLONE_NEWUSER)
    # Bytes: for a text Python would load an encoding from files that this account may not be able to read.
    Path("/proc/self/setgroups").write_bytes(b"deny")
    Path("/proc/self/uid_map").write_bytes(b"%d %d 1" % (NOBODY, user))
    Path("/proc/self/gid_map").write_bytes(b"%d %d 1" % (NOBODY, group))


def _drop_to_nobody() -> None:
    """Change to nobody, keeping the one capability that it needs to read programs below a directory of root."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    _call("prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    only = 1 << _CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    effective_permitted_inheritable_twice = (ctypes.c_uint32 * 6)(only, only, only, 0, 0, 0)
    _call("capset", header, effective_permitted_inheritable_twice)
    _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)


def _die_with_parent(death_signal: int, *, parent: int) -> None:
    # NB: after the change of identity, which clears it.
    _call("prctl", _PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died before it was watched
        sys.exit(_COULD_NOT_START)


def _call(function: str, *arguments: object) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library[function](*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
