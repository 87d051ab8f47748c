"""The table of commands in docs/commands.md equals those of the server."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import django.core.management
from django.core.management import find_commands, get_commands, load_command_class
from django.core.management.base import BaseCommand

DOCUMENT: Final = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
OF_DJANGO: Final = frozenset(find_commands(django.core.management.__path__[0]))
APPS: Final = ("wms", "matching", "pilots", "resources", "taskqueues")


def rows(heading: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield name and options of each row of the table below the heading that begins with these words."""
    section = re.split(rf"^## {heading}", DOCUMENT, maxsplit=1, flags=re.MULTILINE)[1].partition("\n## ")[0]
    section = section.partition("\n### ")[0]
    for name, options in re.findall(r"^\| `([\w-]+)[^`|]*` \|([^|]*)\|", section, flags=re.MULTILINE):
        yield name, frozenset(re.findall(r"`(--[\w-]+)`", options))


def options_of(parser: argparse.ArgumentParser) -> frozenset[str]:
    return frozenset(name for action in parser._actions for name in action.option_strings if name.startswith("--"))


def options_of_django(name: str) -> frozenset[str]:
    """Return the options of Django's command of this name, or of any command."""
    command = load_command_class("django.core", name) if name in OF_DJANGO else BaseCommand()
    return options_of(command.create_parser("manage.py", name))


def test_every_command_of_the_server_has_its_row_with_its_options() -> None:
    commands = {
        name: options_of(load_command_class(app, name).create_parser("manage.py", name)) - options_of_django(name)
        for name, app in get_commands().items()
        if app.partition(".")[0] in APPS
    }
    assert dict(rows("Of the server")) == commands
