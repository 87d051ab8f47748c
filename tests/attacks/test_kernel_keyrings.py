"""Kernel keyrings of sessions and users, such as Kerberos tickets, are out of reach of payloads."""

import platform
from pathlib import Path

import pytest

from pilots.agent.job.accounts import claim_uid
from tests.agent.scripted import ScriptedServer
from tests.attacks.payloads import PYTHON, Start, printed, python

#: By their numbers, for the C library has no functions for them.
CALLS = """
import ctypes, struct
library = ctypes.CDLL(None, use_errno=True)
def add(name, content, ring):
    return library.syscall(248, b"user", name, content, ctypes.c_size_t(len(content)), ring)
def read(key):
    buffer = ctypes.create_string_buffer(4096)
    size = library.syscall(250, 11, key, buffer, 4096)
    return buffer.raw[:max(size, 0)]
def keys(ring):
    content = read(ring)
    return [key for key, in struct.iter_unpack("i", content[: len(content) // 4 * 4])]
SESSION, OF_USER, OF_USERS_SESSIONS = -3, -4, -5
persistent = library.syscall(250, 22, -1, SESSION)
"""
#: Prints what it finds, and leaves keys.
PAYLOAD = f"""{CALLS}
rings = (SESSION, OF_USER, OF_USERS_SESSIONS, *((persistent,) if persistent > 0 else ()))
print(sorted({{read(key) for ring in rings for key in keys(ring) if read(key).startswith(b"secret")}}))
for number, ring in enumerate(rings):
    add(b"left-%d" % number, b"secret of a payload", ring)
"""
SESSION_WITH_A_KEY = f"""{CALLS}
import os, sys
library.syscall(250, 1, 0)
add(b"ticket", b"secret of who started the pilot", SESSION)
os.execvp(sys.argv[1], sys.argv[1:])
"""

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are this machine's"),
]


@pytest.mark.parametrize("node", ["root", "namespaces"])
def test_a_payload_finds_no_keys_of_its_pilot_nor_of_a_payload_before_it(
    server: ScriptedServer, start_as: Start, node: str
) -> None:
    choice = Path("/tmp/wms-accounts-0/choice")
    for stamp in ("first", "second"):
        if choice.exists():
            choice.write_bytes(b"")  # so that both may have the same user id
        python(server, PAYLOAD)
        agent = start_as(stamp=stamp, node=node, enter=(PYTHON, "-c", SESSION_WITH_A_KEY))
        assert agent.wait() == 0, agent.log

    assert [printed(lease) for lease in server.leases] == ["[]\n", "[]\n"]


def test_a_freed_user_id_is_reused_last(tmp_path: Path) -> None:
    found = []
    for _ in range(3):
        claim = claim_uid(tmp_path / "removed", directory=tmp_path / "locks")
        found.append(claim.account.uid)
        claim.give_back()
    assert len(set(found)) == 3
