"""Client and wire stand alone: their copies equal the originals, and old versions of Python can read them."""

import ast
from pathlib import Path
from typing import Final

from pilots.domain.pilot import PilotStatus
from wms.client.commands.completion import VALUES
from wms.jobs.domain.accounting import ReportKey
from wms.jobs.domain.lifecycle import JobStatus

PRODUCT: Final = Path(__file__).resolve().parents[2] / "wms"


def test_the_statuses_that_shells_complete_are_those_of_the_server() -> None:
    assert {name: set(values) for name, values in VALUES.items()} == {
        "filter_status": set(JobStatus),
        "status": set(PilotStatus),
        "by": set(ReportKey),
    }


def test_their_modules_import_each_other_relatively_and_only_those_of_python_3_9() -> None:
    """Installed, the client has another name."""
    for file in (*(PRODUCT / "client").rglob("*.py"), *(PRODUCT / "wire").rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=(3, 9))
        imported = [
            name
            for node in ast.walk(tree)
            for name in (
                [node.module or ""] * (node.level == 0)
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
        ]
        assert [name for name in imported if name.partition(".")[0] in {"wms", "tomllib"}] == [], file.name
