"""The tables in docs/commands.md equal those of the programs."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from wms.client import main

DOCUMENT: Final = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
APPS: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
#: Of every command.
COMMON: Final = {"--help"}


def rows(heading: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield name and options of each row of the table below the heading that begins with these words."""
    section = re.split(rf"^## {heading}", DOCUMENT, maxsplit=1, flags=re.MULTILINE)[1].partition("\n## ")[0]
    for name, options in re.findall(r"^\| `([\w-]+)[^`|]*` \|([^|]*)\|", section, flags=re.MULTILINE):
        yield name, frozenset(re.findall(r"`(--[\w-]+)`", options))


def options_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(name for action in parser._actions for name in action.option_strings if name.startswith("--"))


def test_every_command_of_the_server_has_its_row_with_its_options() -> None:
    of_django = options_of(BaseCommand().create_parser("manage.py", "any"))
    commands = {
        name: options_of(load_command_class(app, name).create_parser("manage.py", name)) - of_django
        for name, app in get_commands().items()
        if app.partition(".")[0] in APPS
    }
    assert dict(rows("Of the server")) == commands


def test_every_command_of_the_user_has_its_row_with_its_options() -> None:
    parser = main._parser()
    (named,) = (action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    commands = {name: options_of(each) - COMMON for name, each in named.items()}
    written = dict(rows("Of the user"))
    assert written.keys() == commands.keys()
    assert all("--json" in options for options in commands.values())
    assert written["match-test"] <= commands["match-test"]  # the fields of an offer are listed in rest.md
    assert {name: written[name] | {"--json"} for name in written if name != "match-test"} == {
        name: options for name, options in commands.items() if name != "match-test"
    }
