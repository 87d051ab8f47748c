"""Programs of hostile payloads, and a barrier at which payloads wait for the test."""

import socket
from collections.abc import Callable

from tests.agent.running import RunningAgent
from tests.agent.scripted import Lease, ScriptedServer
from tests.pace import within

PYTHON = "/usr/bin/python3"
Start = Callable[..., RunningAgent]

#: Meets the test, which lets it go on; the word says which payload it is.
MEET = """
import socket
test = socket.create_connection(("127.0.0.1", {port}))
test.sendall(b"{word}\\n")
assert test.recv(1)
"""
VICTIM = f"""open("result", "w").write("mine")
mark = "{{mark}}"
{MEET}
print(open("result").read(), end="")
"""
#: Tries to trace, signal and read all others, and to rewrite their results; prints what it could do.
ATTACK = f"""import ctypes, glob, os, signal
{MEET}
library, done = ctypes.CDLL(None, use_errno=True), set()
family, pid = set(), os.getpid()
while pid > 0:
    family.add(pid)
    pid = int(open(f"/proc/{{{{pid}}}}/stat").read().rpartition(")")[2].split()[1])
for pid in [int(name) for name in os.listdir("/proc") if name.isdecimal()]:
    try:
        told = open(f"/proc/{{{{pid}}}}/cmdline", "rb").read()
    except OSError:
        continue
    if pid == os.getpid() or not any(word in told for word in (b"{{mark}}", b"agent.pyz", b"payload_supervisor.py")):
        continue
    if library.ptrace(16, pid, 0, 0) == 0:
        done.add(f"traced {{{{told}}}}")
        os.waitpid(pid, 0x40000000)
        library.ptrace(17, pid, 0, 0)
    for name in ("environ", "mem", "maps", "cwd/result"):
        try:
            open(f"/proc/{{{{pid}}}}/{{{{name}}}}", "rb").read(1)
            done.add(f"read {{{{name}}}} of {{{{told}}}}")
        except OSError:
            pass
    try:
        # The first process of its own namespace ignores what comes from within.
        os.kill(pid, signal.SIGCONT)
        done.add(f"signalled {{{{told}}}}") if pid not in family else None
    except OSError:
        pass
places = ("/tmp/*/work/*/job/result", "/tmp/*/work/*/gate/area/job/result", "/proc/*/cwd/result")
for path in [path for place in places for path in glob.glob(place)]:
    try:
        where = os.path.realpath(path)
        open(path, "w").write("stolen")
        done.add(f"wrote {{{{where}}}}")
    except OSError:
        pass
print(sorted(done), end="")
"""


class Meeting:
    """A barrier at which payloads wait, over TCP so that it works in any namespace, until the test releases them."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(within(60))
        self.port = self._listener.getsockname()[1]
        self._there: dict[str, socket.socket] = {}

    def wait_for(self, *words: str) -> None:
        while not set(words) <= self._there.keys():
            connection, _ = self._listener.accept()
            connection.settimeout(within(60))
            self._there[connection.makefile().readline().strip()] = connection

    def let_go(self, word: str) -> None:
        """Release the payload, and wait until it has ended."""
        connection = self._there[word]
        connection.sendall(b"!")
        assert connection.recv(1) == b""
        connection.close()

    def close(self) -> None:
        for each in (self._listener, *self._there.values()):
            each.close()


def python(server: ScriptedServer, program: str) -> None:
    """Add a job that runs a program in Python."""
    server.add_job(PYTHON, "program.py", input_sandboxes=[server.add_sandbox(program.encode(), file_name="program.py")])


def printed(lease: Lease) -> str:
    assert lease.finished is not None
    assert lease.finished["exit_code"] == 0, lease.files()
    return lease.files()["std.out"]
