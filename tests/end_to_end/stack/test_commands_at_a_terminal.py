"""Commands of the server as processes: what they print at a terminal, and into a pipe."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from tests.pace import within
from wms.accounts.models import SecurityEvent

pytestmark = pytest.mark.django_db(transaction=True)

FILE = """\
vos: [{name: lhcb, setup: Production}]
groups: [{name: lhcb_user, vo: lhcb}]
users: [{username: alice, groups: [lhcb_user]}]
"""


def configure(directory: Path, *, at_terminal: bool, **variables: str) -> tuple[str, str]:
    """Run the command; return standard output and standard error."""
    (directory / "wms.yaml").write_text(FILE)
    environment = {name: value for name, value in os.environ.items() if name != "WMS_LOG_LEVEL"}
    environment |= {
        "DJANGO_SETTINGS_MODULE": "wms.settings",
        "WMS_EMBEDDED": "1",
        "WMS_DATA_DIR": str(directory),
        "WMS_SECRET_KEY": settings.SECRET_KEY,
        "WMS_DATABASE_URL": os.environ["WMS_DATABASE_URL"].replace("/wms?", f"/{connection.settings_dict['NAME']}?"),
        **variables,
    }
    ours, theirs = pty.openpty()
    try:
        ran = subprocess.run(
            [sys.executable, str(settings.BASE_DIR / "manage.py"), "configure", str(directory / "wms.yaml")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=theirs if at_terminal else subprocess.PIPE,
            text=True,
            check=False,
            timeout=within(120),
        )
    finally:
        os.close(theirs)
    shown = ran.stderr or ""
    while at_terminal:
        try:
            part = os.read(ours, 65536).decode()
        except OSError:  # nothing is left
            break
        shown += part
        if not part:
            break
    os.close(ours)
    assert ran.returncode == 0, shown
    return ran.stdout, shown


@pytest.mark.parametrize(
    ("at_terminal", "variables", "is_shown"),
    [(True, {}, False), (True, {"WMS_LOG_LEVEL": "INFO"}, True), (False, {}, True)],
)
def test_changes_of_the_security_log_are_recorded_and_not_shown_at_a_terminal(
    tmp_path: Path, *, at_terminal: bool, variables: dict[str, str], is_shown: bool
) -> None:
    out, shown = configure(tmp_path, at_terminal=at_terminal, **variables)
    assert "+ user alice" in out
    assert ("security." in shown) is is_shown
    assert SecurityEvent.objects.filter(target="user alice", actor_name="manage.py configure").exists()
