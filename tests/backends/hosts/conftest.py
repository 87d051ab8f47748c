"""Plain hosts: this machine as a local CE, and this machine as a host reached by SSH."""

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pilots.backends.plain_host import PlainHostBackend
from tests.backends.hosts.pilots import CE, SITE, StandInLocal, StandInSSH, description, no_pilot_left
from tests.ssh import SSHHost, ssh_host


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SSHHost]:
    """Return an sshd for all tests of this worker."""
    with ssh_host(tmp_path_factory.mktemp("sshd")) as host:
        yield host


@pytest.fixture
def short() -> Iterator[Path]:
    """Return a directory with a path short enough for a socket; pytest's are too long."""
    with tempfile.TemporaryDirectory(prefix="wms-", dir="/tmp", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@dataclass(frozen=True, kw_only=True)
class Host:
    """A kind of plain host, for tests that hold for each.

    Args:
        place: parent of the directories of pilots.
    """

    type: type[StandInLocal | StandInSSH]
    directory: Path
    place: Path
    options: dict[str, object] = field(default_factory=dict)

    def backend(self, **more: object) -> PlainHostBackend:
        """Return a new backend, as the server makes one for each round."""
        return self.type(description(self.directory, {**self.options, **more}))


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Host]:
    with no_pilot_left(tmp_path):
        yield Host(type=StandInLocal, directory=tmp_path / "ce", place=tmp_path / "ce")


@pytest.fixture
def ssh(tmp_path: Path, short: Path, sshd: SSHHost) -> Iterator[Host]:
    options = {**sshd.options, "directory": str(tmp_path / "there"), "python": sys.executable}
    with no_pilot_left(tmp_path):
        yield Host(
            type=StandInSSH, directory=short / "ce", place=tmp_path / "there" / SITE / CE, options=options
        )  # fmt: skip


@pytest.fixture(params=["local", "ssh"])
def plain(request: pytest.FixtureRequest) -> Host:
    """Return each kind of plain host."""
    host: Host = request.getfixturevalue(request.param)
    return host
