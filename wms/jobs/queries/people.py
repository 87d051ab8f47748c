"""Numbers of jobs by person, for those who manage people; no job is read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from wms.accounts.models import User
from wms.jobs.domain.accounting import Span
from wms.jobs.domain.lifecycle import LEASED
from wms.jobs.models import CurrentJobCount, JobBucket
from wms.jobs.queries.amounts import WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentJobs:
    """Numbers of jobs of a person now."""

    running: int = 0
    #: Also those that are held or checked.
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PastUsage:
    """The jobs of a person that ended within a time."""

    done: int = 0
    failed: int = 0
    #: Wall-clock time times processors.
    core_s: float = 0.0


def present_jobs(people: Collection[User], *, seen_by: User) -> Mapping[int, PresentJobs]:
    """Return the numbers of jobs of people by primary key, of those jobs that *seen_by* sees; who has none is left out.

    NB: the rows of the view are to be summed up.
    """
    # Uses index: job_count_is_one_row
    counts = CurrentJobCount.objects.visible_to(seen_by).filter(owner__in=[person.pk for person in people])
    sums = counts.values("owner").annotate(
        running=Coalesce(Sum("jobs", filter=Q(status__in=LEASED)), 0),
        waiting=Coalesce(Sum("jobs", filter=Q(status__in=WAITING)), 0),
    )
    return {each["owner"]: PresentJobs(running=int(each["running"]), waiting=int(each["waiting"])) for each in sums}


def past_usage(people: Collection[User], span: Span, *, seen_by: User) -> Mapping[int, PastUsage]:
    """Return what jobs of people used by primary key, of those jobs that *seen_by* sees; who used none is left out."""
    # Uses index: job_bucket_is_one_row. Each begin is named: between two of them are the rows of all people.
    buckets = JobBucket.objects.visible_to(seen_by).filter(
        width_s=span.width, begun_at__in=span.begins, owner__in=[person.pk for person in people]
    )
    sums = (
        buckets.order_by()
        .values("owner")
        .annotate(all_done=Sum("done"), all_failed=Sum("failed"), core_s=Sum("wall_s"))
    )
    return {
        each["owner"]: PastUsage(done=each["all_done"], failed=each["all_failed"], core_s=each["core_s"])
        for each in sums
    }
