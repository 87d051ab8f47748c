"""The action of `wms admin` that lists what was changed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping

from ..connection import Record
from ..terminal.tables import ColumnKind, Table, TableColumn, exact
from .admin_changes import (
    AdminAction,
)
from .command import CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_HISTORY = (
    TableColumn("TIME", ColumnKind.MOMENT, importance=4),
    TableColumn("WHO", importance=3),
    TableColumn("WHAT", importance=2),
    TableColumn("CHANGE", importance=1),
)


def _configure_history(parser: ArgumentParser) -> None:
    parser.add_argument("--vo", metavar="VO", help="changes that concern this VO")
    parser.add_argument("--who", metavar="USER", help="changes by this user")
    parser.add_argument("--target", metavar="NAME", help='changes of this, such as "site LCG.Example.org"')
    add_limit(parser, what="changes")


def _history(options: Namespace, session: CommandSession) -> CommandOutput:
    given = {name: getattr(options, name) for name in ("vo", "who", "target")}
    query = {name: value for name, value in given.items() if value is not None}
    found, notes = rows_within(session, "history/", query=query, limit=options.limit)
    rows = [[each["at"], each["who"], each["target"], _facts_in_words(each["facts"])] for each in found]
    return CommandOutput(found, [Table(_HISTORY, rows, empty="Nothing that you may see was changed."), *notes])


def _facts_in_words(facts: Record) -> str:
    """Return what a change did, such as "priority 1000 → 9000; reason a campaign"."""
    changes = {name: value for name, value in facts.items() if name not in {"what", "changes"}}
    changes.update(facts.get("changes") or {})
    what = [] if facts.get("what") in (None, "changed") else [str(facts["what"])]
    return "; ".join([*what, *(f"{name} {exact(value)}" for name, value in _flat(changes) if value not in (None, ""))])


def _flat(changes: Record) -> Iterator[tuple[str, object]]:
    """Yield (name, value), also of the fields of an object."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {inner}", each) for inner, each in _flat(value))
        else:
            yield name, value


ACTIONS: Mapping[str, AdminAction] = {
    "history": AdminAction(
        "list changes of the configuration, newest first", _configure_history, _history, is_change=False
    ),
}
