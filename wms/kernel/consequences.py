"""Consequences of a change of the configuration, which its author confirms before it is stored (ADR 105)."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from wms.kernel.errors import ConflictError


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """One thing that a change stops."""

    #: Without numbers of the moment, so that it stays what was confirmed: "The limit on the VO lhcb lets no job start."
    sentence: str
    #: How much that concerns now: "3 jobs run, 1,102 wait."
    extent: str
    #: Whether a file is refused until it is confirmed, as a form is: something waits or runs now, or it is probably a
    #: mistake. Else the file is stored with a warning.
    is_felt: bool

    def __str__(self) -> str:
        return f"{self.sentence} {self.extent}"


class ConfirmationNeededError(ConflictError):
    """A change would stop jobs, which its author has not confirmed."""

    code = "confirmation_needed"


def require_confirmed(consequences: Iterable[Consequence], confirmed: Collection[str]) -> list[str]:
    """Return the sentences of the consequences.

    Args:
        consequences: of the change.
        confirmed: sentences that its author has confirmed; those that are not true confirm nothing.

    Raises:
        ConfirmationNeededError: some are not confirmed.
    """
    there = list(consequences)
    sentences = [each.sentence for each in there]
    if not {*sentences} <= {*confirmed}:
        words = " ".join(map(str, there))
        detail = f"Nothing was changed. {words} Confirm what is meant."
        raise ConfirmationNeededError(detail, errors={"confirmed": sentences})
    return sentences
