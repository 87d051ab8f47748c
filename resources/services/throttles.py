"""Throttles when their configuration changes."""

from datetime import datetime, timedelta
from typing import Final

from resources.domain.enums import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.queries.throttles import gateways_of, throttle_in
from wms.kernel.db import transaction_required

#: DESIGN §3.6: an advertisement is "expired after three" cycles.
CYCLES_OF_AN_ADVERTISEMENT: Final = 3


def validity_of(site: Site, *, is_advertised: bool) -> timedelta:
    """Return how long after the measurement an advertisement of *site* holds, or the server's own count."""
    cycles = CYCLES_OF_AN_ADVERTISEMENT if is_advertised else 1
    return cycles * timedelta(seconds=site.throttle_advertisement_s)


def expiry_of(site: Site, state: ThrottleState) -> datetime:
    """Return when nothing holds any more of what is known of the site: that of the gateway that measured last does."""
    measured_at = max([each.measured_at for each in gateways_of(state)], default=state.measured_at)
    return measured_at + validity_of(site, is_advertised=state.advertised_at is not None)


@transaction_required
def recompute(site: Site) -> None:
    """Apply the throttle of *site*, as it is saved, to what was last advertised or counted.

    Without a policy nothing is kept. NB: call it after the site was saved, in the same transaction: what is advertised
    meanwhile waits for the one or the other (matching.services.throttles).
    """
    states = ThrottleState.objects.filter(site=site)
    if site.throttle_policy == ThrottlePolicy.NONE:
        states.delete()
        return
    state = states.select_for_update(of=("self",), no_key=True).first()
    if state is None:
        return  # until the first advertisement or match
    state.room = throttle_in(site, state).room
    state.version += 1
    state.expires_at = expiry_of(site, state)
    state.save(update_fields=["room", "version", "expires_at"])
