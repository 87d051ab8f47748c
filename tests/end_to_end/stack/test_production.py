"""A server in production, by the files of the guide for operators: settings, backup, restore and a new key."""

import http.client
import json
import secrets
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg
import pytest
import yaml

from tests.end_to_end.docs.fences import titled
from tests.end_to_end.stack.running import READY_WITHIN_S, environment, free_port, manage, processes_of
from tests.pace import wait_for, within
from wms.stack.binaries import find_postgres, find_valkey
from wms.stack.guard import Guard
from wms.stack.servers import PostgresServer, ValkeyServer, environment_of_server

PAGE = "operators.md"
BOUNDARY = "the-boundary"


@dataclass(kw_only=True)
class Production:
    """A production server on servers of its own."""

    directory: Path
    postgres: PostgresServer
    settings: dict[str, str]
    port: int = field(default_factory=free_port)

    @property
    def sandboxes(self) -> Path:
        return Path(self.settings["WMS_SANDBOX_DIR"])

    @property
    def output(self) -> str:
        return (self.directory / "up.log").read_text(errors="replace")

    @contextmanager
    def up(self) -> Iterator[None]:
        """Run what the unit starts, and stop it as systemd does; it must end well and leave nothing."""
        (line,) = [line for line in titled(PAGE, "wms.service").splitlines() if line.startswith("ExecStart=")]
        program, *words = shlex.split(line.removeprefix("ExecStart="))
        assert program.endswith("/wms-server")
        command = manage(*(str(self.port) if word == "8000" else word for word in words))
        with (self.directory / "up.log").open("wb") as log:
            up = subprocess.Popen(command, env=environment() | self.settings, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: "The system is up at" in self.output or up.poll() is not None, READY_WITHIN_S)
            assert up.poll() is None, self.output
            yield
            up.send_signal(signal.SIGTERM)
            assert up.wait(timeout=within(60)) == 0
            assert processes_of(self.directory / "data") == []
        finally:
            up.kill()
            up.wait()

    def command(self, *words: str) -> str:
        """Return the output of a management command."""
        return self._run(manage(*words))

    def ask(self, path: str, body: bytes | None = None, *, token: str = "", kind: str = "") -> tuple[int, bytes]:
        """Return the status and the body of an answer, as the proxy gets it."""
        headers = {"Host": "wms.example.org", "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Content-Type": kind} if kind else {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(60))
        try:
            connection.request("GET" if body is None else "POST", path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def variables_of(self, word: str) -> set[str]:
        """Return the names of the variables of this server's processes in whose command line the word is."""
        found = set[str]()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                variables = process.environ()
                if word in process.cmdline() and self.settings["WMS_DATA_DIR"] in variables.values():
                    found |= variables.keys()
        assert found
        return found

    def empty_the_database(self) -> None:
        with psycopg.connect(self.postgres.url("postgres"), autocommit=True) as connection:
            connection.execute("DROP DATABASE wms WITH (FORCE)")
        self.postgres.create_database("wms")

    def _run(self, command: Sequence[str]) -> str:
        path = f"{self.postgres.programs.directory}:{environment()['PATH']}"
        ended = subprocess.run(
            command, env=environment() | self.settings | {"PATH": path}, capture_output=True, text=True,
            timeout=within(READY_WITHIN_S), check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


@pytest.fixture
def production(tmp_path: Path) -> Iterator[Production]:
    # Not where embedded servers have theirs: production refuses these.
    sockets = Path(tempfile.mkdtemp(prefix="production-", dir="/tmp"))
    postgres = PostgresServer(programs=find_postgres(), data=tmp_path / "postgres", sockets=sockets, durable=False)
    valkey = ValkeyServer(program=find_valkey(), sockets=sockets)
    postgres.create()
    guard = Guard(paths=[sockets])
    variables = environment_of_server() | guard.environment
    quiet = subprocess.DEVNULL
    servers = [
        subprocess.Popen(command, env=variables, stdout=quiet, stderr=quiet)
        for command in (postgres.command(), valkey.command())
    ]
    try:
        wait_for(lambda: postgres.is_ready() and valkey.is_ready(), 60)
        postgres.create_database("wms")
        settings = dict(line.split("=", 1) for line in titled(PAGE, "wms.env").splitlines())
        settings |= {
            "WMS_DATABASE_URL": postgres.url("wms"),
            "WMS_REDIS_URL": valkey.url(),
            "WMS_SECRET_KEY": secrets.token_urlsafe(50),
            "WMS_DATA_DIR": str(tmp_path / "data"),
            "WMS_SANDBOX_DIR": str(tmp_path / "data" / "sandboxes"),
        }
        yield Production(directory=tmp_path, postgres=postgres, settings=settings)
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.wait(timeout=within(30))
        guard.finish()


def configuration(directory: Path) -> str:
    """Return the path of the page's first configuration, without computing elements, which production refuses."""
    content = yaml.safe_load(titled(PAGE, "first.yaml"))
    for site in content["sites"]:
        del site["ces"]
    (directory / "first.yaml").write_text(yaml.safe_dump(content))
    return str(directory / "first.yaml")


def job_with_a_file(production: Production, token: str, content: bytes) -> int:
    """Submit a job with an input sandbox; return its id."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="run.sh"\r\n\r\n'
    body = head.encode() + content + f"\r\n--{BOUNDARY}--\r\n".encode()
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    status, answer = production.ask("/api/v1/sandboxes/", body, token=token, kind=kind)
    assert status == 201, answer
    description = {"executable": "run.sh", "input_sandbox": [json.loads(answer)["sandbox"]]}
    sent = json.dumps(description).encode()
    status, answer = production.ask("/api/v1/jobs/", sent, token=token, kind="application/json")
    assert status == 201, answer
    job_id: int = json.loads(answer)["jobs"][0]["id"]
    return job_id


def contents(directory: Path) -> Mapping[str, bytes]:
    """Return the contents of all files below a directory."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_a_server_is_set_up_backed_up_lost_and_restored_with_another_key(production: Production) -> None:
    with production.up():
        assert "The system is up at https://wms.example.org/ " in production.output
        assert "Traceback" not in production.output
        # Batch systems of others are not asked every two seconds.
        assert "WMS_DIRECTOR_CYCLE_S" not in production.variables_of("celery")
        assert not (production.directory / "data" / "secret_key").exists()
        assert production.ask("/accounts/login/")[0] == 200
        assert production.ask("/static/portal/portal.css")[0] == 200
        production.command("configure", configuration(production.directory))
        token = production.command("token", "alice").strip()
        job_id = job_with_a_file(production, token, b"#!/bin/sh\necho here\n")
        production.command("backup", str(production.directory / "backups"))
        stored = contents(production.sandboxes)
        assert stored

    production.empty_the_database()
    shutil.rmtree(production.sandboxes)
    said = production.command("restore", str(production.directory / "backups"))
    assert "1 file of sandboxes" in said
    assert contents(production.sandboxes) == stored

    lost = production.settings["WMS_SECRET_KEY"]
    production.settings |= {"WMS_SECRET_KEY": secrets.token_urlsafe(50), "WMS_SECRET_KEY_FALLBACKS": lost}
    with production.up():
        assert "invariants hold" in production.command("verify")
        assert "secrets re-encrypted" in production.command("rotate_key")
        status, answer = production.ask(f"/api/v1/jobs/{job_id}/", token=token)
        assert (status, json.loads(answer)["status"]) == (200, "Waiting")
        # Work goes on: the restored job is killed, and another one is submitted.
        assert production.ask(f"/api/v1/jobs/{job_id}/kill/", b"{}", token=token, kind="application/json")[0] == 200
        assert job_with_a_file(production, token, b"#!/bin/sh\necho again\n") > 1_000_000
        wait_for(lambda: production.ask("/readyz")[0] == 200, 60)
        assert "invariants hold" in production.command("verify")
