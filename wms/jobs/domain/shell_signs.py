"""Signs in arguments that only a shell would read; a payload's arguments are split into words, and no more."""

import re
from collections.abc import Iterator
from posixpath import basename
from typing import Final

#: Named in a warning, of all signs.
_MOST_NAMED: Final = 3
_ANY: Final = re.compile(r"[$`*?\[~<>|;&]")
# NB: no possessive quantifier of a group: Python before 3.11.5 matches too much by it.
_PARTS: Final = re.compile(
    r"""\\. | '[^']*+' | "(?P<quoted>[^"\\]*+(?:\\.[^"\\]*+)*)"
    | (?P<sign> \$(?:[A-Za-z_]\w*+|[{(0-9@*\#?$!]) | ` | \*++ | \? | \[ | (?<!\S)~ | <<?+ | >>?+ | \|\|?+ | ; | &&?+ )
    """,
    re.VERBOSE | re.DOTALL,
)
#: Signs that a shell reads in double quotes too.
_IN_QUOTES: Final = re.compile(r"\\.|(?P<sign>\$(?:[A-Za-z_]\w*+|[{(0-9@*#?$!])|`)", re.DOTALL)
_INTERPRETER: Final = re.compile(r"(?:(?:ba|da|k|z|a)?sh|python[0-9.]*)")
_COMMAND_FOLLOWS: Final = re.compile(r"(?:^|\s)-[A-Za-z]*c\s")


def shell_signs(executable: str, arguments: str) -> list[str]:
    """Return the first signs that reach the program unread, though a shell would act on them; each once.

    Args:
        executable: a shell or Python that gets a command (``-c``) reads its signs.
        arguments: one text; signs in single quotes and after a backslash are meant as they stand.
    """
    if not _ANY.search(arguments):
        return []
    if _INTERPRETER.fullmatch(basename(executable)) and _COMMAND_FOLLOWS.search(arguments):
        return []
    return list(dict.fromkeys(_signs(arguments)))[:_MOST_NAMED]


def _signs(arguments: str) -> Iterator[str]:
    for part in _PARTS.finditer(arguments):
        if part["sign"]:
            yield part["sign"]
        elif part["quoted"]:
            yield from (found["sign"] for found in _IN_QUOTES.finditer(part["quoted"]) if found["sign"])
