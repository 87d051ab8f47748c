"""The jobs that a ban, drain or downtime of a place concerns, before it is decided (ADR 105)."""

from django.db.models import Q, Sum

from matching.models import Match
from resources.models import ComputingElement, Queue, Site
from resources.services.states import full_name
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.consequences import jobs_in_words
from wms.jobs.models import CurrentSiteJobCount
from wms.jobs.models.jobs import LEASED_STATUSES
from wms.kernel.consequences import Consequence


def of_closing(place: Site | ComputingElement | Queue) -> Consequence:
    """Return what it stops when a place takes no further jobs: those that wait and can run nowhere else."""
    waiting = waiting_only_at(place)
    extent = (
        f"{jobs_in_words(running_at(place), 'run')} there; {jobs_in_words(waiting, 'wait')} that can run nowhere else."
    )
    return Consequence(sentence=f"No further job starts at {full_name(place)}.", extent=extent, is_felt=bool(waiting))


def waiting_only_at(place: Site | ComputingElement | Queue) -> int:
    """Return the number of waiting jobs that can run nowhere else."""
    return QueuedJob.objects.filter(task_queue__in=TaskQueue.objects.filter(_require(place))).count()


def running_at(place: Site | ComputingElement | Queue) -> int:
    """Return the number of jobs that pilots hold at a place."""
    if isinstance(place, Site):
        # Uses index: job_count_of_site
        leased = CurrentSiteJobCount.objects.filter(site=place, status__one_of=LEASED_STATUSES)
        return int(leased.aggregate(sum=Sum("jobs"))["sum"] or 0)
    # Uses index: match_open
    at_place = {"queue" if isinstance(place, Queue) else "queue__ce": place}
    return Match.objects.filter(ended_at__isnull=True, **at_place).count()


def _require(place: Site | ComputingElement | Queue) -> Q:
    """Return the condition of the task queues that name the place alone.

    They name sites and CEs, no queues: the only queue of a CE stands for it, and the only CE of a site for the site.
    """
    match place:
        case Site():
            return Q(sites=[place.name])
        case ComputingElement():
            is_alone = not place.site.ces.exclude(pk=place.pk).exists()
            return Q(grid_ces=[place.name]) | (_require(place.site) if is_alone else Q(pk=None))
    return Q(pk=None) if place.ce.queues.exclude(pk=place.pk).exists() else _require(place.ce)
