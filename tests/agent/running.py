"""The agent as a process of its own, as a batch system runs it."""

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from pilots.agent_package import agent_package
from tests.agent.scripted import PILOT_TOKEN
from tests.pace import within

TIMEOUT_S = 60
ROOT = Path(__file__).parents[2]
#: All that are found here, from 3.9 on.
INTERPRETERS = sorted(
    {
        sys.executable,
        *(
            str(found)
            for minor in range(9, 15)
            for found in [
                *Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"),
                *(Path(directory, f"python3.{minor}") for directory in ("/usr/bin", "/usr/local/bin")),
            ]
            if found.exists()
        ),
    }
)

ORDINARY_USER = "nobody"
_OWNER = (pwd.getpwnam(ORDINARY_USER).pw_uid, pwd.getpwnam(ORDINARY_USER).pw_gid)
#: Of an agent that root starts as an ordinary user where the kernel refuses user namespaces, as it does in a chroot.
WITHOUT_NAMESPACES: Mapping[str, Any] = {
    "owner": _OWNER,
    "enter": (
        "unshare", "--mount", "sh", "-c",
        f'mount --rbind / /mnt && exec chroot --userspec={_OWNER[0]}:{_OWNER[1]} --groups= /mnt "$0" "$@"',
    ),
}  # fmt: skip


class RunningAgent:
    """A started pilot; leaving the ``with`` block ends it."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *options: str,
        token: str = PILOT_TOKEN,
        python: str = sys.executable,
        packed: bool = False,
        zipapp: bytes | None = None,
        work_dir: bool = True,
        measured: bool = False,
        node_processors: int = 8,
        node_memory_mb: int = 16_000,
        environment: dict[str, str] | None = None,
        user: str | None = None,
        enter: Sequence[str] = (),
        owner: tuple[int, int] | None = None,
        token_file: Path | str = "-",
        cwd: Path = ROOT,
        show: bool = True,
    ) -> None:
        """Start it, as ``-m pilots.agent``, which is faster, or *packed* as pilots fetch it; root may name a *user*.

        *zipapp* is the agent of another version.

        Without *work_dir* it must find one. Unless *measured*, the node has the given processors and memory, and its
        cores are like the reference, whatever this machine has. *enter* are words before its command line, and *owner*
        the user and the group that these make it run as. Unless *show* is false, payloads reach *directory*.
        """
        self.work = directory / "work"
        self.work.mkdir(exist_ok=True)
        if user is not None:
            shutil.chown(self.work, user)
        if owner is not None:
            os.chown(self.work, *owner)
        program = ["-m", "pilots.agent"]
        if packed or zipapp is not None:
            (directory / "agent.pyz").write_bytes(zipapp or agent_package().content)
            program = [str(directory / "agent.pyz")]
        self._log = directory / "agent.log"
        command: Sequence[str] = [python, *program, "--server", url, "--token-file", str(token_file)]
        usual = ["--max-idle-s", "0", "--stop-within-s", "5.5"]
        usual += ["--work-dir", str(self.work)] if work_dir else []
        # What a payload and its test tell each other by files.
        usual += ["--show", str(directory)] if show else []
        node = ["--node-processors", str(node_processors), "--node-memory-mb", str(node_memory_mb), "--speed", "1"]
        usual += [] if measured else node
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*enter, *command, *usual, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={"PATH": os.environ["PATH"], **(environment or {})},
                cwd=cwd,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
            )
        assert self.process.stdin is not None
        self.process.stdin.write(token.encode() + b"\n")
        self.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def wait(self) -> int:
        """Wait for its end; return the exit code."""
        try:
            return self.process.wait(within(TIMEOUT_S))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the agent does not end:\n{self.log}") from None

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    @property
    def log(self) -> str:
        return self._log.read_text()


def marker() -> str:
    """Return a number of seconds to sleep, unique to the test, by which it finds its own processes on this machine."""
    return f"9{uuid4().int % 10**8:08}.25"


def processes_with(marker: str) -> list[int]:
    """Return the processes whose command line or environment holds *marker*."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - Path would be made for each
        if not name.isdecimal():
            continue
        try:
            told = Path("/proc", name, "cmdline").read_bytes() + Path("/proc", name, "environ").read_bytes()
            state = Path("/proc", name, "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marker.encode() in told and state != "Z":
            found.append(int(name))
    return found


def ancestor_below(top: int, pid: int) -> int:
    """Return the child of process *top* that is *pid* or its ancestor: the pilot's process for one job."""
    while (parent := int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])) != top:
        pid = parent
    return pid
