"""The installation of the guide for operators, followed on a machine with systemd: its scripts, unit and commands."""

import re
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.end_to_end.docs.fences import PROJECT, titled
from tests.end_to_end.stack.machine import PACKAGES, PYTHON, Machine, machine
from tests.end_to_end.stack.running import READY_WITHIN_S
from tests.pace import wait_for
from tests.programs import needed

#: Boots a machine in namespaces, and starts whole systems on it.
pytestmark = [pytest.mark.root, pytest.mark.nightly]

PAGE: Final = "operators.md"
PASSWORD: Final = "the-password-of-the-database"
#: The wheel alone, by the Python of the tests: its dependencies are those of the tests, which need no index.
PIP: Final = f"PATH={PYTHON}/bin:$PATH PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_DISABLE_PIP_VERSION_CHECK=1"
JOURNAL: Final = "journalctl --unit wms --output cat --no-pager"


@pytest.fixture
def debian(installed: Path) -> Iterator[Machine]:
    """Boot a machine with Debian's packages of the page, whose services run, and with the files of the page."""
    needed("psql", "redis-server", "nginx", "curl")
    (wheel,) = (installed.parents[1] / "dist").glob("wms_server-*.whl")
    settings = titled(PAGE, "wms.env").replace("PASSWORD", PASSWORD).replace("KEY\n", f"{secrets.token_urlsafe(50)}\n")
    with tempfile.TemporaryDirectory(prefix="machine-", dir="/var/tmp") as directory, machine(Path(directory)) as made:
        made.run("systemctl start postgresql redis-server")
        # One with quotes and spaces, which systemd and the shell read.
        settings += titled("openid-connect.md", "wms.env") + f"PYTHONPATH={PACKAGES}\n"
        made.write("/root/wms.env", settings, mode=0o600)
        made.write(f"/root/{wheel.name}", wheel.read_bytes())
        for path in ("/root/install.sh", "/root/wms-command"):
            made.write(path, titled(PAGE, Path(path).name), mode=0o755)
        made.write("/root/wms.service", titled(PAGE, "wms.service"))
        yield made


def first_configuration() -> str:
    """Return the page's first configuration, without computing elements of the server's machine."""
    content = yaml.safe_load(titled(PAGE, "first.yaml"))
    for site in content["sites"]:
        del site["ces"]
    return yaml.safe_dump(content)


def test_the_guide_for_operators_installs_a_server_that_systemd_runs(debian: Machine) -> None:
    asked = {"Enter password for new role: ": PASSWORD, "Enter it again: ": PASSWORD}
    debian.type(f"{PIP} ./install.sh wms_server-*.whl", answers=asked, within_s=READY_WITHIN_S)
    assert debian.run("systemd-analyze verify --man=no /etc/systemd/system/wms.service") == ""
    ready = "curl --silent http://127.0.0.1:8000/readyz || true"
    # On a busy machine systemd may start it twice before all is up in time.
    wait_for(lambda: '"ready"' in debian.run(ready), READY_WITHIN_S, state=lambda: debian.run(JOURNAL))
    # The supervisor asks the same, and may hear it a moment later.
    is_up = "The system is up at https://wms.example.org/"
    wait_for(lambda: is_up in debian.run(JOURNAL), READY_WITHIN_S, state=lambda: debian.run(JOURNAL))
    assert "Traceback" not in debian.run(JOURNAL)
    assert "Log in with CERN" in debian.run(
        "curl --silent -H 'Host: wms.example.org' -H 'X-Forwarded-Proto: https' http://127.0.0.1:8000/accounts/login/"
    )
    assert set(debian.run("ps -o user= --ppid $(systemctl show -P MainPID wms)").split()) == {"wms"}

    answers = {"Username": "olga", "Email address: ": "", "Password: ": "a-long-password", "again": "a-long-password"}
    assert "Superuser created" in debian.type("./wms-command createsuperuser", answers=answers, within_s=60)
    debian.write("/tmp/first.yaml", first_configuration())
    assert "+ vo lhcb" in debian.run("./wms-command configure /tmp/first.yaml")
    assert "invariants hold" in debian.run("./wms-command verify")

    (backup,) = re.findall(r"`(systemd-run [^`]*)`", (PROJECT / "docs" / PAGE).read_text(encoding="utf-8"))
    debian.run(backup)
    assert debian.run("stat -c '%U %a' /var/lib/wms/backups/2*/database") == "wms 600\n"

    debian.run("systemctl stop wms", within_s=90)
    assert debian.run("systemctl show -P Result -P ExecMainStatus wms").split() == ["success", "0"]
    assert debian.run("ps -o pid= --user wms", fails=True) == ""
