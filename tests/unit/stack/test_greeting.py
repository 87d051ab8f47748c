"""The command that the greeting of `up` names is the one that its reader can type."""

import pytest

from wms.stack.management.commands.up import command_of


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("manage.py", "uv run manage.py"),
        ("/srv/wms/manage.py", "uv run manage.py"),
        ("/opt/wms/bin/wms-server", "wms-server"),
        ("/opt/wms/lib/python3.12/site-packages/wms/__main__.py", "python -m wms"),
    ],
)
def test_the_command_by_which_the_system_was_started(program: str, command: str) -> None:
    assert command_of(program) == command
