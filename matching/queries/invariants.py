"""Invariants of a live system, each a query for the rows that violate it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isclose
from types import MappingProxyType

from django.db.models import Count, Exists, F, Func, IntegerField, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import ThrottleState
from taskqueues.models import Limit, LimitSlot, QueuedJob, TaskQueue
from taskqueues.queries import limits_on_matches, shares_in_effect, with_counts
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, JobHistory, OutputTail, StoredDescription, UsageSamples
from wms.jobs.sql.counts import wrong_job_counts
from wms.jobs.sql.sandboxes import wrong_stored_bytes

#: A priority may be one recalculation old; a larger difference is an error.
PRIORITY_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One violation: the invariant and the row."""

    invariant: str
    row: str


def _waiting_jobs_are_in_a_task_queue() -> Iterable[object]:
    queued = QueuedJob.objects.filter(job_id=OuterRef("pk"))
    return Job.objects.filter(~Exists(queued), status=JobStatus.WAITING)


def _queued_jobs_are_waiting() -> Iterable[object]:
    waiting = Job.objects.filter(pk=OuterRef("job_id"), status=JobStatus.WAITING)
    return QueuedJob.objects.filter(~Exists(waiting))


def _queued_jobs_have_their_owner_and_priority() -> Iterable[object]:
    theirs = Job.objects.filter(
        pk=OuterRef("job_id"),
        owner=OuterRef("task_queue__owner"),
        group=OuterRef("task_queue__group"),
        priority=OuterRef("user_priority"),
    )
    return QueuedJob.objects.filter(~Exists(theirs))


def _held_jobs_have_an_open_lease() -> Iterable[object]:
    lease = Match.objects.filter(job=OuterRef("pk"), ended_at__isnull=True)
    return Job.objects.filter(~Exists(lease), status__in=LEASED)


def _open_leases_are_on_jobs_that_are_held_or_being_stopped() -> Iterable[object]:
    stopping = {JobStatus.KILLED, JobStatus.RESCHEDULED, JobStatus.DELETED}
    return Match.objects.filter(ended_at__isnull=True).exclude(job__status__in=LEASED | stopping)


def _pilots_that_matched_are_flagged() -> Iterable[object]:
    matched = Match.objects.filter(pilot=OuterRef("pk"))
    return Pilot.objects.filter(Exists(matched), Q(matched_at__isnull=True) | Q(status=PilotStatus.SUBMITTED))


def _limits_count_the_jobs_that_pilots_hold() -> Iterator[Limit]:
    counted = Func(F("pk"), function="wms_held_jobs", output_field=IntegerField())
    for limit in with_counts(limits_on_matches()).filter(running__isnull=False).annotate(really=counted):
        if vars(limit)["held"] != vars(limit)["really"]:
            yield limit


def _counters_of_limits_are_complete() -> Iterable[object]:
    parts = LimitSlot.objects.filter(limit=OuterRef("pk")).order_by().values("limit").annotate(sum=Sum("part"))
    # A limit that is not on running jobs has no counters; a limit of 0 has one.
    whole = limits_on_matches().annotate(
        parts=Coalesce(Subquery(parts.values("sum")), -1, output_field=IntegerField()), expected=Coalesce("running", -1)
    )
    return whole.filter(~Q(parts=F("expected")) | Q(count=None))


def _throttles_count_every_match() -> Iterable[object]:
    # A match that waited for the lock while the site advertised counts after it, though it began before.
    since = Match.objects.filter(leased_at__gt=OuterRef("measured_at")).order_by()
    of_queue = since.filter(queue__ce__site=OuterRef("pk")).values("queue__ce__site")
    # A pilot without a queue is known only by its site; its job has the site while it is leased.
    of_job = since.filter(queue=None, ended_at=None, job__site=OuterRef("pk")).values("job__site")
    counted = (
        Coalesce(Subquery(matches.annotate(many=Count("pk")).values("many")), 0) for matches in (of_queue, of_job)
    )
    return ThrottleState.objects.annotate(many=sum(counted, Value(0))).filter(many__gt=F("matched"))


def _priorities_add_up_to_the_groups_share() -> Iterator[Group]:
    sums: dict[int, float] = dict(
        TaskQueue.objects.with_jobs().values_list("group").annotate(total=Sum("priority")).order_by("group")
    )
    # A share is not divided if every owner is suspended or has left.
    divided = frozenset(TaskQueue.objects.with_jobs().trusted().values_list("group", flat=True))
    groups = list(Group.objects.filter(pk__in=sums).select_related("vo"))
    shares = shares_in_effect(groups)
    for group in groups:
        share = shares[group.pk] if group.pk in divided else 0.0
        if not isclose(sums[group.pk], share, rel_tol=PRIORITY_TOLERANCE):
            yield group


def _job_counts_are_those_of_the_jobs() -> Iterator[str]:
    if wrong := wrong_job_counts():
        yield f"{wrong} counts; run `wms-server recount_jobs`"


def _stored_bytes_are_those_of_the_uploads() -> Iterator[str]:
    yield from (f"those of user {owner_id}" for owner_id in wrong_stored_bytes())


def _tails_and_samples_are_of_attempts_that_were_made() -> Iterator[object]:
    yield from OutputTail.objects.filter(attempt__gt=F("job__reschedules"))
    yield from UsageSamples.objects.filter(attempt__gt=F("job__reschedules"))


def _jobs_have_their_descriptions() -> Iterable[object]:
    return Job.objects.filter(~Exists(StoredDescription.objects.filter(pk=OuterRef("stored_description_id"))))


def _histories_and_leases_are_of_jobs_that_exist() -> Iterator[str]:
    exists = Exists(Job.objects.filter(pk=OuterRef("job_id")))
    for name, rows in (("history", JobHistory.objects), ("leases", Match.objects)):
        of_none = rows.filter(~exists).order_by().values_list("job_id", flat=True).distinct()
        yield from (f"the {name} of job {job_id}" for job_id in of_none)


#: {invariant, as a sentence: the rows that violate it}.
INVARIANTS: Mapping[str, Callable[[], Iterable[object]]] = MappingProxyType(
    {
        "A waiting job is in a task queue": _waiting_jobs_are_in_a_task_queue,
        "A job in a task queue is waiting": _queued_jobs_are_waiting,
        "A job is in a task queue of its owner and group, at its priority": (
            _queued_jobs_have_their_owner_and_priority
        ),
        "A job that a pilot holds has an open lease": _held_jobs_have_an_open_lease,
        "An open lease is on a job that is held, or is being stopped": (
            _open_leases_are_on_jobs_that_are_held_or_being_stopped
        ),
        "A pilot that got a job is flagged": _pilots_that_matched_are_flagged,
        "A limit counts the jobs that pilots hold": _limits_count_the_jobs_that_pilots_hold,
        "The counters of a limit are complete": _counters_of_limits_are_complete,
        "A throttle counts every match": _throttles_count_every_match,
        "The counts of jobs are those of the jobs": _job_counts_are_those_of_the_jobs,
        "The bytes that a user has stored are those of the user's uploads": _stored_bytes_are_those_of_the_uploads,
        "Tails and samples are of attempts that jobs have made": _tails_and_samples_are_of_attempts_that_were_made,
        "A job has its description": _jobs_have_their_descriptions,
        "Histories and leases are of jobs that exist": _histories_and_leases_are_of_jobs_that_exist,
        "The priorities of a group's queues add up to its share": _priorities_add_up_to_the_groups_share,
    }
)


def violations() -> Iterator[Violation]:
    """Yield every violation; none on a correct system.

    Each query is one statement, so that it sees changes whole or not at all; priorities of a group may be one second
    behind after one of its task queues was added or removed.
    """
    for invariant, exceptions in INVARIANTS.items():
        for row in exceptions():
            yield Violation(invariant=invariant, row=str(row))
