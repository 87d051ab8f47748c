"""The pilot's scripts, which may run as another user: the payload supervisor, and requests to the user helper."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from pilots.agent.job import user_helper
from pilots.agent.server import json_fields
from pilots.agent.server.json_fields import MalformedAnswerError

#: Seconds from the answer of the user helper until its process has ended.
_ENDS_WITHIN_S = 5.0
_MOST_ANSWER_BYTES = 1024 * 1024
#: Last bytes of standard error that are read for a message.
_MAX_STDERR_BYTES = 4096


class NoAnswerError(Exception):
    """There was no answer: sudo refused, or the user helper was ended."""


class FailedOperationError(Exception):
    """The user helper answered that the operation failed."""


def start(command: Sequence[str], *, wire: socket.socket, stderr: int | None) -> subprocess.Popen[bytes]:
    """Start one of the pilot's scripts, which inherits only a socket, as its standard input.

    It stays in the pilot's session: sudo stops itself when its command is stopped, and only processes of its session
    may then send it SIGCONT.
    """
    return subprocess.Popen(  # noqa: S603 - our own script
        command,
        stdin=wire.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
        cwd="/",
    )


def last_line(complaints: IO[bytes]) -> str:
    """Return the last line that is not empty of a file with messages, at most 150 characters."""
    complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _MAX_STDERR_BYTES))
    lines = complaints.read().decode("utf-8", "replace").replace("\0", "").split("\n")
    return next((line.strip()[-150:] for line in reversed(lines) if line.strip()), "")


def ask_user_helper(
    command: Sequence[str], request: Mapping[str, object], descriptors: Sequence[int], *, within_s: float
) -> tuple[Mapping[str, object], list[int]]:
    """Run one operation of the user helper; return its answer and the descriptors of opened files.

    Raises:
        NoAnswerError, FailedOperationError: it did not run, or failed.
        StreamError: standard output or error of the job cannot be opened.
    """
    wire, theirs = socket.socketpair()
    with wire, theirs:
        wire.settimeout(within_s)
        with tempfile.TemporaryFile() as complaints:
            process = start(command, wire=theirs, stderr=complaints.fileno())
            theirs.close()
            with suppress(OSError):  # it has ended, so there will be no answer
                socket.send_fds(wire, [b"F"], list(descriptors))
                wire.sendall(json.dumps(request).encode() + b"\n")
            answer, opened = _answer_on(wire)
            with suppress(subprocess.TimeoutExpired):  # it hangs, and is killed with the payload's processes
                process.wait(_ENDS_WITHIN_S)
            message = last_line(complaints)
    if answer is None:
        raise NoAnswerError(message or f"no answer to {request['operation']} within {within_s:.0f} s")
    if "stream_error" in answer:
        raise user_helper.StreamError(str(answer["stream_error"]))
    if "error" in answer:
        raise FailedOperationError(str(answer["error"]))
    return answer, opened


def _answer_on(wire: socket.socket) -> tuple[Mapping[str, object] | None, list[int]]:
    opened: list[int] = []
    try:
        _, opened, _, _ = socket.recv_fds(wire, 1, user_helper.MOST_DESCRIPTORS)
        line = b""
        while not line.endswith(b"\n") and len(line) < _MOST_ANSWER_BYTES and (part := wire.recv(65536)):
            line += part
        return json_fields.record(json.loads(line)), opened
    except (OSError, ValueError, MalformedAnswerError):
        for descriptor in opened:
            os.close(descriptor)
        return None, []
