"""The names of files in the attribute InputSandbox of a JDL or CFG, and other names in their place."""

from __future__ import annotations

import re
from collections.abc import Callable

from .wire.jdl_texts import entries, names_in, quoted, texts_of

_CFG_LINE = re.compile(r"^(?P<before>[ \t]*InputSandbox[ \t]*\+?=)(?P<value>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_CFG_ELEMENT = re.compile(
    r'"(?P<quoted>(?:[^"]|"")*)"|(?P<comment>(?<=[ \t])#.*)|(?P<plain>[^,\s"](?:(?![ \t]+#)[^,"])*)'
)


def jdl_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a JDL in which other names replace those of InputSandbox."""
    parts, copied = [], 0
    for entry in entries(text):
        if entry.name.lower() != "inputsandbox":
            continue
        for part in [part for part in texts_of(entry.value) if not part.is_empty]:
            # As the server reads it: one text by itself may name several files.
            given = names_in(part.text or "") if part is entry.value else [part.text or ""]
            names = [named(name) for name in given]
            if names != given:
                several = ", ".join(map(quoted, names))
                parts += [text[copied : part.begin], several if len(names) == 1 else f"{{ {several} }}"]
                copied = part.end
    return "".join([*parts, text[copied:]])


def cfg_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a CFG in which other names replace those of InputSandbox."""

    def element(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            return found[0]
        if found["quoted"] is not None:
            return f'"{named(found["quoted"].replace(chr(34) * 2, chr(34)))}"'
        plain: str = found["plain"]
        return named(plain.rstrip()) + plain[len(plain.rstrip()) :]

    return _CFG_LINE.sub(lambda line: line["before"] + _CFG_ELEMENT.sub(element, line["value"]), text)
