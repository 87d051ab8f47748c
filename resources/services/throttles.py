"""Validity of advertisements, and recomputation of throttles after changes of their configuration."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from resources.domain.advertised_load import FIELD_OF_MAXIMUM
from resources.domain.enums import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.queries.throttles import gateways_of, throttle_in
from wms.kernel.db import transaction_required

#: {setting of a throttle, as in files and over REST: its column of sites}.
COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "policy": "throttle_policy",
        "when_expired": "throttle_when_expired",
        "advertisement_s": "throttle_advertisement_s",
        "requirements": "throttle_requirements",
        **{field: field for field in FIELD_OF_MAXIMUM.values()},
    }
)
#: SAM: an advertisement is "expired after three" cycles.
CYCLES_OF_AN_ADVERTISEMENT: Final = 3


def validity_of(site: Site, *, is_advertised: bool) -> timedelta:
    """Return how long after its measurement an advertisement of *site*, or the server's own count, is valid."""
    cycles = CYCLES_OF_AN_ADVERTISEMENT if is_advertised else 1
    return cycles * timedelta(seconds=site.throttle_advertisement_s)


def expiry_of(site: Site, state: ThrottleState) -> datetime:
    """Return when the site's numbers expire: with the advertisement measured last."""
    measured_at = max([each.measured_at for each in gateways_of(state)], default=state.measured_at)
    return measured_at + validity_of(site, is_advertised=state.advertised_at is not None)


@transaction_required
def recompute(site: Site) -> None:
    """Recompute the throttle state of *site* after its configuration was saved.

    Without a policy the state is deleted. NB: call it after saving the site, in the same transaction; a simultaneous
    advertisement waits for it, or it waits for the advertisement (matching.services.throttles).
    """
    states = ThrottleState.objects.filter(site=site)
    if site.throttle_policy == ThrottlePolicy.NONE:
        states.delete()
        return
    state = states.select_for_update(of=("self",), no_key=True).first()
    if state is None:
        return  # it is created by the first advertisement or match
    state.room = throttle_in(site, state).room
    state.version += 1
    state.expires_at = expiry_of(site, state)
    state.save(update_fields=["room", "version", "expires_at"])
