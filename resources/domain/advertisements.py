"""What a site may say of what goes on there: as numbers, or as SAM's ClassAd (DESIGN §3.6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from resources.domain.classad import ClassAd, Value, each_value_of, parse_classad
from resources.domain.throttles import CUR_MATCHES, NUMBERS, Numbers

#: Of jobs and matches; what the column of the room can store.
MOST_JOBS: Final = 2**31 - 1
#: SAM's spelling and HTCondor's. It says that CurMatches changes the advertisement; here it always does.
WANT_REEVALUATION: Final = ("WantAdReevaluate", "WantAdRevaluate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """One advertisement, found to be right.

    Make it by ``of_numbers`` or ``of_classad``.
    """

    #: By SAM's names; whole, 0 to MOST_JOBS.
    numbers: Numbers
    #: As it came; empty: it came as numbers.
    classad: str = ""
    #: Higher with each; None: it has none, and is later than any.
    sequence: int | None = None
    #: Seconds between the measurement and the moment when it was sent; at least 0.
    measured_s_ago: float = 0.0
    #: By which the site knows the gateway that measured; empty: it gives none.
    gateway: str = ""


def of_numbers(
    numbers: Mapping[str, int], *, sequence: int | None = None, measured_s_ago: float = 0.0, gateway: str = ""
) -> Advertisement:
    """Return the advertisement of these numbers, by SAM's names; CurMatches, left out, starts at 0."""
    return Advertisement(
        numbers={CUR_MATCHES: 0, **numbers}, sequence=sequence, measured_s_ago=measured_s_ago, gateway=gateway
    )


def of_classad(
    text: str, *, sequence: int | None = None, measured_s_ago: float = 0.0, gateway: str = ""
) -> Advertisement:
    """Return the advertisement that *text* is; CurMatches, left out, stays undefined, and a custom policy closed.

    It is a record, or has one attribute on each line, as gateways write their ads (HTCondor's old form);
    in both a backslash in a string begins an escape.

    Raises:
        ClassAdError: it is no ClassAd, or an attribute that is known here has a value that it cannot have; with line
            and column.
    """
    ad = parse_classad(text, by_lines=True)
    numbers: dict[str, int] = {}
    for name, value in each_value_of(ad, (*WANT_REEVALUATION, *NUMBERS)):
        if name in NUMBERS:
            numbers[name] = _number(value, ad, name)
        elif not isinstance(value, bool):
            raise ad.error(name, f"{name} is true or false; or leave it out.")
    return Advertisement(
        numbers=numbers, classad=text, sequence=sequence, measured_s_ago=measured_s_ago, gateway=gateway
    )


def _number(value: Value, ad: ClassAd, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_JOBS:
        raise ad.error(name, f"{name} is a whole number from 0 to {MOST_JOBS}.")
    return value
