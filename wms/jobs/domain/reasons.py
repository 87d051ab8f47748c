"""Reasons of failures without what differs from job to job: numbers, ids, paths, hosts."""

import re
from typing import Final, NamedTuple

#: What is replaced, the first that fits at each place: {name of the group: placeholder}.
_PLACEHOLDERS: Final = {
    "url": "<address>",
    "uuid": "<id>",
    "path": "<path>",
    "address": "<host>",
    "host": "<host>",
    "hex": "<id>",
    "number": "<number>",
}
_VARIABLE: Final = re.compile(
    r"""
      (?P<url>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s"'<>()\[\],;]+)
    | (?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)
    | (?P<path>(?<![\w.])~?(?:\.{0,2}/)[^\s"'<>()\[\],;:/]+(?:/[^\s"'<>()\[\],;:/]*)*)
    | (?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.]))
    | (?P<host>(?<![\w.-])[a-z0-9][a-z0-9-]{0,62}(?:\.[a-z0-9][a-z0-9-]{0,62})+\.[a-z]{2,18}(?::\d+)?(?![\w-]))
    | (?P<hex>\b(?:0x[0-9a-fA-F]+|(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{8,})\b)
    | (?P<number>(?<!\w)[+-]?\d+(?:[.:]\d+)*(?:[eE][+-]?\d+)?(?![A-Za-z\d])|\d+)
    """,
    re.VERBOSE,
)
_BLANKS: Final = re.compile(r"\s+")
#: Blanks that a search box or a form would not keep.
_LOST_BLANKS: Final = re.compile(r"\A\s+|\s+\Z|[^\S ]+")
_STARS: Final = re.compile(r"\*+")


class Reason(NamedTuple):
    """The common form of reasons of one kind."""

    #: With placeholders such as ``<number>``.
    text: str
    #: With ``*`` in their places: a filter of reasons, which other ones may match too.
    pattern: str


def normalised(reason: str) -> Reason:
    """Return what *reason* has in common with other reasons of its kind."""
    text = _VARIABLE.sub(lambda found: _PLACEHOLDERS[found.lastgroup or ""], reason)
    pattern = _LOST_BLANKS.sub("*", _VARIABLE.sub("*", reason))
    return Reason(text=_BLANKS.sub(" ", text).strip(), pattern=_STARS.sub("*", pattern))
