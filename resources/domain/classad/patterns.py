r"""Regular expressions of ``regexp``, by RE2, whose searches take a time that is bounded by pattern × text.

Patterns and texts are UTF-8 bytes, as in classad2: ``.`` is one byte. Options: i (ignores the case of ASCII letters), m
(``^`` and ``$`` match at lines), s (``.`` matches a line end); others have no effect. What RE2 does not have (option x,
look-around, back-references), and what it understands otherwise than PCRE, the library of classad2, is a PatternError.
"""

import re
from functools import lru_cache
from typing import Final, Protocol

import re2

MAX_PATTERN_BYTES: Final = 256
#: Bytes of a text that is searched.
MAX_TEXT_BYTES: Final = 4096
#: Steps of an evaluation for a pattern that is refused, some 3 ms at worst.
STEPS_OF_A_REFUSAL: Final = 2000
#: Instructions of a pattern, each tried at one byte, that take as long as one step at worst, some 1 µs.
_INSTRUCTIONS_OF_A_STEP: Final = 64
#: Bytes of a text for which a search takes as long as to compile the pattern.
_BYTES_OF_A_COMPILATION: Final = 32
_MOST_KEPT: Final = 128
#: Sets with another meaning in PCRE.
_DIFFERENT: Final = re.compile(r"\\[vpP]")
#: Here RE2 folds Latin-1 letters, which among UTF-8 are parts of characters.
_IGNORES_CASE: Final = re.compile(r"\(\?\w*i")

_OPTIONS: Final = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1  # one character for each byte
_OPTIONS.max_mem = 128 * 1024  # for each pattern
_OPTIONS.never_capture = True
_OPTIONS.log_errors = False


class PatternError(ValueError):
    """RE2 cannot search like this as PCRE does; the text is a sentence."""


class _Compiled(Protocol):
    """The part of RE2 that is used here, which has no types."""

    @property
    def programsize(self) -> int: ...

    def search(self, text: bytes) -> object | None: ...


class Pattern:
    """A compiled regular expression; raises PatternError if it is invalid, or uses what there is not."""

    def __init__(self, pattern: str, options: str = "") -> None:
        encoded = pattern.encode()
        if len(encoded) > MAX_PATTERN_BYTES:
            raise PatternError(f"A regular expression has at most {MAX_PATTERN_BYTES} bytes.")
        if "x" in options:
            raise PatternError("The option x of regexp is not known here; there are i, m and s.")
        if not pattern.isascii() and ("i" in options or _IGNORES_CASE.search(pattern)):
            raise PatternError("With the option i, a regular expression consists of ASCII characters.")
        if escape := _DIFFERENT.search(pattern):
            raise PatternError(f"{escape[0]} is not possible in a regular expression; write the characters.")
        flags = "".join(sorted({"i", "m", "s"}.intersection(options)))
        try:
            self._compiled: _Compiled = re2.compile((f"(?{flags})" if flags else "").encode() + encoded, _OPTIONS)
        except re2.error as error:
            reason = error.args[0].decode(errors="replace")[:80]
            raise PatternError(f"RE2 does not accept this regular expression: {reason}.") from error
        # At a final line end, PCRE's match elsewhere.
        self._has_anchors = "^" in pattern or "$" in pattern

    def steps_for(self, text: bytes) -> int:
        """Return the steps of an evaluation that a search takes at worst, with compiling the pattern."""
        return 1 + self._compiled.programsize * (len(text) + _BYTES_OF_A_COMPILATION) // _INSTRUCTIONS_OF_A_STEP

    def is_in(self, text: bytes) -> bool | None:
        """Return whether a part of *text* matches; None: it is too long, or might match otherwise in PCRE."""
        if len(text) > MAX_TEXT_BYTES or b"\v" in text or (self._has_anchors and text.endswith(b"\n")):
            return None
        return self._compiled.search(text) is not None


#: The pattern of a text, and its options; raises PatternError.
compiled = lru_cache(maxsize=_MOST_KEPT)(Pattern)
