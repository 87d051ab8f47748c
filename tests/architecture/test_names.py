"""Public classes of different apps have different names."""

import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
APPS: Final = ("matching", "pilots", "resources", "taskqueues", "wms")
#: Names that several apps share, and why.
SHARED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Command": "Django finds a management command by this name.",
        "Client": "The agent's program and the users' library each have one.",
        "Job": "Users of the library see the server's jobs by the same name.",
        "Submission": "Users of the library see the server's submissions by the same name.",
        "UnsafeArchiveError": "Both sides refuse such an archive.",
        "LeaseEndedError": "The server raises it, and the agent raises it again when the server has answered so.",
    }
)


def app_of(path: Path) -> str:
    """Return the app of a file: ``matching``, or ``wms.jobs`` of those below wms."""
    parts = path.relative_to(ROOT).parts
    return ".".join(parts[:2]) if parts[0] == "wms" else parts[0]


def public_classes() -> Mapping[str, set[str]]:
    """Return {name of a public class: the apps that define one of that name}; migrations have none."""
    apps_of = defaultdict(set)
    for app in APPS:
        for path in (ROOT / app).rglob("*.py"):
            if "migrations" in path.parts:
                continue
            for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
                apps_of[name].add(app_of(path))
    return apps_of


def test_no_two_apps_have_a_public_class_of_the_same_name() -> None:
    shared = {name: sorted(apps) for name, apps in public_classes().items() if len(apps) > 1}
    assert {name: apps for name, apps in shared.items() if name not in SHARED} == {}
    assert set(SHARED) <= set(shared), "take what is no longer shared out of SHARED"
