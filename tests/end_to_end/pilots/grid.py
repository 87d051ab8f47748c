"""The whole system with two Slurm clusters and a plain host behind SSH, as its users and operators use it."""

import http.client
import json
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import psutil
import psycopg
import yaml
from psycopg.rows import dict_row

from pilots.agent.node.inspection import detected_platform
from tests.end_to_end.stack.running import READY_WITHIN_S, environment, free_port, manage
from tests.pace import wait_for, within
from tests.programs import directory_of_payloads
from tests.slurm import CORES, SlurmCluster, slurm_cluster
from tests.ssh import SSHHost, ssh_host
from wms.demo.job_table import OPEN

#: Of anything that is waited for here, on a machine that does other things too.
WITHIN_S = 240.0
#: Everything as often as can be; else as it comes.
OFTEN = {"WMS_DIRECTOR_CYCLE_S": "1", "WMS_HEARTBEAT_S": "2", "WMS_MATCH_RETRY_AFTER_S": "1"}
#: And leases that are soon over.
SETTINGS = {
    **OFTEN,
    "WMS_LEASE_FIRST_S": "40",
    "WMS_LEASE_S": "40",
    "WMS_LEASE_GRACE_S": "10",
    "WMS_PILOT_LOST_S": "40",
    # Whom of many jobs fate meets more than three times is no question here.
    "WMS_MAX_RESCHEDULES": "20",
    "WMS_RESCHEDULE_DELAY_S": "1",
    "WMS_RESCHEDULE_DELAY_MAX_S": "2",
    "WMS_RESCHEDULE_ELSEWHERE_S": "5",
    # All nodes are one host, where some jobs are made to fail.
    "WMS_BLACK_HOLE_FAILURES": "0",
}
USERS = {"alice": ["physics"], "bob": ["physics", "production"], "charlie": ["production"]}
FIRST, SECOND, PLAIN = "LCG.First.org", "LCG.Second.org", "LCG.Plain.org"
Record = Mapping[str, Any]


@dataclass(kw_only=True)
class Farms:
    """The resources outside of the system: the clusters, the host, and directories that all of them share."""

    directory: Path
    first: SlurmCluster
    second: SlurmCluster
    plain: SSHHost
    #: Where payloads leave their diaries.
    shared: Path

    @property
    def pilots(self) -> Path:
        """The directory of the pilots' files."""
        return self.directory / "pilots"

    def processes(self) -> list[psutil.Process]:
        """Return the processes of pilots and payloads."""
        psutil.process_iter.cache_clear()  # it does not notice that a number belongs to another process now
        return [process for process in psutil.process_iter() if _names(process, self.shared, self.pilots)]

    def configuration(self) -> Record:
        """Return the system's configuration: three sites that differ for jobs."""

        def slurm(cluster: SlurmCluster) -> Record:
            directory = str(self.pilots / cluster.name)
            return {
                "type": "slurm",
                "options": {**cluster.options, "directory": directory, "max_idle_s": 3, "node_processors": CORES},
            }

        plain = {**self.plain.options, "directory": str(self.pilots / "plain"), "max_idle_s": 3, "max_processes": 3}
        return {
            "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
            "groups": [
                {"name": "physics", "vo": "lhcb", "priority": 1000},
                {"name": "production", "vo": "lhcb", "priority": 3000, "properties": ["JOB_SHARING"]},
            ],
            "users": [
                {"username": name, "password": f"{name}-of-the-tests", "groups": groups, "default_group": groups[-1]}
                for name, groups in USERS.items()
            ],
            "requirement_definitions": [{"name": "SoftwareTag", "kind": "set"}],
            # Nodes of this machine's platform run the jobs of the others.
            "platforms": {"x86_64-el8": ["x86_64-el8"]}
            | {name: sorted({name, "x86_64-el9", "x86_64-el8"}) for name in ("x86_64-el9", detected_platform())},
            "sites": [
                _site(FIRST, slurm(self.first), processors=2, platforms=["x86_64-el9"], max_pilots=4),
                _site(SECOND, slurm(self.second), platforms=["x86_64-el8"], tags=["big"], max_pilots=6)
                | {"parameters": {"SoftwareTag": ["Gauss-v56"]}},
                _site(PLAIN, {"type": "ssh", "options": plain}, platforms=["x86_64-el8"], max_pilots=3),
            ],
        }


@contextmanager
def farms(directory: Path) -> Iterator[Farms]:
    """Run two clusters and an sshd; at the end, kill all that their pilots left running."""
    for name in ("first", "second", "plain", "pilots"):
        (directory / name).mkdir()
    with (
        slurm_cluster("first", directory / "first") as first,
        slurm_cluster("second", directory / "second") as second,
        ssh_host(directory / "plain") as plain,
        directory_of_payloads() as shared,
    ):
        made = Farms(directory=directory, first=first, second=second, plain=plain, shared=shared)
        try:
            yield made
        finally:
            for process in made.processes():
                with suppress(psutil.NoSuchProcess):
                    process.kill()


class Resources(Protocol):
    """Resources outside of the system, and the configuration that names them."""

    @property
    def directory(self) -> Path:
        """The directory for the files of the system."""

    def configuration(self) -> Record:
        """Return the system's configuration; alice is a user with the password of the tests."""


class System:
    """`manage.py up` with resources outside of it.

    Args:
        farms: to which it sends pilots.
        settings: environment variables of the system.
        web_workers: processes of its web server.
    """

    def __init__(self, farms: Resources, settings: Mapping[str, str], *, web_workers: int = 1) -> None:
        self.data = farms.directory / "data"
        self.port = free_port()
        self.settings = dict(settings)
        self._web_workers = str(web_workers)
        self._file = farms.directory / "configuration.yaml"
        self._file.write_text(yaml.safe_dump(farms.configuration()))
        self._log = farms.directory / "up.log"
        self._up: subprocess.Popen[bytes] | None = None
        self._tokens: dict[str, str] = {}

    @property
    def output(self) -> str:
        """Everything that the system has printed."""
        return self._log.read_text(errors="replace")

    @property
    def process(self) -> int:
        """The number of the supervisor's process."""
        assert self._up is not None
        return self._up.pid

    def start(self) -> None:
        """Start the system and wait until it is ready."""
        begun = self._log.stat().st_size if self._log.exists() else 0
        options = ["--config", str(self._file), "--data-dir", str(self.data), "--port", str(self.port)]
        with self._log.open("ab") as log:
            up = self._up = subprocess.Popen(
                manage("up", *options, "--web-workers", self._web_workers),
                env=environment() | self.settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until(lambda: "The system is up at" in self.output[begun:] or up.poll() is not None, READY_WITHIN_S)
        assert up.poll() is None, self.output

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Stop the system by a signal; return its exit code."""
        assert self._up is not None
        self._up.send_signal(number)
        code = self._up.wait(timeout=within(60))
        until(lambda: not (self.data / "environment").exists())  # the guard's last work
        return code

    def close(self) -> None:
        """End the system in any state."""
        if self._up is not None and self._up.poll() is None:
            self._up.kill()
            self._up.wait()

    def verify(self) -> subprocess.CompletedProcess[str]:
        """Run `manage.py verify`."""
        variables = environment() | self.settings | {"WMS_DATA_DIR": str(self.data)}
        return subprocess.run(
            manage("verify"), env=variables, capture_output=True, text=True, timeout=within(READY_WITHIN_S), check=False
        )

    # ---- what users do ----

    def submit(self, owner: str, body: Record, *, is_warned: bool = False) -> list[int]:
        """Submit jobs, of which the server warns if *is_warned*; return their ids."""
        answer = self._ask("POST", "/api/v1/jobs/", {"request_id": str(uuid4()), **body}, owner=owner)
        assert bool(answer["warnings"]) is is_warned, answer
        return [job["id"] for job in answer["jobs"]]

    def job(self, owner: str, job_id: int) -> Record:
        """Return the job as its owner sees it."""
        return self._ask("GET", f"/api/v1/jobs/{job_id}/", owner=owner)

    def kill_all_jobs(self, by: str) -> None:
        """Kill, by an operator, all jobs that have not ended."""
        body = {"action": "kill", "filter": {"status": sorted(OPEN)}}
        self._ask("POST", "/api/v1/jobs/bulk/", body, owner=by)

    def log_in_anew(self) -> None:
        """Forget the tokens of all users, who log in when they send the next request."""
        self._tokens.clear()

    def upload(self, owner: str, file: Path) -> str:
        """Upload a file; return its name in job descriptions."""
        boundary = uuid4().hex
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file.name}"\r\n\r\n'
        body = head.encode() + file.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        return str(json.loads(self._request("POST", "/api/v1/sandboxes/", body, kind=kind, owner=owner))["sandbox"])

    def output_of(self, owner: str, job_id: int) -> bytes:
        """Return the output sandbox."""
        return self._request("GET", f"/api/v1/jobs/{job_id}/output/", owner=owner)

    def _ask(self, verb: str, path: str, body: Record | None = None, *, owner: str = "") -> Record:
        content = None if body is None else json.dumps(body).encode()
        answer: Record = json.loads(self._request(verb, path, content, owner=owner))
        return answer

    def _request(
        self, verb: str, path: str, body: bytes | None = None, *, kind: str = "application/json", owner: str = ""
    ) -> bytes:
        headers = {"Content-Type": kind}
        if owner:
            headers["Authorization"] = f"Bearer {self._token_of(owner)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=within(60))
        try:
            connection.request(verb, path, body=body, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        assert answer.status < 400, f"{verb} {path}: {answer.status} {content[:500]!r}"
        return content

    def _token_of(self, owner: str) -> str:
        if owner not in self._tokens:
            who = {"username": owner, "password": f"{owner}-of-the-tests"}
            self._tokens[owner] = self._ask("POST", "/api/v1/auth/token/", who)["token"]
        return self._tokens[owner]

    # ---- what the database knows ----

    def rows(self, statement: str, *values: object) -> Sequence[dict[str, Any]]:
        """Return the rows of a query of the database."""
        with psycopg.connect(self._database(), autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(statement, values).fetchall()

    def write(self, statement: str, *values: object) -> None:
        """Change rows of the database: what no user can, such as the past."""
        with psycopg.connect(self._database(), autocommit=True) as connection:
            connection.execute(statement, values)

    def tuples(self, statement: str) -> Sequence[Sequence[Any]]:
        """Return the rows of a query of the database as tuples."""
        with psycopg.connect(self._database(), autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def jobs(self) -> Mapping[int, dict[str, Any]]:
        """Return every job with its status, minor status, reschedules and site."""
        rows = self.rows(
            "SELECT j.id, j.status, j.minor_status, j.reschedules, s.name AS site"
            " FROM jobs_job j LEFT JOIN resources_site s ON s.id = j.site_id"
        )
        return {row["id"]: row for row in rows}

    def history(self, job_id: int) -> list[tuple[str, str]]:
        """Return the statuses and minor statuses of a job, the oldest first."""
        rows = self.rows("SELECT status, minor_status FROM jobs_jobhistory WHERE job_id = %s ORDER BY id", job_id)
        return [(row["status"], row["minor_status"]) for row in rows]

    def pilot_of(self, job_id: int) -> dict[str, Any] | None:
        """Return the pilot that runs the job."""
        rows = self.rows(
            "SELECT p.id, p.stamp, p.batch_id, p.status FROM matching_match m JOIN pilots_pilot p ON p.id = m.pilot_id"
            " JOIN jobs_job j ON j.id = m.job_id WHERE m.job_id = %s AND m.ended_at IS NULL AND j.status = 'Running'",
            job_id,
        )
        return rows[0] if rows else None

    def living_pilots(self) -> Sequence[dict[str, Any]]:
        """Return the pilots that have not ended according to the server."""
        return self.rows("SELECT * FROM pilots_pilot WHERE ended_at IS NULL")

    def trouble_at(self, site: str) -> str:
        """Return the reason why the CE of a site is paused."""
        (row,) = self.rows(
            "SELECT h.trouble FROM pilots_cehealth h JOIN resources_computingelement c ON c.id = h.ce_id"
            " JOIN resources_site s ON s.id = c.site_id WHERE s.name = %s",
            site,
        )
        return str(row["trouble"])

    def _database(self) -> str:
        lines = (self.data / "environment").read_text().splitlines()
        variables = dict(shlex.split(line)[0].split("=", 1) for line in lines)
        return variables["WMS_DATABASE_URL"]


@contextmanager
def running_system(farms: Resources, settings: Mapping[str, str]) -> Iterator[System]:
    """Run the system, and end it whatever happens."""
    system = System(farms, settings)
    try:
        system.start()
        yield system
    finally:
        system.close()


def until(condition: Callable[[], object], within_s: float = WITHIN_S, *, what: Callable[[], object] = str) -> None:
    """Wait until the condition is true; *what* returns the state that the failure shows."""
    wait_for(condition, within_s, every_s=0.1, state=what)


def _site(name: str, ce: Record, **queue: object) -> dict[str, object]:
    batch = {"name": "main", "cpu_time_s": 5000, "memory_mb": 500, "max_waiting_pilots": 4, **queue}
    return {"name": name, "ces": [{"name": f"ce.{name.lower()}", **ce, "queues": [batch]}]}


def _names(process: psutil.Process, *directories: Path) -> bool:
    try:
        words = process.cmdline()
        lives = process.status() != psutil.STATUS_ZOMBIE
        with suppress(psutil.AccessDenied):  # agents hide theirs from their own account
            words.append(process.cwd())
    except psutil.Error:
        return False
    return lives and any(str(directory) in word for word in words for directory in directories)
