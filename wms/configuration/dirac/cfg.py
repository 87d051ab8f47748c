"""Reader of DIRAC's CFG files: nested sections of options, each with its line and, later, what becomes of it.

A section is a name and a block in braces; an option is ``name = value`` up to the end of its line, and
``name += value`` adds to its list. ``#`` begins a comment at the start of a line or after a blank. Of an option that is
repeated, the last one counts; sections that are repeated are joined.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from wms.configuration.document import decoded
from wms.configuration.problems import ConfigurationError, Remark
from wms.kernel.names import composed

MAX_BYTES = 16 * 1024 * 1024
#: The deepest option of DIRAC's own is at 10.
MAX_DEPTH = 20

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_SIGN = re.compile(r"[={}]")


class Outcome(StrEnum):
    """The result of the conversion of one option."""

    TAKEN = "taken"
    CHANGED = "changed"
    NOT_TAKEN = "not taken"


@dataclass(slots=True, eq=False, kw_only=True)
class CfgOption:
    """One option, with what the conversion notes about it."""

    #: Names of its sections and its own, such as ``Registry/Users/alice/DN``.
    path: str
    #: File and line, such as ``prod.cfg:12``.
    where: str
    #: The value, and what ``+=`` adds.
    parts: list[str]
    #: An option that counts in place of this one.
    overridden_by: "CfgOption | None" = None
    outcomes: set[Outcome] = field(default_factory=set)
    #: Keys of our file that it sets.
    keys: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def value(self) -> str:
        """The whole value."""
        return ", ".join(filter(None, self.parts))

    @property
    def elements(self) -> list[str]:
        """The elements of the value as a list, without repetitions."""
        return list(dict.fromkeys(filter(None, (part.strip() for part in self.value.split(",")))))

    @property
    def is_true(self) -> bool:
        """Whether the value is one of DIRAC's words for true."""
        return self.value.lower() in {"y", "yes", "true", "1"}

    def take(self, key: str) -> None:
        """Note that the value is that of *key*."""
        self._note(Outcome.TAKEN, key, "")

    def change(self, key: str, how: str) -> None:
        """Note that *key* has a value that differs from this one, and how."""
        self._note(Outcome.CHANGED, key, how)

    def leave(self, why: str) -> None:
        """Note that the value, or a part of it, is not taken."""
        self._note(Outcome.NOT_TAKEN, "", why)

    def reset(self) -> None:
        """Forget what was noted."""
        self.outcomes.clear()
        self.keys.clear()
        self.reasons.clear()

    def _note(self, outcome: Outcome, key: str, reason: str) -> None:
        self.outcomes.add(outcome)
        if key and key not in self.keys:
            self.keys.append(key)
        if reason and reason not in self.reasons:
            self.reasons.append(reason)


@dataclass(slots=True, eq=False, kw_only=True)
class CfgSection:
    """A section; one that the file does not have is empty."""

    path: str = ""
    where: str = ""
    options: dict[str, CfgOption] = field(default_factory=dict)
    sections: "dict[str, CfgSection]" = field(default_factory=dict)

    def at(self, *names: str) -> "CfgSection":
        """Return the section below this one, in *names* of sections."""
        section = self
        for name in names:
            section = section.sections.get(name) or CfgSection()
        return section

    def options_below(self) -> Iterator[tuple[tuple[str, ...], CfgOption]]:
        """Yield the options of this section and of those below, with their names from here."""
        for name, option in self.options.items():
            yield (name,), option
        for name, section in self.sections.items():
            for names, option in section.options_below():
                yield (name, *names), option


def parse(source: bytes, *, file: str, root: CfgSection) -> list[CfgOption]:
    """Add the sections of a file to *root*, and return all its options in their order.

    Raises:
        ConfigurationError: too large, not UTF-8, or not a CFG file; with the line.
    """
    if len(source) > MAX_BYTES:
        raise _refused(1, f"the file is larger than {MAX_BYTES // 1024**2} MB")
    parser = _Parser(file, root)
    for number, line in enumerate(composed(decoded(source)).split("\n"), start=1):
        parser.line(number, _COMMENT.sub("", line).strip())
    parser.end()
    return parser.options


def _refused(line: int, sentence: str) -> ConfigurationError:
    return ConfigurationError([Remark(line, "", sentence)])


class _Parser:
    """Adds one line after the other. NB: sentences repeat no text of the file, which may be a secret."""

    def __init__(self, file: str, root: CfgSection) -> None:
        self.options: list[CfgOption] = []
        self._file = file
        self._line = 1
        #: The open sections, each with the line of its brace.
        self._open = [(root, 1)]
        #: The name of a section whose block has not begun, and its line.
        self._announced: tuple[str, int] | None = None

    def line(self, number: int, rest: str) -> None:
        """Read a line without its comment."""
        self._line = number
        while rest:
            sign = _SIGN.search(rest)
            before = rest[: sign.start()].strip() if sign else rest
            after = rest[sign.end() :].strip() if sign else ""
            if before and self._announced is not None:
                raise _refused(self._announced[1], "this line is neither an option (name = value) nor a section")
            if sign is not None and sign.group() == "=":
                self._option(before, after)
                return
            if before:
                self._announced = (before, number)
            if sign is not None:
                self._brace(sign.group())
            rest = after

    def end(self) -> None:
        """Check that the file is complete."""
        if self._announced is not None:
            raise _refused(self._announced[1], "this line is neither an option (name = value) nor a section")
        if len(self._open) > 1:
            raise _refused(self._open[-1][1], "the section that begins here is not closed; a } is missing")

    def _brace(self, brace: str) -> None:
        if brace == "}":
            if self._announced is not None or len(self._open) == 1:
                raise _refused(self._line, "this } closes no section")
            self._open.pop()
            return
        if self._announced is None:
            raise _refused(self._line, "there is no name of a section before this {")
        if len(self._open) > MAX_DEPTH:
            raise _refused(self._line, f"sections are nested deeper than {MAX_DEPTH} levels")
        (name, line), self._announced = self._announced, None
        above = self._open[-1][0]
        new = CfgSection(path=_joined(above.path, name), where=f"{self._file}:{line}")
        self._open.append((above.sections.setdefault(name, new), line))

    def _option(self, before: str, value: str) -> None:
        section = self._open[-1][0]
        # Blocks in one line: { name = value }
        closes = 0
        while value.endswith("}") and value.count("{") < value.count("}"):
            value, closes = value[:-1].strip(), closes + 1
        name = before.removesuffix("+").strip()
        if not name:
            raise _refused(self._line, "there is no name before this =")
        before_this = section.options.get(name)
        if before_this is not None and before.endswith("+"):
            before_this.parts.append(value)
        else:
            option = CfgOption(path=_joined(section.path, name), where=f"{self._file}:{self._line}", parts=[value])
            if before_this is not None:
                before_this.overridden_by = option
            section.options[name] = option
            self.options.append(option)
        for _ in range(closes):
            self._brace("}")


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
