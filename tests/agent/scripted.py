"""A stand-in for the server, for behaviour that a real one does not show on demand: errors, lost answers, ended leases.

It speaks the pilots' part of the contract over real sockets, records every request, and follows a test's script.
"""

import hashlib
import io
import json
import ssl
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from pilots.agent_package import agent_package
from tests.pace import Deadline, wait_for
from tests.serving import LoopbackServer
from tests.storage import write_certificate

DROP = "drop the connection instead of answering"
LOSE = "do it, and then drop the connection"

#: How the name of an action begins that first waits for a number of seconds, and then does as usual.
SLOWLY = "wait so many seconds: "

PILOT_TOKEN = "wmsp_scripted"


@dataclass(kw_only=True)
class Seen:
    """One received request."""

    method: str
    path: str
    token: str
    body: Any
    user_agent: str
    at: float


@dataclass(kw_only=True)
class Download:
    """The agent's program as it is served: the announced SHA-256, or none, and the number of bytes really sent."""

    content: bytes
    sha256: str | None
    sent_bytes: int | None = None


@dataclass(kw_only=True)
class Lease:
    """One job that a pilot holds or held."""

    match_id: str
    token: str
    job: dict[str, Any]
    ended: str = ""
    statuses: list[str] = field(default_factory=list)
    heartbeats: list[dict[str, Any]] = field(default_factory=list)
    finished: dict[str, Any] | None = None
    output: bytes | None = None
    replicas: list[dict[str, Any]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)
    finished_at: float = 0.0

    def files(self) -> dict[str, str]:
        """Return {name: text} of the output that was uploaded."""
        assert self.output is not None
        with tarfile.open(fileobj=io.BytesIO(self.output)) as archive:
            return {m.name: archive.extractfile(m).read().decode() for m in archive if m.isreg()}  # type: ignore[union-attr]

    def directories(self) -> list[str]:
        """Return the names of the directories of the output that was uploaded."""
        assert self.output is not None
        with tarfile.open(fileobj=io.BytesIO(self.output)) as archive:
            return [member.name for member in archive if member.isdir()]


class ScriptedServer(LoopbackServer):
    """A scripted server; within ``with`` it listens on a port of its own."""

    def __init__(self) -> None:
        self.configuration: dict[str, Any] = {
            "protocol": 1,
            "pilot": 1,
            "place": {"site": "LCG.Test.org", "ce": "ce1", "queue": "grid", "cpu_time_s": 300_000, "processors": 1}
            | {"wall_time_s": None, "gpus": 0, "disk_mb": 0, "container": False}
            | {"memory_mb": 2000, "platforms": ["x86_64-el9"], "tags": [], "required_tags": []},
            "heartbeat_s": 0.2,
            "match_retry_after_s": 1,
            "lease_first_s": 300,
            "lease_s": 1800,
            "lease_grace_s": 60,
            "watchdog": {"period_s": 0.1, "cpu_factor": 1.0, "min_free_disk_mb": 1},
            "some_new_key": {"of": "tomorrow"},
        }
        self.seen: list[Seen] = []
        self.waiting: list[dict[str, Any]] = []
        self.leases: list[Lease] = []
        self.sandboxes: dict[str, bytes] = {}
        self.scripts: dict[str, list[object]] = {}
        self.renewals: dict[str, str] = {}
        #: {logical name: what the answer to its reservation says beside the usual}.
        self.reservations: dict[str, dict[str, Any]] = {}
        #: Where output goes that is too large for the server.
        self.sandbox_place: dict[str, str] | None = None
        self.node_reports: list[dict[str, Any]] = []
        self.flaws: list[dict[str, Any]] = []
        self.leaving: list[str] = []
        #: Whether a pilot said that it could not work.
        self.failed = False
        #: Nothing is answered but 503.
        self.away = False
        self.log = ""
        #: Requests with lines of the log; they come whenever it suits the pilot, and are not among the others.
        self.log_requests: list[Seen] = []
        self.changed = threading.Condition()
        self._by_request: dict[str, list[Lease]] = {}
        super().__init__(self._handler())

    # ---- what tests say

    def add_job(self, executable: str, arguments: str = "", **more: Any) -> dict[str, Any]:
        """Add a waiting job."""
        job = {"id": len(self.waiting) + len(self.leases) + 1, "owner": "alice", "group": "users"}
        job |= {"executable": executable, "arguments": arguments, "std_output": "std.out", "std_error": "std.err"}
        job |= {"cpu_time_s": 86400, "processors": 1, **more}
        self.waiting.append(job)
        return job

    def add_sandbox(self, content: bytes, *, file_name: str, is_archive: bool = False) -> dict[str, Any]:
        """Store an input sandbox; return its name in job descriptions."""
        digest = hashlib.sha256(content).hexdigest()
        self.sandboxes[digest] = content
        return {"sandbox": f"sha256:{digest}", "file_name": file_name} | {
            "is_archive": is_archive,
            "size_bytes": len(content),
        }

    def script(self, name: str, *actions: object) -> None:
        """Set the *actions* for the next requests whose path ends with *name*.

        An action is a status, (status, body), DROP, LOSE, None (usual answer), or a function that is called before it.
        """
        self.scripts.setdefault(name, []).extend(actions)

    def order(self, name: str, *, id: int = 1) -> None:  # noqa: A002 - the contract's word
        with self.changed:
            self.leases[-1].commands.append({"id": id, "name": name, "arguments": {}})

    def end_lease(self) -> None:
        with self.changed:
            self.leases[-1].ended = "expired"

    def requests_to(self, name: str) -> Sequence[Seen]:
        return [seen for seen in self.seen if seen.path.endswith(name)]

    def wait_until(self, condition: "Any", *, timeout_s: float = 20.0) -> None:
        """Wait until *condition* holds; it is evaluated after each answered request."""
        deadline = Deadline(timeout_s)
        with self.changed:
            while not self.changed.wait_for(condition, 1.0):
                if deadline.has_passed():
                    raise AssertionError(f"it did not happen; the last requests were {self.seen[-5:]}")

    def poll(self, condition: "Any", *, timeout_s: float = 20.0) -> None:
        """Wait until *condition* holds, evaluating it also without requests."""
        wait_for(condition, timeout_s, every_s=0.02)

    @property
    def lease(self) -> Lease:
        """The only lease, or the newest."""
        return self.leases[-1]

    # ---- what pilots are answered

    def answer(self, seen: Seen) -> tuple[int, object]:
        parts = [part for part in seen.path.split("/") if part][2:]
        if parts[0] == "pilots":
            return self._before_jobs(parts[1], seen)
        if parts == ["matches"]:
            return self._match(seen.body)
        lease = next((each for each in self.leases if each.match_id == parts[1]), None)
        if lease is None:
            return 404, {"code": "not_found", "detail": "no such lease"}
        return self._on_lease(lease, parts[2:], seen)

    def _before_jobs(self, name: str, seen: Seen) -> tuple[int, object]:
        if name == "agent.pyz":
            package = agent_package()
            return 200, Download(content=package.content, sha256=package.sha256)
        if name == "register":
            return 201, {"pilot": 7, "token": PILOT_TOKEN, "expires_at": _in(3600)}
        if name == "config":
            return 200, {"server_time": datetime.now(UTC).isoformat(), **self.configuration}
        if name == "log":
            self.log += seen.body["text"][max(0, len(self.log) - seen.body["offset"]) :]
            return 200, {"received": len(self.log)}
        if "flaw" in seen.body:
            self.flaws.append(seen.body["flaw"])
        elif "leaving" in seen.body:
            self.leaving.append(seen.body["leaving"])
            self.failed = self.failed or seen.body.get("failed", False)
        else:
            self.node_reports.append(seen.body)
        return 200, {"pilot": 7, "status": "Running", "token": self.renewals.get("pilot")}

    def _match(self, offer: Mapping[str, Any]) -> tuple[int, object]:
        leases = self._by_request.get(offer["request_id"])
        if leases is None:
            if not self.waiting:
                return 204, None
            leases = [
                Lease(match_id=str(uuid4()), token=f"wmsj_{uuid4().hex}", job=job) for job in self._fitting(offer)
            ]
            self.leases += leases
            self._by_request[offer["request_id"]] = leases
        return 201, {"leases": [self._granted(lease) for lease in leases]}

    def _fitting(self, offer: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Remove and return the oldest job, whatever its requirements, and later ones that fit beside it."""
        taken = [self.waiting.pop(0)]
        while self.waiting and len(taken) < offer["max_jobs"]:
            together = [*taken, self.waiting[0]]
            if any(sum(job.get(name, 0) for job in together) > offer[name] for name in ("processors", "memory_mb")):
                break
            taken.append(self.waiting.pop(0))
        return taken

    def _granted(self, lease: Lease) -> dict[str, Any]:
        expires_at = _in(self.configuration["lease_first_s"])
        job = {name: value for name, value in lease.job.items() if name != "job_data"}
        answer = {"match_id": lease.match_id, "expires_at": expires_at, "token": lease.token, "job": job}
        return answer | ({"job_data": lease.job["job_data"]} if "job_data" in lease.job else {})

    def _on_lease(self, lease: Lease, parts: list[str], seen: Seen) -> tuple[int, object]:
        is_job = seen.token == lease.token or seen.token.startswith("wmsj_renewed")
        if parts[0] == "finish" and lease.finished is not None:
            return 200, {"status": "Done"}
        if lease.ended and not (parts[0] == "finish" and lease.ended == "killed"):
            return 409, {"code": "lease_ended", "detail": f"This lease has ended ({lease.ended})."}
        if parts[0] in {"sandboxes", "outputs", "replicas"}:
            if not is_job:
                return 403, {"code": "forbidden", "detail": "only with the token of the match"}
            return self._on_files(lease, parts, seen)
        if parts[0] == "status":
            lease.statuses.append(seen.body["status"])
        if parts[0] == "heartbeat":
            lease.heartbeats.append(seen.body)
            lease.acknowledged += seen.body.get("acknowledged", [])
            names = {command["id"]: command["name"] for command in lease.commands}
            lease.commands = [c for c in lease.commands if c["id"] not in lease.acknowledged]
            if any(names.get(each) == "kill" for each in seen.body.get("acknowledged", [])):
                lease.ended = "killed"
        if parts[0] == "finish":
            lease.finished, lease.finished_at = seen.body, time.monotonic()
            lease.ended = lease.ended or "finished"
            return 200, {"status": "Done"}
        answer: dict[str, Any] = {"commands": lease.commands, "expires_at": _in(self.configuration["lease_s"])}
        kind = "job" if is_job else "pilot"
        return 200, answer | ({"token": self.renewals[kind]} if kind in self.renewals else {})

    def _on_files(self, lease: Lease, parts: list[str], seen: Seen) -> tuple[int, object]:
        if parts[0] == "outputs" and seen.method == "GET":
            return 200, {"destination": self.sandbox_place}
        if parts[0] == "outputs":
            return 200, {"files": [self._reserved(lease, file) for file in seen.body["files"]]}
        return self._sandbox(lease, parts[1:], seen) if parts[0] == "sandboxes" else _replica(lease, seen)

    def _sandbox(self, lease: Lease, parts: list[str], seen: Seen) -> tuple[int, object]:
        if seen.method == "GET":
            content = self.sandboxes.get(parts[0])
            return (200, content) if content is not None else (404, {"code": "no_sandbox", "detail": "no such sandbox"})
        lease.output = seen.body
        return 201, {"sandbox": f"sha256:{hashlib.sha256(seen.body).hexdigest()}"}

    def _reserved(self, lease: Lease, file: Mapping[str, Any]) -> dict[str, Any]:
        directory, _, name = file["lfn"].rpartition("/")
        stored_as = f"/default/{name}" if file["exists"] else file["lfn"]
        upload = f"{directory}/.wms-{lease.match_id}-{name}"
        usual = {"lfn": file["lfn"], "stored_as": stored_as, "reason": "it exists" if file["exists"] else ""}
        usual |= {"upload": upload, "replaces": False, "earlier": [], "leftovers": []}
        return usual | self.reservations.get(stored_as, {})

    def delay_s(self, path: str) -> float:
        """Return the seconds before the answer is sent; other requests are answered meanwhile."""
        for name, actions in self.scripts.items():
            if actions and path.endswith(name) and str(actions[0]).startswith(SLOWLY):
                return float(str(actions[0]).removeprefix(SLOWLY))
        return 0.0

    def next_action(self, path: str) -> object:
        for name, actions in self.scripts.items():
            if actions and path.endswith(name):
                return actions.pop(0)
        return None

    def take(self, seen: Seen) -> tuple[int, object] | None:
        """Record the request and return its answer, or the scripted one; None: no answer."""
        with self.changed:
            (self.log_requests if seen.path == "/api/v1/pilots/log/" else self.seen).append(seen)
            action = 503 if self.away else self.next_action(seen.path)
            if action == DROP:
                return None
            if callable(action):
                action = action()
            if action is None or action == LOSE or str(action).startswith(SLOWLY):
                answer = self.answer(seen)
                return None if action == LOSE else answer
            if isinstance(action, tuple):
                return action
            assert isinstance(action, int)
            return action, {"code": "scripted", "detail": "as the test says"}

    def _handler(self) -> type["_Handler"]:
        return type("_HandlerOfServer", (_Handler,), {"scripted": self})


class ScriptedTLSServer(ScriptedServer):
    """The same over TLS; its *certificate* must be trusted."""

    scheme = "https"

    def __init__(self, directory: Path, *names: str) -> None:
        super().__init__()
        self.certificate = directory / "server.pem"
        write_certificate(self.certificate, *names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._do()

    def do_POST(self) -> None:
        self._do()

    def _do(self) -> None:
        seen = self._read()
        time.sleep(self.scripted.delay_s(seen.path))
        answer = self.scripted.take(seen)
        if answer is None:
            self.close_connection = True
        else:
            self._write(*answer)
        with self.scripted.changed:
            self.scripted.changed.notify_all()

    def _read(self) -> Seen:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kind = self.headers.get("Content-Type", "")
        body: Any = content
        if kind.startswith("multipart/form-data"):
            message = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + content)
            body = next(iter(message.iter_parts())).get_payload(decode=True)
        elif content:
            body = json.loads(content)
        return Seen(
            method=self.command,
            path=urlsplit(self.path).path,
            token=self.headers.get("Authorization", "").removeprefix("Bearer "),
            body=body,
            user_agent=self.headers.get("User-Agent", ""),
            at=time.monotonic(),
        )

    def _write(self, status: int, body: object) -> None:
        if isinstance(body, Download):
            self._send(status, body)
            return
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        if status in {204, 429, 503}:
            self.send_header("Retry-After", str(self.scripted.configuration["match_retry_after_s"]))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _send(self, status: int, download: Download) -> None:
        self.send_response(status)
        if download.sha256 is not None:
            self.send_header("X-Agent-SHA256", download.sha256)
        self.send_header("Content-Length", str(len(download.content)))
        self.end_headers()
        self.wfile.write(download.content[: download.sent_bytes])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def _replica(lease: Lease, seen: Seen) -> tuple[int, object]:
    lease.replicas.append(seen.body)
    return 201, seen.body


def _in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
