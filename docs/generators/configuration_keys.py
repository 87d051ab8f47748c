"""The tables of docs/configuration.md, made from the schema of the configuration file."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING

from docs.generators.markdown import table
from wms.configuration.entries import SectionEntry, as_written, keys_of
from wms.configuration.resource_schema import ACTIVE, StatusEntry
from wms.configuration.schema import Configuration
from wms.kernel.rest.error_codes import as_sentence
from wms.wire.amounts import AMOUNT

_COMMENT = re.compile(r" {4}#:(.*)")
_KEY = re.compile(r" {4}(\w+): (?!ClassVar)")


def meanings_of(record: type[SectionEntry]) -> Mapping[str, str]:
    """Return {key: the comment above it}; amounts have the sentence of their table."""
    meanings = {name: amount.help_of_slot for name, amount in AMOUNT.items()}
    comment: list[str] = []
    for line in inspect.getsource(record).splitlines():
        if found := _COMMENT.match(line):
            comment.append(found[1].strip())
        elif (key := _KEY.match(line)) and comment:
            meanings[key[1]] = " ".join(comment)
            comment = []
        else:
            comment = []
    return meanings


def sections() -> str:
    """Return a section with a table for each kind of entry, in the order of the file."""
    return "\n\n".join(_sections_of(Configuration, path=(), done=set()))


def _sections_of(record: type[SectionEntry], *, path: tuple[str, ...], done: set[type]) -> Iterator[str]:
    done.add(record)
    meanings = meanings_of(record)
    keys = keys_of(record)
    rows = []
    for name, key in keys.items():
        accepts = key.reader.accepts
        if key.reader.entry is not None:
            accepts = f"[{accepts}](#{_anchor(key.reader.entry, (*path, name))})"
        default = "`{}`" if "mapping of" in accepts else _default(key.default)
        rows.append([f"`{name}`", accepts, default, meanings[name]])
    about = (inspect.getdoc(record) or "").replace("``", "`")
    parts = [table(["key", "value", "default", "meaning"], rows)]
    if path:
        parts = [f"{'#' * max(2, len(path) + 1)} {'.'.join(path)}", as_sentence(about), *parts]
    yield "\n\n".join(parts)
    for name, key in keys.items():
        if key.reader.entry is not None and key.reader.entry not in done:
            yield from _sections_of(key.reader.entry, path=(*path, name), done=done)


def _anchor(record: type[SectionEntry], path: tuple[str, ...]) -> str:
    """Return the anchor of the section about a kind of entry; that of states stands once, at sites."""
    return "".join(("sites", "status") if record is StatusEntry else path)


def _default(value: object) -> str:
    if value is MISSING:
        return "required"
    if value == ACTIVE:
        return "`{state: active}`"
    value = as_written(value)
    if isinstance(value, bool) or value is None:
        return "`null`" if value is None else f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else '`""`'
