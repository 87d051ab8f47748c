"""The names that a page offers for the requirements of jobs of one VO, from its configuration."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from resources.queries.eligible_queues import published_software
from resources.queries.known_names import known_platforms, known_sites
from resources.queries.places import queues_of
from wms.accounts.models import VO

#: Names of a kind; more would only slow down the page, and any name can be typed.
MOST_NAMES: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The names of each kind, sorted."""

    sites: Sequence[str] = ()
    platforms: Sequence[str] = ()
    tags: Sequence[str] = ()
    software: Sequence[str] = ()


def choices_of(vo: VO) -> Choices:
    """Return the names that jobs of *vo* may use; a few statements for any number of queues."""
    tags = queues_of(vo).exclude(tags=[]).order_by().values_list("tags", flat=True).distinct()
    return Choices(
        sites=_sorted(known_sites(vo)),
        platforms=_sorted(known_platforms()),
        tags=_sorted(chain.from_iterable(tags)),
        # All that some queue publishes, which is what one without software lacks.
        software=_sorted(published_software(vo).lacking(frozenset())),
    )


def joined(choices: Iterable[Choices]) -> Choices:
    """Return the names of several VOs."""
    of_all = list(choices)
    return Choices(
        sites=_sorted(chain.from_iterable(each.sites for each in of_all)),
        platforms=_sorted(chain.from_iterable(each.platforms for each in of_all)),
        tags=_sorted(chain.from_iterable(each.tags for each in of_all)),
        software=_sorted(chain.from_iterable(each.software for each in of_all)),
    )


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(set(names))[:MOST_NAMES]
