"""Start a program that dies with its parent and, where it must not be root, is not.

This file is also a program of its own, run with the standard library alone: ``python -I -S launch.py SIGNAL PARENT
IDENTITY COMMAND …``. It does in one process what ``unshare`` and ``setpriv`` do, which a machine may lack.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

#: The user and the group that own nothing; user namespaces show every unmapped identity as this one too.
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
    """As whom a program runs."""

    SAME = "same"
    #: Oneself outside, nobody inside a user namespace: nothing has to be copied or to change its owner. For root, and
    #: for an account without a name.
    MAPPED = "mapped"
    #: Nobody, allowed to pass root's directories: for root where user namespaces are forbidden (containers).
    NOBODY = "nobody"


def launched(
    command: Sequence[str], *, identity: ProcessUser = ProcessUser.SAME, death_signal: signal.Signals = signal.SIGTERM
) -> list[str]:
    """Return the command line that runs *command*, sending it *death_signal* when the calling thread is gone.

    NB: the kernel watches the *thread* that starts the program; start it from the main thread.
    """
    own = [sys.executable, "-I", "-S", __file__]
    return [*own, str(int(death_signal)), str(os.getpid()), identity.value, *command]


def main(arguments: Sequence[str]) -> int:
    """Become the program; return only when that failed, or when there is none and only the identity was to be tried."""
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
    # Bytes: for a text Python would load an encoding, from files that may be closed to the account in here.
    Path("/proc/self/setgroups").write_bytes(b"deny")
    Path("/proc/self/uid_map").write_bytes(b"%d %d 1" % (NOBODY, user))
    Path("/proc/self/gid_map").write_bytes(b"%d %d 1" % (NOBODY, group))


def _drop_to_nobody() -> None:
    """Change to nobody, keeping the one capability that lets it read programs below a directory of root's."""
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
    # NB: after the change of identity, for that clears it.
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
