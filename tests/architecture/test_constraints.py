"""Every named constraint of the database occurs in a test that breaks it."""

import re
from pathlib import Path

from django.apps import apps

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wms", "resources", "taskqueues", "pilots", "matching")


def named_constraints() -> set[str]:
    """Return the names of all check and unique constraints of the project's own models."""
    models = (model for model in apps.get_models() if model.__module__.split(".")[0] in PACKAGES)
    return {constraint.name for model in models for constraint in model._meta.constraints}


def test_every_named_constraint_occurs_in_a_test_that_breaks_it() -> None:
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent != Path(__file__).parent]
    quoted = {name for path in tests for name in re.findall(r'"(\w+)"', path.read_text())}
    untested = named_constraints() - quoted
    assert not untested, (
        f"no test breaks {', '.join(sorted(untested))}: add a row for each to the test_constraints.py of its app's "
        "directory in tests/database"
    )


def test_the_constraints_are_found() -> None:
    assert {"expirer_has_one_row", "vo_any_segment_fraction_is_0_to_1"} <= named_constraints()
