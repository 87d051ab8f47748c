"""The parts of docs/wms.md, and their place on the page."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from docs.generators.client_commands import command, filters, overview
from wms.client.catalogue import ENTRIES, SECTIONS
from wms.client.commands.arguments import FILTERS

PAGE = (Path(settings.BASE_DIR) / "docs" / "wms.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    """Return the text of the page about a command."""
    return re.split(rf"^### {name}$", PAGE, maxsplit=1, flags=re.MULTILINE)[1].partition("\n### ")[0]


@pytest.mark.parametrize("name", ENTRIES)
def test_each_command_has_its_part_and_an_example(name: str) -> None:
    text = section(name)
    assert f"<!-- wms {name}; made by" in text
    example = re.findall(r"^```(?:console|text)[^\n]*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    assert any(f"wms {name}" in each for each in example)


def test_the_commands_stand_below_the_headings_of_the_help() -> None:
    headings = re.findall(r"^##+ (.+)$", PAGE, flags=re.MULTILINE)
    for heading, entries in SECTIONS.items():
        begin = headings.index(heading) + 1
        assert sorted(headings[begin : begin + len(entries)]) == sorted(entries)


def test_the_overview_links_each_command() -> None:
    assert re.findall(r"\(#([\w-]+)\)", overview()) == list(ENTRIES)


def test_a_command_has_its_usage_arguments_and_other_name() -> None:
    text = command("edit")
    assert text.startswith("Change a job that waits.")
    assert "Usage: `wms edit JOB [options]`" in text
    assert "| `--priority N` | User priority, 0 to 10. |" in text
    assert "Other names: `wms peek`, `wms tail`.\n\nUsage: `wms logs [JOB…] [options] [filters]`" in command("logs")
    assert "--json" not in text
    assert "| filters |" not in text


def test_filters_are_named_once() -> None:
    text = command("kill")
    assert "Usage: `wms kill [JOB…] [options] [filters]`" in text
    assert "--owner" not in text
    assert [line.split("`")[1] for line in filters().splitlines()[2:]] == [f"{name}:…" for name in FILTERS]


def test_an_option_that_is_required_is_in_the_usage() -> None:
    assert "Usage: `wms match-test --cpu-time-s S [options]`" in command("match-test")


def test_each_action_of_a_command_has_its_table() -> None:
    text = command("files")
    assert "Usage: `wms files list [LFN] [options]`" in text
    assert "Usage: `wms files put FILE…`" in text


@pytest.mark.parametrize("name", ENTRIES)
def test_each_argument_has_a_meaning(name: str) -> None:
    assert "| . |" not in command(name)
    assert "%%" not in command(name)
