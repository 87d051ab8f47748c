"""The whole system run as root, as the demonstration is: a job on its machine cannot reach the server's files."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import yaml

from tests.end_to_end.stack.running import READY_WITHIN_S, free_port, manage, running_up
from tests.pace import wait_for, within

pytestmark = pytest.mark.root

#: One line for each thing that it could do, and one at the end. The processes and the paths are its arguments.
ATTACK = """
for process in %(processes)s; do
    for file in environ mem maps auxv; do
        head -c 1 /proc/$process/$file >/dev/null 2>&1 && echo "read $file of $process"
    done
    ls /proc/$process/fd/ >/dev/null 2>&1 && echo "listed files of $process"
    ls /proc/$process/cwd/ >/dev/null 2>&1 && echo "entered directory of $process"
    kill -0 $process 2>/dev/null && echo "could signal $process"
    /usr/bin/python3 -c "import ctypes; print(ctypes.CDLL(None).ptrace(16, $process, 0, 0))" 2>/dev/null \
        | grep -qx 0 && echo "traced $process"
done
for path in %(paths)s; do
    ls $path/ >/dev/null 2>&1 && echo "listed $path"
    head -c 1 $path >/dev/null 2>&1 && echo "read $path"
    [ -w $path ] && echo "could write $path"
done
[ "$(id -u)" -ne 0 ] || echo "is root"
[ "$(id -u)" -ne 65534 ] || echo "is nobody, as the database may be"
env | grep -E "WMS_(SECRET|DATABASE|REDIS)" && echo "was given the environment of the server"
echo over
"""
SITE = {
    "name": "Here",
    "ces": [{"name": "ce", "type": "local", "queues": [{"name": "q", "cpu_time_s": 300_000}]}],
}
CONFIGURATION = {
    "vos": [{"name": "lhcb", "setup": "LHCb-Production"}],
    "groups": [{"name": "physics", "vo": "lhcb", "priority": 1000}],
    "users": [{"username": "alice", "password": "alice-of-the-tests", "groups": ["physics"]}],
    "sites": [SITE],
}


@contextmanager
def up(data: Path, port: int) -> Iterator[psutil.Process]:
    """Run the system; return its supervisor."""
    file, log = data.with_name("configuration.yaml"), data.with_name("up.log")
    file.write_text(yaml.safe_dump(CONFIGURATION))
    options = ("--config", str(file), "--data-dir", str(data), "--port", str(port), "--web-workers", "1")
    with running_up(manage("up", *options), log) as running:
        yield running


def ask(port: int, verb: str, path: str, body: dict[str, Any] | None = None, *, token: str = "") -> Any:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within(60))
    connection.request(verb, path, body=None if body is None else json.dumps(body), headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    assert answer.status < 400, content
    return json.loads(content)


def test_a_job_on_the_servers_machine_reaches_neither_its_processes_nor_its_data(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    with up(data, port) as supervisor:
        who = {"username": "alice", "password": "alice-of-the-tests"}
        token = ask(port, "POST", "/api/v1/auth/token/", who)["token"]
        servers = [supervisor, *supervisor.children(recursive=True)]
        inside = [path for path in data.iterdir() if path.name != "pilots"]
        assert {"secret_key", "environment"} <= {path.name for path in inside}
        paths = [data, *inside, *(path for each in inside if each.is_dir() for path in each.iterdir())]
        script = ATTACK % {
            "processes": " ".join(str(process.pid) for process in servers),
            "paths": " ".join(map(str, paths)),
        }
        job = {
            "request_id": str(uuid4()),
            "executable": "/bin/sh",
            "arguments": f"-c '{script}'",
            "output_sandbox": ["std.out"],
        }
        (submitted,) = ask(port, "POST", "/api/v1/jobs/", job, token=token)["jobs"]
        address = f"/api/v1/jobs/{submitted['id']}/"

        def status() -> str:
            return str(ask(port, "GET", address, token=token)["status"])

        wait_for(lambda: status() in {"Done", "Failed"}, READY_WITHIN_S, every_s=0.5, state=status)
        written = ask(port, "GET", f"{address}peek/", token=token)["std_output"]
    assert written.splitlines() == ["over"]
