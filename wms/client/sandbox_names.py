"""The names of files in input sandboxes, in the attribute InputSandbox of a JDL or CFG and in parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from .wire.jdl_texts import entries, file_name, local_path, names_in, quoted, texts_of, trimmed

_CFG_LINE = re.compile(r"^(?P<before>[ \t]*InputSandbox[ \t]*\+?=)(?P<value>[^\n]*)$", re.IGNORECASE | re.MULTILINE)
_CFG_ELEMENT = re.compile(
    r'"(?P<quoted>(?:[^"]|"")*)"|(?P<comment>(?<=[ \t])#.*)|(?P<plain>[^,\s"](?:(?![ \t]+#)[^,"])*)'
)
#: A value as in JDL, which the server refuses with a sentence of its own.
_JDL_VALUE = re.compile(r"[ \t]*\{|.*;[ \t\r]*(?:(?<=[ \t])#.*)?\Z")
_CFG_PARAMETERS = re.compile(r"^[ \t]*Parameters(?:\.\w+)?[ \t]*\+?=([^\n]*)$", re.IGNORECASE | re.MULTILINE)
_PLACEHOLDER = re.compile(r"%%|%n|%s|%\([^()%]*\)s")
#: Placeholders, and what is between them.
_PARTS = re.compile(r"%%|%n|%s|%\([^()%]*\)s|[^%]+|%")
#: Files that one description may name so, as the server has it.
_MOST_FILES = 1000


def has_placeholder(entry: str) -> bool:
    """Return whether the name differs between the jobs of a parametric description."""
    return any(sign != "%%" for sign in _PLACEHOLDER.findall(entry))


def parameters_of(body: Mapping[str, object]) -> list[str] | None:
    """Return the texts among the values of a parametric description; None: it is of one job."""
    if isinstance(jdl := body.get("jdl"), str):
        found = [entry.value for entry in entries(jdl) if entry.name.partition(".")[0].lower() == "parameters"]
        return [part.text or "" for value in found for part in texts_of(value)] if found else None
    if isinstance(cfg := body.get("cfg"), str):
        lines = _CFG_PARAMETERS.findall(cfg)
        elements = [element for line in lines for element in _CFG_ELEMENT.finditer(line)]
        return [(each["quoted"] or each["plain"] or "").strip() for each in elements] if lines else None
    return None if body.get("parameters") is None else list(_texts_in(body["parameters"]))


def files_named_by(templates: Iterable[str], values: Sequence[str], directory: Path) -> dict[str, Path]:
    """Return {name: file} of the local files that names with placeholders may mean.

    Those of a placeholder alone are named by *values*; other names are looked for, with anything in its place.
    """
    named: dict[str, Path] = {}
    for template in templates:
        if _PLACEHOLDER.fullmatch(template):
            paths = {value: directory / Path(local_path(value)).expanduser() for value in values if value}
        else:
            paths = {name: directory / Path(name).expanduser() for name in _matching(template, directory)}
        named.update({name: path for name, path in paths.items() if path.is_file()})
    return dict(list(named.items())[:_MOST_FILES])


def _matching(template: str, directory: Path) -> list[str]:
    """Return the names that exist of those that a template may become."""
    names = [""]
    for part in template.split("/"):
        pattern = re.compile("".join(map(_pattern_of, _PARTS.findall(part))))
        found = []
        for name in names:
            place = directory / Path(name).expanduser()
            matching = [part.replace("%%", "%")]
            if has_placeholder(part) and place.is_dir():
                matching = sorted([path.name for path in place.iterdir() if pattern.fullmatch(path.name)])
            found += [f"{name}{entry}/" for entry in matching]
        names = found
    return [name[:-1] for name in names]


def _pattern_of(part: str) -> str:
    return {"%%": "%", "%n": "[0-9]+"}.get(part) or (".+" if _PLACEHOLDER.fullmatch(part) else re.escape(part))


def _texts_in(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)


def jdl_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a JDL in which other names replace those of InputSandbox."""
    parts, copied = [], 0
    for entry in entries(text):
        if entry.name.lower() != "inputsandbox" or entry.value.is_broken_list:
            continue
        for part in [part for part in texts_of(entry.value) if not part.is_empty]:
            # As the server reads it: one text by itself may name several files.
            name = file_name(part.text or "")
            given = names_in(name) if part is entry.value or not name else [name]
            names = [named(name) for name in given]
            if names != given:
                several = ", ".join(map(quoted, names))
                # The server names the lines of errors, also of those behind it.
                line_ends = "\n" * text.count("\n", part.begin, part.end)
                parts += [text[copied : part.begin], several if len(names) == 1 else f"{{ {several} }}", line_ends]
                copied = part.end
    return "".join([*parts, text[copied:]])


def cfg_with_names(text: str, named: Callable[[str], str]) -> str:
    """Return a CFG in which other names replace those of InputSandbox."""

    def element(found: re.Match[str]) -> str:
        if found["comment"] is not None:
            return found[0]
        if found["quoted"] is not None:
            name = trimmed(found["quoted"].replace(chr(34) * 2, chr(34)))
            return f'"{named(name)}"' if name else found[0]
        plain: str = found["plain"]
        return named(plain.rstrip()) + plain[len(plain.rstrip()) :]

    def with_names(line: re.Match[str]) -> str:
        value: str = line["value"]
        return line[0] if _JDL_VALUE.match(value) else line["before"] + _CFG_ELEMENT.sub(element, value)

    return _CFG_LINE.sub(with_names, text)
