"""A program that floods a web server, with the standard library alone: ``flooding.py KIND PORT SECONDS [CREDENTIAL]``.

It prints the statuses of its answers, and is a separate process so that it takes no time from other clients.
"""

import http.client
import json
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import cycle
from threading import Thread
from typing import Final

_HOST: Final = "127.0.0.1"
_WAIT_S: Final = 120.0
_ANONYMOUS_BYTES: Final = 64_000_000
_SUBMISSIONS: Final = 8
_STALLED: Final = 48
_ANONYMOUS: Final = 16
_BROWSERS: Final = 16
_PAGES: Final = ("/", "/jobs/", "/submissions/", "/failures/", "/task-queues/", "/sites/", "/shares/")
_NO_ANSWER: Final = "no answer"


def descriptions() -> bytes:
    """Return a submission of 10 MB: a thousand descriptions in JDL."""
    jdl = 'Executable = "/bin/echo"; Arguments = "%s"; CPUTime = 500;' % ("x" * 9800)
    return json.dumps({"jobs": [{"jdl": jdl} for _ in range(1000)]}).encode()


def submissions(port: int, token: str) -> Counter[str]:
    """Submit 8 times 10 MB at once."""
    body = descriptions()
    request = _head("/api/v1/jobs/", length=len(body), token=token) + body
    return _together([lambda: _exchange(port, request)] * _SUBMISSIONS)


def anonymous(port: int, _token: str) -> Counter[str]:
    """Send 16 bodies of 64 MB at once, without a token, to the address that accepts bodies without one."""
    body = b"[1," * (_ANONYMOUS_BYTES // 3)
    request = _head("/api/v1/auth/token/", length=len(body)) + body
    return _together([lambda: _exchange(port, request)] * _ANONYMOUS)


def pages(port: int, cookie: str, *, seconds: float) -> Counter[str]:
    """Open pages with 16 clients of one user, each as soon as the one before is there."""
    until_s = time.monotonic() + seconds

    def browse() -> str:
        status = _NO_ANSWER
        opened = http.client.HTTPConnection(_HOST, port, timeout=_WAIT_S)
        for page in cycle(_PAGES):
            if time.monotonic() >= until_s:
                return status
            opened.request("GET", page, headers={"Cookie": cookie})
            response = opened.getresponse()
            response.read()
            status = str(response.status)
        return status

    return _together([browse] * _BROWSERS)


def stalled(port: int, _token: str, *, seconds: float) -> Counter[str]:
    """Keep 48 connections that have announced a body and sent one byte of it; reopen each when it is closed."""
    until_s = time.monotonic() + seconds
    request = _head("/api/v1/auth/token/", length=100) + b"{"

    def keep() -> str:
        last = _NO_ANSWER
        while (left_s := until_s - time.monotonic()) > 0:
            last = _exchange(port, request, wait_s=left_s)
        return last

    return _together([keep] * _STALLED)


def _together(calls: Sequence[Callable[[], str]]) -> Counter[str]:
    said: Counter[str] = Counter()

    def run(call: Callable[[], str]) -> None:
        said[call()] += 1

    threads = [Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def _head(path: str, *, length: int, token: str = "") -> bytes:
    authorization = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: {_HOST}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
        f"{authorization}\r\n"
    ).encode()


def _exchange(port: int, request: bytes, *, wait_s: float = _WAIT_S) -> str:
    """Send as much of a request as the server takes, and return the status of the answer."""
    try:
        with socket.create_connection((_HOST, port), timeout=wait_s) as opened:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused while it was sent
                opened.sendall(request)
            return opened.recv(4096)[9:12].decode() or _NO_ANSWER
    except OSError:
        return _NO_ANSWER


if __name__ == "__main__":
    kind, number, duration, *credential = sys.argv[1:]
    given = credential[0] if credential else ""
    if kind in {"stalled", "pages"}:
        found = {"stalled": stalled, "pages": pages}[kind](int(number), given, seconds=float(duration))
    else:
        found = {"submissions": submissions, "anonymous": anonymous}[kind](int(number), given)
    sys.stdout.write(json.dumps(found))
