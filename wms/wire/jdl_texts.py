"""Scanner of JDL: where the values of its attributes are, and which of them are texts without quotes.

The server and the client must find the same files in ``InputSandbox``, so both read it here. Expressions are only
skipped; the server's parser of ClassAds reads them. No text makes the scan quadratic.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .protocol import LFN_PREFIX

#: Lists in lists; what is nested deeper is left to the parser, which refuses it.
_MAX_DEPTH = 3
#: First signs of what is skipped.
_SKIPPED = frozenset(" \t\r\f\v\n/#")
_BLANKS = re.compile(r"[ \t\r\f\v\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[ \t]*\.[ \t]*[A-Za-z_][A-Za-z0-9_]*)*")
_LINE_END = re.compile(r"\n")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)
#: The end of a text without quotes. ``//`` begins a comment only after a blank: LFN:/a//b.
_TEXT_END = re.compile(r'[;\n"]|[ \t](?=//|/\*)')
#: Likewise of one in a list, where braces may also be a part of it.
_ELEMENT_SIGN = re.compile(r'[,;{}\n"]|[ \t](?=//|/\*)')
#: A word in a list. Most elements are one; they are read in one step.
_WORD = re.compile(r"""[^\s,;{}()\[\]"'`‘’“”„«»=][^\s,;{}()\[\]"]*(?=[,}])""")
#: Another attribute in a text: the semicolon before it is missing.
_SWALLOWED = re.compile(r"[ \t][A-Za-z_][A-Za-z0-9_.]*[ \t]+=")
_NEXT_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*[ \t]*=(?!=)")
#: Texts in these are left to the parser, which says that they stand in double quotes.
_OTHER_QUOTES = frozenset("'`‘’“”„«»")
_SIGN = re.compile(r'["\[\](){},;]|//|/\*')
#: ``file://run.sh`` is a relative name.
_FILE_ADDRESS = re.compile(r"file:(?://(?:localhost)?(?=/)|//(?=[^/]+\Z)|(?=/(?!/)))", re.IGNORECASE)
_ESCAPE = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r"}


class JdlValue(NamedTuple):
    """A value, or an element of a list; *begin* and *end* are offsets in the JDL."""

    begin: int
    end: int
    #: None: a list or an expression.
    text: str | None = None
    is_quoted: bool = False
    #: None: not a list. An empty element is the comma that makes it one.
    elements: tuple[JdlValue, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing at all is given."""
        return self.text == "" and not self.is_quoted

    @property
    def is_broken_list(self) -> bool:
        """Return whether this is a text only because it begins as a list and is none."""
        return self.text is not None and self.text.startswith("{") and not self.is_quoted


class JdlEntry(NamedTuple):
    """An attribute of the JDL and its value."""

    #: As written, without blanks.
    name: str
    begin: int
    value: JdlValue


def entries(jdl: str) -> list[JdlEntry]:
    """Return the attributes of a JDL in their order, as far as its form is understood."""
    return _Scanner(jdl).entries()


def texts_of(part: JdlValue) -> list[JdlValue]:
    """Return the texts of a value, also those in lists; expressions are left out."""
    if part.elements is None:
        return [] if part.text is None else [part]
    return [text for element in part.elements for text in texts_of(element)]


def names_in(text: str) -> list[str]:
    """Return the names of files in one text, which DIRAC separates at commas."""
    return [name for part in text.split(",") if (name := part.strip())]


def trimmed(name: str) -> str:
    """Return a name without blanks around it, or around what is behind ``LFN:``."""
    name = name.strip()
    prefix = name[: len(LFN_PREFIX)]
    return prefix + name[len(prefix) :].lstrip() if prefix.upper() == LFN_PREFIX else name


def file_name(text: str) -> str:
    """Return the name of a file in a string, in which it may be broken over lines."""
    return trimmed("".join([line.strip() for line in text.split("\n")]))


def local_path(entry: str) -> str:
    """Return the path in a ``file://`` address of this computer; any other entry as it is."""
    address = _FILE_ADDRESS.match(entry)
    return entry[address.end() :] if address else entry


def unescaped(text: str) -> str:
    r"""Return the value of a string.

    As in classad2: an unknown escape stands for its character, ``\ooo`` for the character of that octal code.
    """
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def odd_escape(jdl: str, begin: int, end: int) -> str:
    """Return the first escape in the strings of a part of a JDL that is not of a quote or backslash; empty: none."""
    if "\\" in jdl[begin:end]:
        for string in _STRING.finditer(jdl, begin, end):
            for escape in _ESCAPE.finditer(string[1]):
                if escape[1] not in {'"', "\\"}:
                    return escape[0]
    return ""


def quoted(text: str) -> str:
    """Return the string with this value."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _character(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)


class _Scanner:
    """Scans one JDL. Methods get the offset to begin at, and return the offset after what they read."""

    def __init__(self, jdl: str) -> None:
        self._jdl = jdl
        self._is_bracketed = False
        self._last_comment_end = jdl.rfind("*/")

    def entries(self) -> list[JdlEntry]:
        found = []
        at = self._skipped(self._jdl.startswith("\ufeff"))
        self._is_bracketed = self._sign(at) == "["
        at = self._skipped(at + self._is_bracketed)
        while at < len(self._jdl) and not (self._is_bracketed and self._sign(at) == "]"):
            name = _NAME.match(self._jdl, at)
            equals = at if name is None else self._skipped(name.end())
            if name is None or self._sign(equals) != "=":
                at = self._end_of_expression(at, is_element=False) + 1
            else:
                value = self._value(self._skipped(equals + 1))
                found.append(JdlEntry(re.sub(r"[ \t]", "", name[0]), at, value))
                at = value.end
            at = self._skipped(at)
            while self._sign(at) == ";":
                at = self._skipped(at + 1)
        return found

    def _sign(self, at: int) -> str:
        return self._jdl[at : at + 1]

    def _skipped(self, at: int) -> int:
        """Skip blanks and comments."""
        while self._jdl[at : at + 1] in _SKIPPED:
            at = _end(_BLANKS, self._jdl, at)
            sign = self._sign(at)
            if sign == "/" and self._jdl.startswith("/*", at) and at + 2 <= self._last_comment_end:
                at = self._jdl.index("*/", at + 2) + 2
            elif (sign == "/" and self._jdl.startswith("//", at)) or (sign == "#" and self._begins_line(at)):
                at = _end_before(_LINE_END, self._jdl, at)
            else:
                break
        return at

    def _begins_line(self, at: int) -> bool:
        return not self._jdl[self._jdl.rfind("\n", 0, at) + 1 : at].strip(" \t")

    def _value(self, begin: int) -> JdlValue:
        """Read a value up to its semicolon, or the line that lacks one."""
        whole = self._list(begin, depth=1) or self._string(begin)
        if whole is not None and self._is_over(whole.end):
            return whole
        text = self._text(begin)
        return text or JdlValue(begin, self._end_of_expression(begin, is_element=False))

    def _is_over(self, at: int) -> bool:
        """Return whether a value that ends here is complete."""
        following = self._skipped(at)
        if self._sign(following) in {";", ""} or self._is_closing(following):
            return True
        return "\n" in self._jdl[at:following] and _NEXT_ATTRIBUTE.match(self._jdl, following) is not None

    def _is_closing(self, at: int) -> bool:
        """Return whether the bracket around the whole closes here."""
        return self._is_bracketed and self._sign(at) == "]" and self._skipped(at + 1) == len(self._jdl)

    def _string(self, begin: int) -> JdlValue | None:
        string = _STRING.match(self._jdl, begin)
        return string and JdlValue(begin, string.end(), unescaped(string[1]), is_quoted=True)

    def _text(self, begin: int) -> JdlValue | None:
        """Read a text without quotes; None: it is an expression, or wrong."""
        end = _end_before(_TEXT_END, self._jdl, begin)
        text = self._jdl[begin:end].rstrip()
        if text.endswith("]") and self._is_closing(begin + len(text) - 1):
            text = text[:-1].rstrip()
        end = begin + len(text)
        is_list = text[:1] == "{" and text.count("{") != text.count("}")
        is_text = text[:1] not in _OTHER_QUOTES | {"[", "="} and not is_list and not _SWALLOWED.search(text)
        return JdlValue(begin, end, text) if is_text and self._is_over(end) else None

    def _list(self, begin: int, *, depth: int) -> JdlValue | None:
        """Read a list in braces; None: it is none, or wrong."""
        if self._sign(begin) != "{" or depth > _MAX_DEPTH:
            return None
        elements: list[JdlValue] = []
        comma = at = self._skipped(begin + 1)
        if self._sign(at) == "}":
            return JdlValue(begin, at + 1, elements=())
        while (element := self._element(at, depth=depth)) is not None:
            at = self._skipped(element.end)
            if not element.is_empty:
                elements.append(element)
            elif self._sign(comma) == ",":
                elements.append(JdlValue(comma, comma + 1, ""))
            if self._sign(at) != ",":
                break
            comma, at = at, self._skipped(at + 1)
        return JdlValue(begin, at + 1, elements=tuple(elements)) if element and self._sign(at) == "}" else None

    def _element(self, begin: int, *, depth: int) -> JdlValue | None:
        if word := _WORD.match(self._jdl, begin):
            return JdlValue(begin, word.end(), word[0])
        if self._sign(begin) in {",", "}"}:
            return JdlValue(begin, begin, "")
        whole = self._list(begin, depth=depth + 1) or self._string(begin)
        if whole is not None and self._sign(self._skipped(whole.end)) in {",", "}"}:
            return whole
        text = self._jdl[begin : self._end_of_element(begin)].rstrip()
        is_record = text[:1] == "[" and "=" in text
        is_text = text[:1] not in _OTHER_QUOTES | {"{"} and not is_record
        if is_text and self._sign(self._skipped(begin + len(text))) in {",", "}"}:
            return JdlValue(begin, begin + len(text), text)
        end = self._end_of_expression(begin, is_element=True)
        return JdlValue(begin, end) if self._sign(end) in {",", "}"} else None

    def _end_of_element(self, begin: int) -> int:
        """Return the end of a text without quotes in a list: a comma or brace outside of braces of its own."""
        depth = 0
        for sign in _ELEMENT_SIGN.finditer(self._jdl, begin):
            if sign[0] == "{":
                depth += 1
            elif not depth or sign[0] not in ",}":
                return sign.start()
            else:
                depth -= sign[0] == "}"
        return len(self._jdl)

    def _end_of_expression(self, at: int, *, is_element: bool) -> int:
        """Return the end of an expression: a semicolon, or in a list also a comma or a brace, outside of brackets."""
        records = inner = 0
        while (sign := _SIGN.search(self._jdl, at)) is not None:
            at = sign.end()
            if sign[0] == '"':
                string = _STRING.match(self._jdl, sign.start())
                at = len(self._jdl) if string is None else string.end()
            elif sign[0] in {"//", "/*"}:
                at = max(at, self._skipped(sign.start()))
            elif not records and (sign[0] == ";" or (is_element and not inner and sign[0] in ",}")):
                return sign.start()
            elif sign[0] in "[]":
                records = max(0, records + (1 if sign[0] == "[" else -1))
            else:
                inner += (sign[0] in "({") - (sign[0] in ")}")
        return len(self._jdl)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of what *pattern*, which may match nothing, matches here."""
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _end_before(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where *pattern* is next; the end of the text if nowhere."""
    found = pattern.search(text, at)
    return len(text) if found is None else found.start()
