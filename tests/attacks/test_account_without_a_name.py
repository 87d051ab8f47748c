"""`manage.py up` under an account without a name, as in a container, in a data directory that was open before."""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.stack.running import free_port, manage, running_up
from tests.programs import needed

#: Nobody has it.
ACCOUNT = 54321
#: The Python that runs the tests may be in root's own directory: the one capability lets the account pass.
BECOME = (
    *("setpriv", "--reuid", str(ACCOUNT), "--regid", str(ACCOUNT), "--clear-groups"),
    *("--inh-caps", "+dac_override", "--ambient-caps", "+dac_override"),
)

pytestmark = pytest.mark.root


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a data directory of the account, with the wide permissions of an earlier version."""
    top = Path(tempfile.mkdtemp(prefix="nameless-", dir="/tmp"))
    data = top / "data"
    data.mkdir()
    (data / "secret_key").write_text("a1" * 40)
    for path in (top, data, data / "secret_key"):
        os.chown(path, ACCOUNT, ACCOUNT)
    data.chmod(0o755)
    (data / "secret_key").chmod(0o644)
    yield data
    shutil.rmtree(top)


def test_a_server_starts_under_an_account_without_a_name(directory: Path) -> None:
    needed("setpriv", "unshare")
    if subprocess.run([*BECOME, "unshare", "--user", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine forbids user namespaces")
    log = directory.parent / "up.log"
    arguments = ["--port", str(free_port()), "--data-dir", str(directory), "--web-workers", "1"]
    with running_up([*BECOME, *manage("up", *arguments)], log):
        assert {stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (directory, directory / "secret_key")} == {0}
        said = log.read_text()
        assert f"Other accounts could read {directory}/secret_key, {directory}; that is closed" in said
        assert (directory / "postgres").stat().st_uid == ACCOUNT
