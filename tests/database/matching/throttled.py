"""Advertisements, leases and throttles of a site, for tests of its throttle."""

from datetime import timedelta

from django.db import transaction

from matching.models import Match
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import Advertisement, of_numbers
from resources.models import Site, ThrottleState
from resources.services.throttles import recompute
from tests.factories import (
    make_ce,
    make_job,
    make_match,
    make_queue,
)
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now


def numbers(
    submitting: int = 0, gathering: int = 0, current: int = 0, *, sequence: int | None = None, ago_s: float = 0
) -> Advertisement:
    said = {SUBMITTING: submitting, GATHERING: gathering, CURRENT: current}
    return of_numbers(said, sequence=sequence, measured_s_ago=ago_s)


def state_of(site: Site) -> ThrottleState:
    return ThrottleState.objects.get(site=site)


def lease_at(site: Site, *, ended_s_ago: float | None = None, **ago: float) -> Match:
    """Return a lease at a queue of the site, made this long ago by the database's clock."""
    now = database_now()
    queue = make_queue(ce=make_ce(site=site))
    match = make_match(
        job=make_job(status=JobStatus.RUNNING, site=site, queue=queue),
        leased_at=now - timedelta(**ago),
        ended_at=None if ended_s_ago is None else now - timedelta(seconds=ended_s_ago),
    )
    match.queue = queue
    match.save()
    return match


def configure(site: Site, **fields: object) -> None:
    with transaction.atomic():
        for name, value in fields.items():
            setattr(site, name, value)
        site.save()
        recompute(site)
