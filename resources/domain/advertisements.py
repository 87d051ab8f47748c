"""Advertisements: the load of a site, as numbers or as SAM's ClassAd (docs/architecture.md, Throttles and limits)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from resources.domain.advertised_load import CUR_MATCHES, NUMBERS, Numbers
from resources.domain.classad import ClassAd, Value, each_value_of, parse_classad

#: Largest number of jobs or matches; the limit of the column ``room``.
MOST_JOBS: Final = 2**31 - 1
#: SAM's spelling and HTCondor's: the ad is re-evaluated after each match. Here it always is.
WANT_REEVALUATION: Final = ("WantAdReevaluate", "WantAdRevaluate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertisement:
    """One validated advertisement.

    Create it by ``of_numbers`` or ``of_classad``.
    """

    #: By SAM's names; whole numbers, 0 to MOST_JOBS.
    numbers: Numbers
    #: The text as received; empty: it came as numbers.
    classad: str = ""
    #: Increases with each advertisement; None: not given, and it counts as the latest.
    sequence: int | None = None
    #: Seconds between the measurement and its sending; at least 0.
    measured_s_ago: float = 0.0
    #: Name of the gateway that measured; empty: not given.
    gateway: str = ""


def of_numbers(
    numbers: Mapping[str, int], *, sequence: int | None = None, measured_s_ago: float = 0.0, gateway: str = ""
) -> Advertisement:
    """Return the advertisement with these numbers, by SAM's names; CurMatches starts at 0 by default."""
    return Advertisement(
        numbers={CUR_MATCHES: 0, **numbers}, sequence=sequence, measured_s_ago=measured_s_ago, gateway=gateway
    )


def of_classad(
    text: str, *, sequence: int | None = None, measured_s_ago: float = 0.0, gateway: str = ""
) -> Advertisement:
    """Return the advertisement in *text*; without CurMatches that stays undefined, which closes a custom policy.

    The text is a record, or has one attribute per line, as gateways write their ads (HTCondor's old form); in both, a
    backslash in a string starts an escape.

    Raises:
        ClassAdError: it is not a ClassAd, or a known attribute has an invalid value; with line and column.
    """
    ad = parse_classad(text, by_lines=True)
    numbers: dict[str, int] = {}
    for name, value in each_value_of(ad, (*WANT_REEVALUATION, *NUMBERS)):
        if name in NUMBERS:
            numbers[name] = _number(value, ad, name)
        elif not isinstance(value, bool):
            raise ad.error(name, f"{name} must be true or false, or left out.")
    return Advertisement(
        numbers=numbers, classad=text, sequence=sequence, measured_s_ago=measured_s_ago, gateway=gateway
    )


def _number(value: Value, ad: ClassAd, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_JOBS:
        raise ad.error(name, f"{name} must be a whole number from 0 to {MOST_JOBS}.")
    return value
