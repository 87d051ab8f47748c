"""The figures of a run, counted by all of its threads, and the Markdown in which docs/reliability.md shows them."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from docs.generators.markdown import table

#: What differs between requests of one kind: UUIDs, digests and numbers.
_DETAILS = re.compile(r"/(?:[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|\d+)(?=/)")
ANSWERED, UNAVAILABLE, SILENT, WRONG = "answered", "503", "no answer", "another 5xx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation: the invariant as a sentence, and what broke it."""

    invariant: str
    what: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


@dataclass(kw_only=True)
class Figures:
    """Numbers of faults, spoiled exchanges, operations, and exchanges with the server by kind and outcome."""

    faults: Counter[str] = field(default_factory=Counter)
    spoiled: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    exchanges: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    #: {kind of fault: seconds from its end until the server said that it was ready, the longest}.
    ready_again_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lock: Lock = field(default_factory=Lock)

    def count(self, what: Counter[str], name: str, many: int = 1) -> None:
        """Add to one of the counters."""
        with self.lock:
            what[name] += many

    def exchanged(self, method: str, path: str, status: int | None) -> None:
        """Count an exchange of the proxy with the server; None: the server did not answer."""
        outcome = ANSWERED
        if status is None:
            outcome = SILENT
        elif status >= 500:
            outcome = UNAVAILABLE if status == 503 else WRONG
        with self.lock:
            self.exchanges[f"{method} {_DETAILS.sub('/…', path.partition('?')[0])}"][outcome] += 1

    def fault(self, kind: str, *, ready_again_s: float | None) -> None:
        """Count a fault; None: it was one of a pilot, or the server did not become ready."""
        with self.lock:
            self.faults[kind] += 1
            if ready_again_s is not None:
                self.ready_again_s[kind] = max(self.ready_again_s[kind], ready_again_s)

    def markdown(self, *, facts: Mapping[str, str], violations: Sequence[Violation]) -> str:
        """Return the tables of the run; *facts* are of its length, its seed and its machine."""
        return "\n\n".join([self._summary(facts, violations), self._faults(), self._spoiled(), self._availability()])

    def _summary(self, facts: Mapping[str, str], violations: Sequence[Violation]) -> str:
        rows = [[name, fact] for name, fact in facts.items()]
        rows += [["faults", number(self.faults.total())], ["spoiled exchanges", number(self.spoiled.total())]]
        exchanges = sum(outcomes.total() for outcomes in self.exchanges.values())
        rows += [["requests sent to the server", number(exchanges)]]
        rows += [[name, number(many)] for name, many in sorted(self.operations.items())]
        rows += [["violations", number(len(violations))]]
        rows += [[name, number(many)] for name, many in Counter(each.invariant for each in violations).items()]
        return table(["what", "figure"], rows)

    def _faults(self) -> str:
        rows = [
            [kind, number(many), f"{self.ready_again_s[kind]:.1f} s" if kind in self.ready_again_s else "–"]
            for kind, many in sorted(self.faults.items())
        ]
        return table(["fault", "times", "ready again after at most"], rows)

    def _spoiled(self) -> str:
        return table(["exchange", "times"], [[kind, number(many)] for kind, many in sorted(self.spoiled.items())])

    def _availability(self) -> str:
        rows = []
        for kind, outcomes in sorted(self.exchanges.items(), key=lambda item: -item[1].total()):
            share = f"{100 * outcomes[ANSWERED] / outcomes.total():.2f} %"
            counts = [number(outcomes[outcome]) for outcome in (UNAVAILABLE, SILENT, WRONG)]
            rows.append([f"`{kind}`", number(outcomes.total()), share, *counts])
        return table(["request", "sent to the server", ANSWERED, UNAVAILABLE, SILENT, WRONG], rows)


def number(value: int) -> str:
    """Return the number with commas."""
    return f"{value:,}"
