"""The system that the documentation calls https://wms.example.org, with real pilots."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.end_to_end.installed import ENVIRONMENT
from tests.end_to_end.stack.running import READY_WITHIN_S, free_port
from tests.pace import wait_for, within

PASSWORD: Final = "secret"
CONFIGURATION: Final = Path(__file__).with_name("lhcb.yaml")
#: Everything as often as can be: a reader waits seconds for a pilot, not minutes.
_SETTINGS: Final = {"WMS_DIRECTOR_CYCLE_S": "1", "WMS_HEARTBEAT_S": "2", "WMS_MATCH_RETRY_AFTER_S": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSystem:
    """The system: its address, and its data, by which ``wms-server`` finds it."""

    programs: Path
    url: str
    data: Path

    def token_of(self, user: str) -> str:
        """Return a new token of a user."""
        return subprocess.run(
            [str(self.programs / "wms-server"), "token", user],
            cwd=self.data,
            env={**ENVIRONMENT, "WMS_DATA_DIR": str(self.data)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=within(60),
        ).stdout.strip()


@contextmanager
def running_system(programs: Path, directory: Path, *, data: Path | None = None) -> Iterator[RunningSystem]:
    """Run the system, and yield it.

    Args:
        programs: of the environment in which both wheels are installed.
        directory: for its data; made.
        data: of a stopped system, with a copy of which it starts: making the tables takes longer than all else.
    """
    directory.mkdir()
    if data is not None:
        shutil.copytree(data, directory / "data")
    # Of any account, as payloads have their own.
    (storage := directory / "storage").mkdir()
    storage.chmod(0o777)
    port, log = free_port(), directory / "log"
    words = ["up", "--config", str(CONFIGURATION), "--port", str(port), "--data-dir", str(directory / "data")]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(programs / "wms-server"), *words, "--web-workers", "1"],
            cwd=directory,
            env={**ENVIRONMENT, **_SETTINGS, "STORAGE": str(storage)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_for(
            lambda: "The system is up at" in log.read_text() or process.poll() is not None,
            READY_WITHIN_S,
            state=log.read_text,
        )
        assert process.poll() is None, log.read_text()
        yield RunningSystem(programs=programs, url=f"http://localhost:{port}", data=directory / "data")
    finally:
        process.terminate()
        process.wait(timeout=within(120))
