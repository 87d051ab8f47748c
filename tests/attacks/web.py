"""A web server as `up` runs it, on the database of the test, and misbehaving clients."""

import http.client
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from django.conf import settings
from django.db import connection
from django.utils import timezone

from matching.services import job_tokens
from tests.factories import make_match
from tests.pace import wait_for, within
from wms.stack import services
from wms.stack.directory import DataDirectory
from wms.stack.listening import Listener
from wms.stack.services import StackOptions, System

HOST = "127.0.0.1"
#: An ordinary request, of which the server has no others to answer; what takes longer is not answered.
ANSWERED_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """A running web server."""

    port: int
    process: psutil.Process

    def workers(self) -> list[psutil.Process]:
        """Return the worker processes."""
        return self.process.children(recursive=True)

    def largest_mb(self) -> float:
        """Return the memory of the largest worker."""
        return max(worker.memory_info().rss for worker in self.workers()) / 1e6

    def connect(self) -> socket.socket:
        """Return a connection with a long timeout."""
        return socket.create_connection((HOST, self.port), timeout=within(60))

    def send(self, *parts: bytes) -> socket.socket:
        """Return a connection on which *parts* were sent."""
        opened = self.connect()
        opened.sendall(b"".join(parts))
        return opened

    def ask(
        self, method: str, path: str, body: object = None, *, token: str | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer to an ordinary request.

        Raises:
            TimeoutError: no answer came in time.
        """
        asking = http.client.HTTPConnection(HOST, self.port, timeout=within(ANSWERED_WITHIN_S))
        headers = {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        try:
            asking.request(method, path, None if body is None else json.dumps(body), headers)
            answer = asking.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        finally:
            asking.close()


@contextmanager
def web(
    directory: Path, *, workers: int = 2, ready: bool = True, port: int | None = None, **variables: str
) -> Iterator[Web]:
    """Run the server with the command of `up`; wait until it answers if *ready*; *variables* are settings."""
    database = connection.settings_dict["NAME"]
    port = port or free_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "PYTHONPATH": str(settings.BASE_DIR),
        "WMS_SECRET_KEY": settings.SECRET_KEY,
        "WMS_SERVER_URL": f"http://{HOST}:{port}",
        "WMS_DATABASE_URL": os.environ["WMS_DATABASE_URL"].replace("/wms?", f"/{database}?"),
        **variables,
    }
    options = StackOptions(project=settings.BASE_DIR, data=directory, listener=Listener(port=port), web_workers=workers)
    system = System(options=options, directory=DataDirectory(path=directory, cleaning=-1), environment=environment)
    service = services._web(system)
    log = directory / "web.log"
    with log.open("wb") as output:
        process = subprocess.Popen(service.command, env=environment, stdout=output, stderr=output)
    try:
        wait_for(service.is_ready if ready else lambda: True, 60, state=lambda: log.read_text(errors="replace")[-2000:])
        yield Web(port=port, process=psutil.Process(process.pid))
    finally:
        process.terminate()
        try:
            process.wait(timeout=within(30))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """An open lease, with its token."""

    match_id: UUID
    token: str

    @classmethod
    def make(cls) -> "Lease":
        """Return a new lease."""
        match = make_match(leased_at=timezone.now())
        token = job_tokens.issue(match.pk, job_id=match.job_id, now=timezone.now())
        return cls(match_id=match.pk, token=token)

    def heartbeat(self, at: Web, std_output: str = "", std_error: str = "") -> int:
        """Send a heartbeat; return the status of the answer."""
        body = {"cpu_s": 1.0, "wall_s": 1.0, "std_output": std_output, "std_error": std_error}
        status, _ = at.ask("POST", f"/api/v1/matches/{self.match_id}/heartbeat/", body, token=self.token)
        return status


def head(path: str, *, length: int | None = None, token: str | None = None, **headers: str) -> bytes:
    """Return the head of a POST request of JSON."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {HOST}", "Content-Type: application/json"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    if token is not None:
        lines.append(f"Authorization: Bearer {token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def answer_on(opened: socket.socket) -> tuple[int, Mapping[str, Any]]:
    """Return status and JSON of the answer on a connection."""
    answer = http.client.HTTPResponse(opened)
    answer.begin()
    return answer.status, json.loads(answer.read())


def status_on(opened: socket.socket) -> int:
    """Return the status of the answer on a connection; 0 if the connection is closed without one."""
    line = opened.recv(4096)
    return int(line.split()[1]) if line else 0


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        number: int = listener.getsockname()[1]
        return number
