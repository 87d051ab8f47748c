"""Consequences of a change of the configuration, which its author confirms before it is stored (ADR 105)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """One thing that a change stops."""

    #: Without numbers of the moment, so that it stays what was confirmed: "The limit on the VO lhcb lets no job start."
    sentence: str
    #: How much that concerns now: "3 jobs run, 1,102 wait."
    extent: str
    #: Whether anything that waits or runs now is concerned.
    is_felt: bool

    def __str__(self) -> str:
        return f"{self.sentence} {self.extent}"
