"""The load that a site advertises: SAM's names and numbers, of each of its gateways and in sum."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

#: {name in SAM's advertisements: whole number, at least 0}.
Numbers = Mapping[str, int]

CUR_MATCHES: Final = "CurMatches"
SUBMITTING: Final = "CurrentSubmittingJobs"
GATHERING: Final = "CurrentGatheringOutputJobs"
CURRENT: Final = "CurrentJobs"
MAX_MATCHES: Final = "MaxMatches"
MAX_SUBMITTING: Final = "MaxSubmittingJobs"
MAX_SUBMITTING_AND_GATHERING: Final = "MaxSubmittingAndOutputGatheringJobs"
MAX_JOBS: Final = "MaxJobs"
REQUIREMENTS: Final = "Requirements"
#: {SAM's name: name of the setting and of the request field}.
FIELD_OF_MAXIMUM: Final[Mapping[str, str]] = MappingProxyType(
    {
        MAX_MATCHES: "max_matches",
        MAX_SUBMITTING: "max_submitting_jobs",
        MAX_SUBMITTING_AND_GATHERING: "max_submitting_and_output_gathering_jobs",
        MAX_JOBS: "max_jobs",
    }
)
MAXIMA: Final = tuple(FIELD_OF_MAXIMUM)
#: Advertised attributes that are numbers.
NUMBERS: Final = (CUR_MATCHES, SUBMITTING, GATHERING, CURRENT, *MAXIMA)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayAdvertisement:
    """The last advertisement of one gateway, or the server's own count."""

    #: Name of the gateway; empty: it has none.
    gateway: str = ""
    numbers: Numbers
    #: Empty: it came as numbers.
    classad: str = ""


def sum_of(ads: Iterable[GatewayAdvertisement]) -> dict[str, int]:
    """Return the numbers of a site: the sums over its gateways, for the names that all of them advertise."""
    numbers = [ad.numbers for ad in ads]
    names = [name for name in NUMBERS if numbers and all(name in of_gateway for of_gateway in numbers)]
    return {name: sum(of_gateway[name] for of_gateway in numbers) for name in names}
