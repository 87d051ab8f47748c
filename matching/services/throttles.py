"""States of throttles: advertisements of sites, or counts of the server (docs/architecture.md, Throttles and limits).

Only this module and the claim, which counts its match, write them; both lock the row first. So a count made here under
the lock misses no match: a claim holds the lock from before it writes until it commits, and a claim that waits for the
lock adds its match to the count.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from matching.models import Match
from matching.queries.restrictions import is_to_be_counted, leased_jobs_at
from resources.domain.advertised_load import sum_of
from resources.domain.advertisements import Advertisement
from resources.domain.enums import ThrottlePolicy
from resources.domain.gateways import MOST_GATEWAYS, GatewayState
from resources.models import Queue, Site, ThrottleState
from resources.queries.throttles import ThrottleStanding, gateways_of, throttle_in, throttle_of
from resources.services.throttles import expiry_of, validity_of
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.kernel.errors import ConflictError, RejectedError

logger = logging.getLogger(__name__)


class ExpiredAdvertisementError(RejectedError):
    """The measurement is too old to be used."""

    code = "advertisement_expired"


class TooManyGatewaysError(ConflictError):
    """The site has too many gateways already."""

    code = "too_many_gateways"


@transaction.atomic(durable=True)
def advertise(site_id: int, advertisement: Advertisement) -> ThrottleStanding:
    """Begin a new state of a site's throttle with the measurement of a gateway, and return how it stands.

    What several gateways advertise is added up (ADR 30), and matches since the earliest measurement count. An
    advertisement that is not newer than the last of its gateway, by sequence or by time of measurement, is ``ignored``:
    only the reason is stored. For a site without a throttle nothing is stored.

    Raises:
        Site.DoesNotExist: it was removed.
        ExpiredAdvertisementError: it was measured more than three cycles ago.
        TooManyGatewaysError: the site has as many gateways as allowed.
    """
    site, state, _ = _locked(site_id)
    if site.throttle_policy == ThrottlePolicy.NONE:
        return _NO_THROTTLE
    now, validity = database_now(), validity_of(site, is_advertised=True)
    measured_at = now - timedelta(seconds=advertisement.measured_s_ago)
    gateways = {gateway.name: gateway for gateway in gateways_of(state) if gateway.holds(now=now, validity=validity)}
    before = gateways.get(advertisement.gateway)
    if before is not None and (
        why := before.why_outdated(advertisement, measured_at=measured_at, now=now, validity=validity)
    ):
        return _ignored(site, state, before.ignoring(why, now=now), now=now)
    _refuse_expired(advertisement, validity=validity)
    if before is None and len(gateways) >= MOST_GATEWAYS:
        raise TooManyGatewaysError(
            f"{len(gateways)} other gateways of this site advertise; use one of their names, or wait until one expires."
        )
    new = GatewayState(name=advertisement.gateway, numbers={}, measured_at=measured_at, advertised_at=now)
    after = (before or new).after(advertisement, measured_at=measured_at, now=now)
    gateways[after.name] = after
    _keep(state, list(gateways.values()))
    earliest = min(gateway.measured_at for gateway in gateways.values())
    state.advertised_at = now
    state.matched = _matches_since(site, earliest)
    _begin(site, state, measured_at=earliest)
    counts = {"sequence": after.sequence, "matched": state.matched, "room": state.room}
    logger.info("throttle.advertised", extra={"site": site.pk, "gateway": after.name, **counts})
    return replace(_standing(site, state, now=now), last_sequence=after.last_sequence(now=now, validity=validity))


def _ignored(site: Site, state: ThrottleState, gateway: GatewayState, *, now: datetime) -> ThrottleStanding:
    """Record with its gateway that an advertisement was ignored, and return how the throttle stands without it."""
    gateways = [gateway if stored.name == gateway.name else stored for stored in gateways_of(state)]
    state.gateways = [stored.as_record() for stored in gateways]
    state.save(update_fields=["gateways"])
    logger.info("throttle.ignored", extra={"site": site.pk, "gateway": gateway.name, "why": gateway.why_ignored})
    last = gateway.last_sequence(now=now, validity=validity_of(site, is_advertised=True))
    return replace(_standing(site, state, now=now), why_ignored=gateway.why_ignored, last_sequence=last)


def _refuse_expired(advertisement: Advertisement, *, validity: timedelta) -> None:
    if advertisement.measured_s_ago >= validity.total_seconds():
        sentence = (
            f"This was measured {advertisement.measured_s_ago:.0f} s ago and is valid for "
            f"{validity.total_seconds():.0f} s; measure again."
        )
        raise ExpiredAdvertisementError(sentence, errors={"measured_s_ago": [sentence]})


def _keep(state: ThrottleState, gateways: Sequence[GatewayState]) -> None:
    state.gateways = [gateway.as_record() for gateway in gateways]
    state.advertised = sum_of(gateway.ad for gateway in gateways)
    state.classad = gateways[0].classad if len(gateways) == 1 else ""


def count(site_id: int) -> bool:
    """Return whether a throttled site that was found expired or full takes matches after all.

    If the policy has the server count before it refuses, it counts. For an expression the result is True: the caller
    evaluates it.

    Raises:
        Site.DoesNotExist: it was removed.
    """
    site = Site.objects.select_related("throttle_state").get(pk=site_id)
    state: ThrottleState | None = getattr(site, "throttle_state", None)
    now = database_now()
    if site.throttle_policy != ThrottlePolicy.NONE and is_to_be_counted(site, state, now=now):
        return _count_anew(site_id)
    return _has_room(site, state, now=now)


@transaction.atomic(durable=True)
def _count_anew(site_id: int) -> bool:
    site, state, is_new = _locked(site_id)
    now = database_now()
    # Somebody may have counted, or the site advertised, while this waited for the lock.
    if site.throttle_policy != ThrottlePolicy.NONE and is_to_be_counted(site, None if is_new else state, now=now):
        numbers = leased_jobs_at([site_id])[site_id]
        state.advertised, state.classad, state.gateways = numbers, "", []
        state.advertised_at, state.matched = None, 0
        _begin(site, state, measured_at=now)
        logger.info("throttle.counted", extra={"site": site.pk, "advertised": state.advertised, "room": state.room})
    return _has_room(site, state, now=now)


def _has_room(site: Site, state: ThrottleState | None, *, now: datetime) -> bool:
    if site.throttle_policy == ThrottlePolicy.NONE:
        return True
    return state is not None and state.expires_at > now and (state.room is None or state.matched < state.room)


_NO_THROTTLE = ThrottleStanding(
    policy=ThrottlePolicy.NONE,
    accepting=True,
    room_left=None,
    cur_matches=None,
    matched=0,
    advertised_at=None,
    measured_at=None,
    expires_at=None,
    is_expired=False,
    counts_itself=False,
    why_closed="",
)


def _locked(site_id: int) -> tuple[Site, ThrottleState, bool]:
    """Return the site, its throttle's state, locked, and whether the state is new."""
    state = _lock_state(site_id)
    if state is None:
        # Locked like this, the site's throttle stays as it is: a change would find no state to change.
        Site.objects.select_for_update(of=("self",), no_key=True).get(pk=site_id)
        state = _lock_state(site_id)
    # Read under the lock: a change of the throttle changes its state in the same transaction.
    site = Site.objects.get(pk=site_id)
    if state is not None:
        return site, state, False
    return site, ThrottleState(site=site, version=0), True


def _lock_state(site_id: int) -> ThrottleState | None:
    return ThrottleState.objects.filter(pk=site_id).select_for_update(of=("self",), no_key=True).first()


def _begin(site: Site, state: ThrottleState, *, measured_at: datetime) -> None:
    state.measured_at = measured_at
    state.expires_at = expiry_of(site, state)
    state.room = throttle_in(site, state).room
    state.version += 1
    state.save()


def _standing(site: Site, state: ThrottleState, *, now: datetime) -> ThrottleStanding:
    return throttle_of(site, state, now=now) or _NO_THROTTLE


def _matches_since(site: Site, moment: datetime) -> int:
    """Return the number of jobs leased to pilots at the site after *moment*, also of leases that have ended."""
    queues = Queue.objects.filter(ce__site=site)
    # A pilot without a queue is known only by its site; then the job has the site of its last match.
    of_job = Q(queue__isnull=True) & Exists(Job.objects.filter(pk=OuterRef("job_id"), site=site))
    later = Match.objects.filter(Q(queue__in=queues) | of_job, leased_at__gt=moment)
    # Uses index: match_open, match_ended. What was leased after the moment is open, or ended after it.
    is_open = later.filter(ended_at__isnull=True)
    ended = later.filter(ended_at__gt=moment)
    return is_open.count() + ended.count()
