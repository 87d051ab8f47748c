"""The queues of a VO that meet requirements, and why others do not (RFC7)."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from resources import sql
from resources.domain.eligibility import Supply
from resources.domain.requirements import canonical
from resources.domain.software import PARAMETER, PublishedSoftware, software_of_queue
from resources.models import (
    ComputingElement,
    Queue,
    Site,
)
from resources.queries.known_names import requirement_kinds
from resources.queries.places import queues_of
from resources.queries.queue_parameters import Described, IneligibleQueue, Tree, described
from wms.accounts.models import VO


def supply_of(vo: VO) -> Supply:
    """Return the queues that serve *vo*, for comparison with many requirements."""
    return _described(vo).supply


def eligible_queues(vo: VO, requirements: Mapping[str, object]) -> Tree:
    """Return the queues that serve *vo* and meet *requirements*, as site > CE > queues, sorted by name.

    Current states do not matter: bans pass, while eligibility follows from the parameters of a resource.

    Raises:
        RequirementsError: the requirements are not a record of values.

    Source: RFC7, "a tree structure ( nested dictionaries ) is returned starting from the Site level".
    """
    return _described(vo).tree(canonical(requirements))


def ineligible_queues(vo: VO, requirements: Mapping[str, object], *, at_most: int) -> list[IneligibleQueue]:
    """Return the other queues that serve *vo*, each with its unmet requirements; those with the fewest first.

    Raises:
        RequirementsError: the requirements are not a record of values.
    """
    return _described(vo).ineligible(canonical(requirements), at_most=at_most)


def _described(vo: VO) -> Described:
    parameter_sets = sql.parameter_sets(vo_id=vo.pk, vo=vo.name)
    return described(parameter_sets, kinds=tuple(sorted(requirement_kinds(vo).items())))


RowT = TypeVar("RowT", Site, ComputingElement, Queue)
#: Long columns that only requirements are compared with.


def published_software(vo: VO) -> PublishedSoftware:
    """Return the software published by the queues that serve *vo*, by primary key.

    Current states of queues do not matter, as for requirements.
    """
    tags_of = dict(queues_of(vo).exclude(tags=[]).values_list("pk", "tags"))
    values = supply_of(vo).in_force_under(PARAMETER)
    of_queue: dict[Hashable, frozenset[str]] = {
        pk: software_of_queue(tags_of.get(pk, ()), values.get(pk)) for pk in tags_of.keys() | values.keys()
    }
    return PublishedSoftware(of_queue)
