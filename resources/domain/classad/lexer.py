"""Tokens of the ClassAd language, and the error of this package.

Comments are ``// …`` and ``/* … */`` anywhere, and ``# …`` at the start of a line (as in DIRAC's JDL).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, NamedTuple

from wms.kernel.errors import RejectedError
from wms.wire.jdl_texts import unescaped

MAX_BYTES: Final = 64 * 1024
MAX_INTEGER: Final = 2**63 - 1
#: Tokens in a text: two and a half per allowed part, to bound the time.
MAX_TOKENS: Final = 25_000
#: Characters of a name, which may be folded and looked up at thousands of places.
MAX_NAME_CHARACTERS: Final = 255

_SHOWN_CHARACTERS: Final = 40

# Possessive and atomic groups throughout: no text can make the scan backtrack.
_TOKEN: Final = re.compile(
    r"""
    [ ]*+
    (?> (?m:^)[ \t]*+\#[^\n]*+ | [ \t\r\f\v]++ | \n | //[^\n]*+ | /\*(?>[^*]++|\*(?!/))*+\*/ | \A\ufeff )*+
    (?:
        (?P<name> [A-Za-z_][A-Za-z0-9_]*+ )
      | " (?P<string> [^"\\]*+ (?: \\. [^"\\]*+ )*+ ) "
      | (?P<operator> =\?= | =!= | == | != | <= | >= | && | \|\| | /(?!\*) | \.(?![0-9]) | [-+*%<>!?:;,=()\[\]{}] )
      | (?P<real> [0-9]++\.[0-9]++(?:[eE][+-]?+[0-9]++)? | [0-9]++\.(?![A-Za-z0-9_.])
        | \.[0-9]++(?:[eE][+-]?+[0-9]++)? | [0-9]++[eE][+-]?+[0-9]++ )
      | (?P<integer> [0-9]++ )
      | (?P<end> \Z )
      | (?P<wrong> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
#: Kinds by the numbers of the groups of _TOKEN; "" stands for the text of the operator.
_KINDS: Final = ("", "name", "string", "", "real", "integer", "end", "wrong")
#: A string with the start of another attribute inside: its closing quote is probably missing.
_SWALLOWED: Final = re.compile(r"\n[ \t]*+[A-Za-z_][A-Za-z0-9_.]*+[ \t]*+=")
_NO_END: Final = 'This string has no end; close it with " (and write a quote inside a string as \\").'
#: No texts without quotes.
NO_TEXTS: Final[Mapping[int, int]] = MappingProxyType({})


class ClassAdError(RejectedError):
    """The text is not valid, or an expression takes too long to evaluate.

    Args:
        problem: the fault and the remedy, without the position.
        text: the whole text that was read.
        at: offset of the wrong part in *text*.
    """

    code = "invalid_classad"

    def __init__(self, problem: str, *, text: str, at: int) -> None:
        self.problem = problem
        self.at = at
        self.line = text.count("\n", 0, at) + 1
        self.column = at - text.rfind("\n", 0, at)
        super().__init__(f"Line {self.line}, column {self.column}: {problem}")


class Token(NamedTuple):
    """One word of the text: *kind* is name, integer, real, string, end, or the operator itself."""

    kind: str
    text: str
    at: int


def tokens_of(text: str, *, texts: Mapping[int, int] = NO_TEXTS) -> list[Token]:
    """Return the tokens of *text*, the last one of kind ``end``.

    Args:
        text: what is read.
        texts: {begin: end} of the parts of *text* that are strings without quotes, each in one line.

    Raises:
        ClassAdError: the text or a name is too long, cannot be stored, or contains an invalid token.
    """
    _refuse_unstorable(text)
    tokens: list[Token] = []
    new = tuple.__new__  # Token(…) itself costs as much as the match
    for match in _TOKEN.finditer(_masked(text, texts) if texts else text):
        group = match.lastindex or 0
        word, at = match[group], match.start(group)
        kind = _KINDS[group]
        if kind == "wrong":
            raise at_its_cause(ClassAdError(_complaint(text, at), text=text, at=at), text=text, tokens=tokens)
        if kind == "name" and len(word) > MAX_NAME_CHARACTERS:
            raise ClassAdError(f"A name has at most {MAX_NAME_CHARACTERS} characters.", text=text, at=at)
        if len(tokens) >= MAX_TOKENS:
            raise ClassAdError(f"The text has more than {MAX_TOKENS} words and signs.", text=text, at=at)
        if kind == "string":
            at -= 1  # point at the quote
        if texts and at in texts:
            kind, word = "string", text[at : texts[at]].replace("\\", "\\\\")
        tokens.append(new(Token, (kind or word, word, at)))
        if kind == "end":
            break
    return tokens


#: Kinds of token that, right after a string of several lines, also show that its closing quote is missing.
_NEVER_AFTER_A_STRING: Final = frozenset({"name", "string", "integer", "real"})


def at_its_cause(error: ClassAdError, *, text: str, tokens: Sequence[Token]) -> ClassAdError:
    """Return *error*, or the error of an earlier unterminated string.

    Without its closing quote, a string ends at the next opening one, lines later, and the error is found only there.
    """
    for token, following in zip_longest(tokens, tokens[1:]):
        if token.at >= error.at:
            break
        if token.kind != "string" or "\n" not in token.text:
            continue
        after = token.at + len(token.text) + len('""')
        # After a missing semicolon, the next attribute does not touch the closing quote.
        touched = following is not None and following.at == after and following.kind in _NEVER_AFTER_A_STRING
        if touched or _SWALLOWED.search(token.text):
            return ClassAdError(_NO_END, text=text, at=token.at)
    return error


def unquoted(token: Token, text: str) -> str:
    """Return the value of a string token of *text*, its escapes resolved."""
    value = unescaped(token.text)
    if "\0" in value:
        raise ClassAdError("A string must not contain the NUL character (\\0).", text=text, at=token.at)
    return value


def shown(token: Token) -> str:
    """Return the token in the form for errors."""
    if token.kind == "end":
        return "the end of the text"
    return f'the string "{shortened(token.text)}"' if token.kind == "string" else f"`{shortened(token.text)}`"


def shortened(word: str) -> str:
    """Return the word, or its beginning, for errors."""
    return word if len(word) <= _SHOWN_CHARACTERS else word[:_SHOWN_CHARACTERS] + "…"


def _masked(text: str, texts: Mapping[int, int]) -> str:
    """Return the text with one token of the same length, which has no meaning, for each of *texts*."""
    parts, copied = [], 0
    for begin, end in sorted(texts.items()):
        parts += [text[copied:begin], f'"{"_" * (end - begin - 2)}"' if end - begin > 1 else "0"]
        copied = end
    return "".join([*parts, text[copied:]])


def _refuse_unstorable(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        message = "The text contains half of a surrogate pair, which is not a character; save it as UTF-8."
        raise ClassAdError(message, text=text, at=error.start) from error
    if size > MAX_BYTES:
        message = f"The text has {size} bytes; at most {MAX_BYTES} are accepted."
        raise ClassAdError(message, text=text, at=0)
    if "\0" in text:
        raise ClassAdError("The text contains the NUL character; remove it.", text=text, at=text.index("\0"))


def _complaint(text: str, at: int) -> str:
    character = text[at]
    if character == '"':
        return _NO_END
    if text.startswith("/*", at):
        return "This comment has no end; close it with */."
    if character == "'":
        return 'Strings stand in double quotes ("), not in single ones.'
    if character in "`‘’“”„«»":
        return f'Strings stand in straight double quotes ("), not in {character}.'
    if character in "&|":
        return f"A single {character} is not an operator; write {character * 2}."
    printable = character if character.isprintable() else ""
    return (
        f"The character {printable}{' ' if printable else ''}(U+{ord(character):04X}) has no meaning here; remove it."
    )
