"""Statuses, tags and lock keys that the database's functions repeat as literals equal those of the Python code.

SQL in Python takes them as parameters.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pilots.domain.pilot import PilotStatus
from resources.domain.enums import ResourceState
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.kernel.db import LockKey
from wms.wire.protocol import WHOLE_NODE_TAG

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wms", "resources", "taskqueues", "pilots", "matching")

#: What the literals of statuses and tags in each text must be, in their order.
STATUSES: Mapping[str, Sequence[str | Collection[str]]] = {
    "matching/sql/claim.sql": [
        *(JobStatus.MATCHED, JobStatus.WAITING, JobStatus.MATCHED, JobStatus.MATCHED),
        *(PilotStatus.RUNNING, PilotStatus.RUNNING, PilotStatus.RUNNING),
    ],
    "matching/sql/limits.sql": [LEASED, LEASED, LEASED, JobStatus.WAITING],
    "matching/sql/reports.sql": [
        *(LEASED, JobStatus.RESCHEDULED, JobStatus.RUNNING, WHOLE_NODE_TAG, JobStatus.RUNNING, JobStatus.STALLED),
        *(JobStatus.RESCHEDULED, JobStatus.KILLED, JobStatus.RESCHEDULED, JobStatus.COMPLETING),
    ],
    "wms/jobs/sql/counts.sql": [
        {JobStatus.RECEIVED, JobStatus.WAITING, JobStatus.HELD, *LEASED} - {JobStatus.COMPLETING},
        JobStatus.WAITING,
    ],
    "wms/jobs/sql/possible.sql": [set(JobStatus) - FINAL, FINAL],
}
#: The same of the keys of advisory locks.
LOCKS: Mapping[str, Sequence[LockKey]] = {
    "matching/sql/claim.sql": [LockKey.COUNT_LIMITS],
    "matching/sql/limits.sql": [LockKey.COUNT_LIMITS] * 3,
}
TEXTS = sorted(str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("sql/*.sql"))
TO_DO = "Make both the same; a text is changed with a migration, as wms/kernel/sql_texts.py says."

WORDS = "|".join([*JobStatus, *PilotStatus, *ResourceState])
# Also a capitalized word that is no status any more.
STATUS = re.compile(rf"'(?:(?P<word>{WORDS}|[A-Z][a-z]\w*)|\{{(?P<words>[A-Z][a-z]\w*(?:,\w+)*)\}})'")
SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE)\b")
LOCK = re.compile(r"pg_(?:try_)?advisory_\w+\((?P<key>\w+)")


def found_in(text: str, literal: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
    """Return the literals of an SQL text with their lines, without those in comments."""
    for number, line in enumerate(text.splitlines(), start=1):
        for match in literal.finditer(line.partition("--")[0]):
            yield number, match


def test_the_texts_with_statuses_and_keys_are_there() -> None:
    assert STATUSES.keys() | LOCKS.keys() <= set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_statuses_in_sql_are_those_of_the_code(name: str) -> None:
    found = list(found_in((ROOT / name).read_text(), STATUS))
    statuses = STATUSES.get(name, [])
    for (line, match), expected in zip(found, statuses, strict=False):
        said = {match["word"]} if match["word"] else set(match["words"].split(","))
        needed = {expected} if isinstance(expected, str) else set(expected)
        assert said == needed, f"{name}:{line} says {sorted(said)}, the code {sorted(map(str, needed))}. {TO_DO}"
    lines = ", ".join(str(line) for line, _ in found)
    assert len(found) == len(statuses), f"{name} has statuses in lines {lines}: say here what each must be."


@pytest.mark.parametrize("name", TEXTS)
def test_lock_keys_in_sql_are_those_of_the_code(name: str) -> None:
    found = [(line, match["key"]) for line, match in found_in((ROOT / name).read_text(), LOCK)]
    keys = LOCKS.get(name, [])
    for (line, key), expected in zip(found, keys, strict=False):
        assert key == str(int(expected)), f"{name}:{line} locks {key}, {expected.name} is {int(expected)}. {TO_DO}"
    lines = ", ".join(str(line) for line, _ in found)
    assert len(found) == len(keys), f"{name} locks in lines {lines}: say here by which key."


def test_sql_in_python_has_statuses_and_keys_as_parameters() -> None:
    paths = (
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "migrations" not in path.parts and SQL.search(path.read_text())  # parsing takes long
    )
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and quotes_a_literal(node.value)
    ]
    assert not wrong, f"{', '.join(wrong)}: pass the status or key as a parameter, from its Python constant."


def quotes_a_literal(text: str) -> bool:
    """Return whether a text is SQL with a quoted status, or with the number of a lock."""
    if not SQL.search(text):
        return False
    return bool(re.search(rf"'\{{?({WORDS})\b", text) or re.search(r"pg_(try_)?advisory_\w+\(\d", text))
