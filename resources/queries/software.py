"""Software published by queues, read from the configuration (ADR 34)."""

from collections.abc import Hashable

from resources.domain.software import PARAMETER, PublishedSoftware, software_of_queue
from resources.queries.eligible_queues import supply_of
from resources.queries.places import queues_of
from wms.accounts.models import VO


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
