"""Throttles when their configuration changes."""

from datetime import timedelta
from typing import Final

from resources.domain.words import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from wms.kernel.db import transaction_required

#: DESIGN §3.6: an advertisement is "expired after three" cycles.
CYCLES_OF_AN_ADVERTISEMENT: Final = 3


def validity_of(site: Site, *, is_advertised: bool) -> timedelta:
    """Return how long after the measurement an advertisement of *site* holds, or the server's own count."""
    cycles = CYCLES_OF_AN_ADVERTISEMENT if is_advertised else 1
    return cycles * timedelta(seconds=site.throttle_advertisement_s)


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
    state.expires_at = state.measured_at + validity_of(site, is_advertised=state.advertised_at is not None)
    state.save(update_fields=["room", "version", "expires_at"])
