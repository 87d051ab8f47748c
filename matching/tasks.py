"""Background work on leases; safe to run twice, late or never (the next run makes up for it)."""

from random import SystemRandom

from celery import shared_task
from django.utils import timezone

from matching.queries.restrictions import closings_now
from matching.services import accounting, avoided_places, black_holes, draining, expiry, limits
from pilots.services import director_cycle
from pilots.tasks import serve_soon
from wms.kernel.db import database_now


@shared_task(name="matching.expire_leases", ignore_result=True, acks_late=True)
def expire_leases() -> None:
    """Every 5 seconds: silent jobs become Stalled, leases that are over end (DESIGN §3.5)."""
    expiry.expire_leases()


@shared_task(name="matching.count_deliveries", ignore_result=True, acks_late=True)
def count_deliveries() -> None:
    """Every minute: what groups got, which shares follow where a VO says so (DESIGN §3.3)."""
    accounting.count_deliveries()


@shared_task(name="matching.sum_up_limits", ignore_result=True, acks_late=True)
def sum_up_limits() -> None:
    """Every minute: jobs that pilots no longer hold, and CPU time, towards limits (DESIGN §3.6)."""
    limits.sum_up()


@shared_task(name="matching.find_black_holes", ignore_result=True, acks_late=True)
def find_black_holes() -> None:
    """Every minute: nodes where jobs die fast get none for a while (DESIGN §3.7)."""
    black_holes.find_black_holes()


@shared_task(name="matching.review_avoided_places", ignore_result=True, acks_late=True)
def review_avoided_places() -> None:
    """Every 30 seconds: jobs avoid no place for others that can no longer take them (ADR 33)."""
    avoided_places.review(now=database_now())


@shared_task(name="matching.tell_drained_pilots", ignore_result=True, acks_late=True)
def tell_drained_pilots() -> None:
    """Every 5 seconds: pilots that are drained, and have jobs, hear of it with the next report on one of these."""
    draining.tell_drained_pilots(now=timezone.now())


@shared_task(name="matching.direct_pilots", ignore_result=True, acks_late=True)
def direct_pilots() -> None:
    """Each cycle of the directors: send pilots for what waits (PIL §2.3).

    Here, for directors send no more than throttles and limits leave, and the jobs at a site are counted here.
    """
    serve_soon(director_cycle.run_cycle(closings=closings_now, chance=SystemRandom(), now=timezone.now()))
