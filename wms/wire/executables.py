"""Executable files that run nowhere as meant, recognised by their first bytes: at submission and on the node."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from .protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE

#: First bytes of a file that are read; the kernel searches the line of the interpreter in as many.
HEAD_BYTES = 256
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: Of texts in UTF-16.
_WIDE = (b"\xff\xfe", b"\xfe\xff")
ELF = b"\x7fELF"
#: Beginnings of programs of other systems.
_FOREIGN = {
    b"MZ": "Windows",
    b"\xfe\xed\xfa\xce": "macOS", b"\xfe\xed\xfa\xcf": "macOS",
    b"\xce\xfa\xed\xfe": "macOS", b"\xcf\xfa\xed\xfe": "macOS", b"\xca\xfe\xba\xbe\0\0\0\x02": "macOS",
}  # fmt: skip


class Flaw(NamedTuple):
    """A reason not to execute a file."""

    #: Of a shell that tried to execute it.
    exit_code: int
    #: One sentence, without its full stop.
    sentence: str
    #: The command that mends it; empty: the sentence says what to do.
    cure: str = ""


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
        return Flaw(NOT_FOUND_EXIT_CODE, sentence, f"dos2unix {name}")
    return None


def system_of(head: bytes) -> str:
    """Return the other system for which a program that begins with *head* was made; empty: none is known."""
    return next((system for beginning, system in _FOREIGN.items() if head.startswith(beginning)), "")


def line_of_interpreter(head: bytes) -> tuple[str, str]:
    """Return interpreter and argument in the first line of a script, as the kernel splits it."""
    if not head.startswith(b"#!"):
        return "", ""
    line = os.fsdecode(head[2:HEAD_BYTES].partition(b"\n")[0].replace(b"\t", b" ").strip(b" "))
    interpreter, _, argument = line.partition(" ")
    return interpreter, argument.strip(" ")


def program_of_env(head: bytes) -> str | None:
    """Return the program that env(1) searches for a script, ``python3`` of ``#!/usr/bin/env python3``; None: none."""
    interpreter, argument = line_of_interpreter(head)
    if interpreter.rpartition("/")[2] != "env" or not argument:
        return None
    words = [argument]
    if argument.startswith("-S"):
        try:
            words = [word for word in shlex.split(argument[2:]) if "=" not in word]
        except ValueError:
            return None
    return words[0] if words and not words[0].startswith("-") else None
