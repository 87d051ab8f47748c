"""Executable files that run nowhere as meant, recognised by their first bytes: at submission and on the node."""

from __future__ import annotations

from typing import NamedTuple

from .protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE

#: First bytes of a file that are read; the kernel searches the line of the interpreter in as many.
HEAD_BYTES = 256
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: Of texts in UTF-16.
_WIDE = (b"\xff\xfe", b"\xfe\xff")


class Flaw(NamedTuple):
    """A reason not to execute a file."""

    #: Of a shell that tried to execute it.
    exit_code: int
    #: One sentence, without its full stop.
    sentence: str


def flaw_of_head(name: str, head: bytes) -> Flaw | None:
    """Return the flaw of the executable *name* that begins with the bytes *head*; None: none is known."""
    if not head:
        return Flaw(NOT_EXECUTABLE_EXIT_CODE, f"The executable {name} is empty")
    if head.startswith(_WIDE):
        return Flaw(NOT_EXECUTABLE_EXIT_CODE, f"{name} is a text in UTF-16: save it as UTF-8")
    if head.startswith(_BYTE_ORDER_MARK + b"#!"):
        sentence = f"The first line of {name} begins with a byte order mark: save it as UTF-8 without one"
        return Flaw(NOT_EXECUTABLE_EXIT_CODE, sentence)
    if head.startswith(b"#!") and b"\r" in head.partition(b"\n")[0]:
        # The kernel takes the CR for the last letter of the interpreter's name, or of its argument.
        sentence = f"The first line of {name} ends with a Windows line ending (CR): save it with Unix line endings"
        return Flaw(NOT_FOUND_EXIT_CODE, sentence)
    return None
