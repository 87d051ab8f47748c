"""The tables of docs/configuration.md."""

from collections.abc import Iterator

import pytest

from docs.generators.configuration_keys import meanings_of, sections
from wms.configuration.entries import SectionEntry, keys_of
from wms.configuration.schema import Configuration


def records(record: type[SectionEntry]) -> Iterator[type[SectionEntry]]:
    """Yield the class of entries and those below it."""
    yield record
    for key in keys_of(record).values():
        if key.reader.entry is not None:
            yield from records(key.reader.entry)


def test_each_key_has_a_meaning_and_a_row(subtests: pytest.Subtests) -> None:
    text = sections()
    for record in dict.fromkeys(records(Configuration)):
        with subtests.test(record.__name__):
            meanings = meanings_of(record)
            for name in keys_of(record):
                assert meanings[name].endswith((".", "?")), name
                assert f"| `{name}` |" in text


def test_types_defaults_and_links_are_those_of_the_schema() -> None:
    text = sections()
    for row in (
        "| `max_pilots` | whole number, 0 to 2147483647 | `100` | Pilots that may wait or run. |",
        "| `kind` | site or taskqueue | `site` |",
        "| `vo` | name of a VO | required | Its VO. |",
        "| `queues` | [list of mappings](#sitescesqueues) | `[]` | Its batch queues. |",
        "| `status` | [mapping](#sitesstatus) | `{state: active}` | State of the queue. |",
        "| `platforms` | [mapping of names to lists](#platforms) | `{}` |",
    ):
        assert row in text
    assert text.count("### sites.status") == 1
    assert "### sites.ces.queues" in text
