"""The names of files in the attribute InputSandbox of a JDL or CFG, and other names in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

#: Parts of a JDL: comments, texts, names, and signs.
_JDL = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*)|"(?P<text>(?:[^"\\]|\\.)*)"'
    r"|(?P<name>[A-Za-z_][\w.]*)|(?P<sign>[=;\[\]])",
    re.DOTALL | re.MULTILINE,
)
_CFG_LINE = re.compile(r"^(?P<before>[ \t]*InputSandbox[ \t]*\+?=)(?P<value>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_CFG_ELEMENT = re.compile(
    r'"(?P<quoted>(?:[^"]|"")*)"|(?P<comment>(?<=[ \t])#.*)|(?P<plain>[^,\s"](?:(?![ \t]+#)[^,"])*)'
)


def jdl_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a JDL in which other names replace those of InputSandbox."""
    parts, copied = [], 0
    for start, end, name in _texts_of_input_sandbox(text):
        parts += [text[copied:start], f'"{named(name)}"']
        copied = end
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


def _texts_of_input_sandbox(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and value of each text in the value of InputSandbox, at the outermost level of the JDL."""
    depth, attribute, is_value = 0, "", False
    for found in _JDL.finditer(text):
        sign = found["sign"]
        if found["comment"] is not None:
            continue
        if found["text"] is not None:
            if is_value and attribute == "inputsandbox":
                yield found.start(), found.end(), re.sub(r"\\(.)", r"\1", found["text"])
        elif sign in {"[", "]"}:
            depth += 1 if sign == "[" else -1
        elif sign == ";" and depth <= 1:
            attribute, is_value = "", False
        elif sign == "=" and depth <= 1:
            is_value = True
        elif found["name"] is not None and not is_value and depth <= 1:
            attribute = found["name"].lower()
