"""The report of an import: a line for each option of the files, and rules that all sections share."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wms.configuration.dirac.cfg import CfgOption, CfgSection, Outcome
from wms.kernel.fields import NAME_PATTERN
from wms.kernel.names import listed

_ALLOWED = "a name has letters, digits and . _ : @ + - only, and begins with a letter, a digit or _"
#: Reasons in a line; the rest are counted.
_MOST_REASONS = 5
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.0*)?")

#: Names of options that are secrets or lead to one. The conversion takes none of them; this is only about the reason.
_SECRET = re.compile(
    r"(?:(?i:passw|passphrase|pwd|secret|token|credential|private)[^/]*|(?:[Kk]ey|KEY)(?:[A-Z_][^/]*)?|Auth)$"
)

#: Why options are not taken about which the conversion says nothing; the first pattern that the path matches counts.
_REASONS = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (r"^Registry/Hosts/", "hosts are not registered: pilots and sites have tokens"),
        (r"^Registry/.*/(?:Email|mobile|Mail|Affiliation|FullName)$", "users write their address into their profile"),
        (r"^Registry/.*(?:VOMS|Proxy|IdProvider|/CA$|/CN$|/DNProperties/)", "nobody logs in by certificates"),
        (r"^Registry/", "nothing here corresponds to it"),
        (r"^Resources/StorageElement", "a storage element here is one address and its VOs"),
        (r"^Resources/FileCatalogs/", "replicas are loaded with load_replicas"),
        (r"^Resources/FTS", "no files are transferred between storage elements"),
        (r"^Resources/IdProviders/", "OpenID Connect is configured by settings (openid-connect.md)"),
        (r"^Resources/ProxyProviders/", "nobody logs in by certificates"),
        (r"^Resources/Sites/.*/CEs/", "not an option of its backend here"),
        (r"^Resources/", "nothing here corresponds to it"),
        (r"^Operations/.*JobDescription/", "the limits of descriptions are fixed; job types need no registration"),
        (r"^Operations/.*Pilots?/", "the server provides the program of pilots itself"),
        (
            r"^Operations/.*JobScheduling/ShareCorrections/",
            "the correction has no parameters here: at most a factor of 3",
        ),
        (
            r"^Operations/.*(?:Shifter|Transformations|DataManagement|Productions|InputDataPolicy)/",
            "no such service here",
        ),
        (r"^Operations/", "nothing here corresponds to it"),
        (r"^Systems/", "it configures DIRAC's own processes"),
        (r"", "it configures DIRAC's own programs"),
    )
)


@dataclass(slots=True)
class Report:
    """The options of all files, each with its outcome and a note."""

    options: list[CfgOption] = field(default_factory=list)
    #: Sentences about what no option says.
    notes: list[str] = field(default_factory=list)

    def refuse(self, section: CfgSection, why: str) -> None:
        """Note that nothing of a section is taken, whatever was noted before."""
        options = [option for _, option in section.options_below()]
        for option in options:
            option.reset()
            option.leave(why)
        if not options:
            self.notes.append(f"{section.where}: {section.path} is not taken ({why}).")

    def lines(self) -> Iterator[str]:
        """Yield the lines: one for each option, notes, and the counts. NB: they repeat no value that is not taken."""
        counts: Counter[Outcome] = Counter()
        for option in self.options:
            outcome = _outcome(option)
            counts[outcome] += 1
            keys = f" -> {listed(option.keys)}" if option.keys else ""
            reasons = f" ({_reasons(option)})" if outcome != Outcome.TAKEN else ""
            yield f"{option.where}: {outcome}: {option.path}{keys}{reasons}"
        yield from (f"note: {note}" for note in self.notes)
        parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome)
        yield f"{len(self.options)} options: {parts}."


def _outcome(option: CfgOption) -> Outcome:
    """Return the one outcome; an option that is taken in parts is changed."""
    if not option.outcomes:
        return Outcome.NOT_TAKEN
    return next(iter(option.outcomes)) if len(option.outcomes) == 1 else Outcome.CHANGED


def _reasons(option: CfgOption) -> str:
    if _outcome(option) == Outcome.NOT_TAKEN and _SECRET.search(option.path):
        return "a secret, not copied"
    if option.outcomes:
        hidden = len(option.reasons) - _MOST_REASONS
        return "; ".join(option.reasons[:_MOST_REASONS]) + (f"; and {hidden} more" if hidden > 0 else "")
    if option.overridden_by is not None:
        return f"{option.overridden_by.path} at {option.overridden_by.where} counts instead"
    return next(reason for pattern, reason in _REASONS if pattern.search(option.path))


class UniqueNames:
    """The names of one kind of objects, which must be valid here and differ in more than letter case."""

    def __init__(self, *, longest: int = 128, pattern: re.Pattern[str] = NAME_PATTERN, allowed: str = _ALLOWED) -> None:
        self._longest = longest
        self._pattern = pattern
        self._allowed = allowed
        #: By their text without letter case: the name as written, and where.
        self._taken: dict[str, tuple[str, str]] = {}

    def flaw(self, name: str, *, where: str) -> str | None:
        """Return why a further object cannot have this name; None: it has it now."""
        if not self._pattern.match(name):
            return f'"{name}" is not a name here: {self._allowed}'
        if len(name) > self._longest:
            return f"its name has more than {self._longest} characters"
        first, first_where = self._taken.setdefault(name.casefold(), (name, where))
        if first_where == where:
            return None
        if first == name:
            return f'the name "{name}" is taken already, at {first_where}'
        return f'"{name}" differs from "{first}" at {first_where} only in letter case'


def is_name(text: str, *, longest: int = 128) -> bool:
    """Return whether it can be a name here."""
    return len(text) <= longest and bool(NAME_PATTERN.match(text))


def find(sections: Iterable[CfgSection], *names: str) -> CfgOption | None:
    """Return the first option with one of *names*; further ones are noted as overridden by it."""
    found: CfgOption | None = None
    for section in sections:
        for option in (section.options[name] for name in names if name in section.options):
            if found is None:
                found = option
            elif option.overridden_by is None and option is not found:
                option.overridden_by = found
    return found


def whole_number(option: CfgOption, *, least: int = 0, most: int = 2**31 - 1) -> int | None:
    """Return the value; None, which is noted: it is not a whole number within the bounds."""
    number = int(option.value.partition(".")[0]) if _NUMBER.fullmatch(option.value) else -1
    if least <= number <= most:
        return number
    option.leave(f"not a whole number from {least} to {most}")
    return None


def chosen(option: CfgOption | None, known: Iterable[str], *, what: str) -> list[str]:
    """Return the elements of a list that are among *known*; others are noted as not taken.

    Args:
        what: noun of the elements, such as "a VO".
    """
    if option is None:
        return []
    names = set(known)
    for element in option.elements:
        if element not in names:
            option.leave(f'"{element}" is not {what} that is taken')
    return [element for element in option.elements if element in names]
