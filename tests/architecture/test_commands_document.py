"""The tables in docs/commands.md equal those of the programs."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand

from wms.client.catalogue import ALIASES, ENTRIES, actions_below, parser_of
from wms.client.commands.arguments import FILTERS

DOCUMENT: Final = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
APPS: Final = ("wms", "matching", "pilots", "resources", "taskqueues")
#: Of every command.
COMMON: Final = {"--help"}
#: The fields of descriptions and offers are listed in rest.md.
DESCRIBED_ELSEWHERE: Final = {"submit", "match-test"}


def rows(heading: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield name and options of each row of the table below the heading that begins with these words."""
    section = re.split(rf"^## {heading}", DOCUMENT, maxsplit=1, flags=re.MULTILINE)[1].partition("\n## ")[0]
    section = section.partition("\n### ")[0]
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
    of_filters = frozenset(f"--{name}" for name in FILTERS)
    for name, written in dict(rows("Of the user")).items():
        parser = parser_of(name)
        options = frozenset[str]().union(*map(options_of, (parser, *actions_below(parser)))) - COMMON
        assert "--json" in options
        if any(action.dest.startswith("filter_") for action in parser._actions):
            assert of_filters <= options
            options -= of_filters
        if name in DESCRIBED_ELSEWHERE:
            assert written <= options
        else:
            assert options - {"--json"} == written, name
    assert dict(rows("Of the user")).keys() == ENTRIES.keys()


def test_every_filter_of_jobs_has_its_row() -> None:
    section = DOCUMENT.partition("| filter | option |")[2].partition("\n\n")[0]
    written = re.findall(r"^\| `([\w-]+)` \| `--([\w-]+)` \|", section, flags=re.MULTILINE)
    assert [(name, name) for name in FILTERS] == written


def test_other_names_of_commands_are_told_in_their_rows() -> None:
    for alias, name in ALIASES.items():
        (row,) = re.findall(rf"^\| `{name}[^`]*` \|.*$", DOCUMENT, flags=re.MULTILINE)
        assert f"also `{alias}`" in row
