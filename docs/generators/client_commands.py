"""The parts of docs/wms.md: the commands of ``wms`` with their arguments, from their parsers."""

from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Iterator

from docs.generators.markdown import table
from wms.client.catalogue import ALIASES, ENTRIES, SECTIONS, actions_below, parser_of
from wms.client.commands.arguments import FILTERS
from wms.kernel.rest.error_codes import as_sentence

#: Options that every command has.
_OF_ALL = frozenset({"help", "json"})
_FILTER = "filter_"


def overview() -> str:
    """Return the table of all commands by section, each with a link to its part of the page."""
    rows = [
        [heading, f"[`{name}`](#{name})", entry.summary]
        for heading, entries in SECTIONS.items()
        for name, entry in entries.items()
    ]
    return table(["about", "command", "what it does"], rows)


def filters() -> str:
    """Return the table of filters."""
    rows = [[f"`{name}:…`", f"`--{name} {each.metavar}`", as_sentence(each.about)] for name, each in FILTERS.items()]
    return table(["word", "option", "jobs of this"], rows)


def command(name: str) -> str:
    """Return what a command does, its usage, and the table of its arguments."""
    parser = parser_of(name)
    others = [f"`wms {alias}`" for alias, meant in ALIASES.items() if meant == name]
    about = as_sentence(ENTRIES[name].summary)
    if others:
        about += f" Other name{'s' if len(others) > 1 else ''}: {', '.join(others)}."
    parts = [about]
    for each in actions_below(parser) or [parser]:
        parts.append(f"Usage: `{_usage(each)}`")
        rows = [*_rows(each)]
        if rows:
            parts.append(table(["argument", "meaning"], rows))
    return "\n\n".join(parts)


def _actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yield the arguments of a command, except for filters and those that every command has."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way
        if action.dest not in _OF_ALL and not action.dest.startswith(_FILTER) and action.help != SUPPRESS:
            yield action


def _has_filters(parser: ArgumentParser) -> bool:
    return any(action.dest.startswith(_FILTER) for action in parser._actions)  # noqa: SLF001 - as above


def _usage(parser: ArgumentParser) -> str:
    words = [parser.prog]
    actions = [*_actions(parser)]
    words += [f"{each.option_strings[0]} {each.metavar}" for each in actions if each.option_strings and each.required]
    for action in actions:
        if not action.option_strings:
            many = "…" if action.nargs in {"*", "+"} else ""
            shown = f"{action.metavar or action.dest}{many}"
            words.append(f"[{shown}]" if action.nargs in {"*", "?"} else shown)
    if any(action.option_strings for action in actions):
        words.append("[options]")
    if _has_filters(parser):
        words.append("[filters]")
    return " ".join(words)


def _rows(parser: ArgumentParser) -> Iterator[list[str]]:
    for action in _actions(parser):
        value = "" if action.nargs == 0 or not action.option_strings else f" {action.metavar or action.dest.upper()}"
        value = f" [{value.strip()}]" if action.nargs == "?" and action.option_strings else value
        names = [f"`{option}{value}`" for option in action.option_strings] or [f"`{action.metavar or action.dest}`"]
        yield [", ".join(names), as_sentence((action.help or "").replace("%%", "%"))]
    if _has_filters(parser):
        yield ["filters", "Each [filter](#jobs-and-filters) as an option."]
