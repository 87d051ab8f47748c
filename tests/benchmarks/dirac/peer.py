"""MariaDB and DIRAC's TaskQueueDB, installed in a directory of their own and started for one run."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, socket

from tests.benchmarks.measuring import NotMeasurableError, say
from tests.benchmarks.surroundings import Surroundings, running
from tests.benchmarks.workloads.shape import Workload
from wms.stack.launch import launched
from wms.stack.parts import ServicePart

_HERE = Path(__file__).parent
#: Kept for the next run: to build it takes a minute.
_INSTALLED = Path(tempfile.gettempdir()) / "wms-dirac-9.1.22"
#: Debian's place is not on everybody's path.
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
#: All that is loaded fits in; PostgreSQL has its default, an eighth of that.
_BUFFER_POOL = "1G"


class Peer:
    """DIRAC in a process of its own, which executes one command at a time."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, command: str, **arguments: object) -> Mapping[str, object]:
        """Return the answer to a command of ``serve.py``.

        Raises:
            NotMeasurableError: DIRAC failed; the message is its own.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"command": command, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise NotMeasurableError(f"DIRAC failed at {command}: see what it wrote above.")
        answer: Mapping[str, object] = json.loads(line)
        return answer

    def time(self, command: str, **arguments: object) -> float:
        """Return the seconds that a command took in DIRAC."""
        return float(str(self.ask(command, **arguments)["taken_s"]))


def install() -> None:
    """Install DIRAC and MariaDB unless they are installed.

    Raises:
        NotMeasurableError: the installation failed.
    """
    finished = _INSTALLED / "finished"
    if finished.exists() and shutil.which("mariadbd", path=_PATH):
        return
    say(f"Installing DIRAC into {_INSTALLED}, and MariaDB …")
    done = subprocess.run(
        [str(_HERE / "install.sh"), str(_INSTALLED)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": _PATH},
    )
    if done.returncode != 0:
        reason = ([line for line in done.stderr.splitlines() if line.strip()] or ["no reason given"])[-1]
        raise NotMeasurableError(f"DIRAC and MariaDB cannot be installed here: {reason}")
    finished.touch()


@contextmanager
def dirac(ready: Surroundings, workload: Workload) -> Iterator[Peer]:
    """Run MariaDB and, on an empty database of it, DIRAC."""
    install()
    directory = Path(tempfile.mkdtemp(prefix="wms-dirac-", dir=ready.logs.parent))
    try:
        configuration = directory / "dirac.cfg"
        configuration.write_text(_configuration(workload), encoding="utf-8")
        with running(_mariadb(directory), ready.logs):
            command = [str(_INSTALLED / "bin" / "python"), str(_HERE / "serve.py"), str(configuration)]
            # With the host "localhost", which DIRAC is configured with, the client takes the socket that is named here.
            environment = {**_without_ours(), "MYSQL_UNIX_PORT": str(directory / "sql")}
            with subprocess.Popen(
                launched(command), env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as process:
                yield Peer(process)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _mariadb(directory: Path) -> ServicePart:
    """Make a server's directory and return its command line: durable, on a socket that only its owner can reach."""
    data = directory / "data"
    as_root = ["--user=root"] if os.geteuid() == 0 else []
    made = subprocess.run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db", *as_root],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": _PATH},
    )
    if made.returncode != 0:
        raise NotMeasurableError(f"MariaDB's tables cannot be made: {(made.stderr or made.stdout).strip()[-300:]}")
    program = shutil.which("mariadbd", path=_PATH) or "mariadbd"
    where = [f"--datadir={data}", f"--socket={directory / 'sql'}", f"--pid-file={directory / 'pid'}"]
    alone = ["--skip-networking", "--skip-grant-tables", f"--innodb-buffer-pool-size={_BUFFER_POOL}"]
    return ServicePart(
        name="mariadb",
        command=launched([program, "--no-defaults", *where, *alone, *as_root]),
        environment=_without_ours(),
        is_ready=lambda: _answers(directory / "sql"),
        stop_within_s=60,
    )


def _answers(place: Path) -> bool:
    try:
        with socket(AF_UNIX) as connection:
            connection.settimeout(2)
            connection.connect(str(place))
            return connection.recv(1) != b""
    except OSError:
        return False


def _without_ours() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("WMS_", "PYTHON", "DJANGO_"))}


def _configuration(workload: Workload) -> str:
    """Return the configuration of DIRAC: its database, the groups with their shares, and the CPU segments."""
    groups = {
        group.name: {
            "VO": "community",
            "JobShare": str(group.priority),
            "Properties": "NormalUser, JobSharing" if group.shares_jobs else "NormalUser",
        }
        for group in workload.groups
    }
    segments = {"taskQueueCPUTimeIntervals": ", ".join(map(str, workload.cpu_segments_s))}
    return "\n".join(
        _section(
            {
                "Systems": {
                    "Databases": {"Host": "localhost", "User": "root", "Password": "none"},
                    "WorkloadManagement": {"Databases": {"TaskQueueDB": {"DBName": "TaskQueueDB"}}},
                },
                "Registry": {"Groups": groups},
                "Operations": {"Defaults": {"JobScheduling": segments}},
            }
        )
    )


def _section(content: Mapping[str, object]) -> Sequence[str]:
    lines: list[str] = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            lines += [name, "{", *_section(value), "}"]
        else:
            lines.append(f"{name} = {value}")
    return lines
