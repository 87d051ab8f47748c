"""Jobs found and counted by what the jobs of their submission have in common (ADR 59).

Most jobs of a submission share label and type, and their names differ in a number at the end. Of most submissions it
is therefore known, without a look at jobs, that all of their jobs match or that none does; the others are undecided.
Of a submission whose jobs differ, few labels and stems of names are known: that none matches is then mostly known, too.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import reduce
from itertools import groupby
from operator import and_, itemgetter, or_
from string import digits
from typing import Final

from django.core.validators import EMPTY_VALUES
from django.db.models import (
    BooleanField,
    CharField,
    Count,
    Exists,
    Expression,
    ExpressionWrapper,
    F,
    Func,
    Max,
    Min,
    Model,
    Q,
    QuerySet,
    Sum,
    Value,
)
from django.db.models.functions import Concat
from django.db.models.lookups import In

from wms.accounts.models import VO, Group, User
from wms.jobs.models import (
    CurrentContentJobCount,
    Job,
    JobCountChange,
    JobQuerySet,
    NameRest,
    OwnedQuerySet,
    SubmissionContent,
    SubmissionJobCount,
)
from wms.jobs.queries.filtering import JobFilters, field_of
from wms.jobs.sql.lists import CountRow
from wms.kernel.db import Like

#: Fields of a job in which those of a submission may be equal, except the time.
COMMON: Final = frozenset({"job_type", "job_group", "job_name"})
#: Fields of a job that submissions with their contents and counters tell.
TOLD: Final = COMMON | {"submitted_at", "submission", "status", "exit_code", "owner", "group", "vo"}


def may_match(filters: JobFilters, *, by: User) -> OwnedQuerySet[SubmissionContent]:
    """Return the submissions, visible to *by*, that may have jobs which match, as far as their contents tell."""
    return _of_filters(filters, by=by).filter(_some_may_match(filters))


def most_jobs(filters: JobFilters, *, by: User) -> int:
    """Return a number that the jobs of the submissions of ``may_match`` do not exceed."""
    ids = may_match(filters, by=by).aggregate(number=Sum(F("last_job_id") - F("first_job_id") + 1))
    return int(ids["number"] or 0)


def counts(filters: JobFilters, columns: Sequence[str], *, by: User) -> Iterator[CountRow]:
    """Yield the numbers of the filtered jobs visible to *by*: values of *columns*, which give the order, and number.

    The filters and *columns* are of fields in TOLD.
    """
    all_match, some_undecided = _all_match(filters), reduce(or_, (each for _, each in _conditions(filters)), Q())
    if "job_type" in columns:
        all_match, some_undecided = all_match & Q(job_type__isnull=False), some_undecided | Q(job_type__isnull=True)
    counted = filters.filter_queryset(CurrentContentJobCount.objects.all(), but=COMMON)
    counted = counted.filter(_visible_to(by)).filter(all_match)
    undecided = may_match(filters, by=by).filter(some_undecided)
    rows = filters.filter_queryset(Job.objects.all()).visible_to(by)
    # Uses index: job_of_submission
    rows = rows.filter(submission__in=undecided.values("pk")) if some_undecided else rows.none()
    numbers = counted.values_list(*columns).annotate(count=Sum("jobs"))
    both: QuerySet[Model, CountRow] = numbers.union(rows.values_list(*columns).annotate(count=Count("pk")), all=True)
    for values, same in groupby(both.order_by(*columns), key=itemgetter(slice(len(columns)))):
        if number := sum(count for *_, count in same):
            yield (*values, number)


def decided(filters: JobFilters, *, by: User) -> QuerySet[SubmissionContent]:
    """Return the submissions of ``may_match``, with ``all_match``: whether it is known that all of their jobs match."""
    all_match = ExpressionWrapper(_all_match(filters), output_field=BooleanField())
    return may_match(filters, by=by).annotate(all_match=all_match)


def has_counted(filters: JobFilters, names: AbstractSet[str], *, submission: Expression) -> Q:
    """Return the condition that a submission may have jobs of the filtered status and exit code."""
    if not names & {"status", "exit_code"}:
        return Q()
    counted = filters.filter_queryset(SubmissionJobCount.objects.filter(submission=submission, jobs__gt=0))
    # Uses index: submission_job_count_is_one_row. What is not added to it yet may be anything.
    pending = JobCountChange.objects.values("submission_id")
    return Q(Exists(counted.values("pk"))) | Q(In(submission, pending))


def between(filters: JobFilters, jobs: JobQuerySet) -> JobQuerySet:
    """Return the jobs between the ids that those of the filtered times have: older and newer ones need not be read."""
    # Uses index: content_since
    ids = SubmissionContent.objects.filter(_some_may_match(filters)).aggregate(
        first=Min("first_job_id"), last=Max("last_job_id")
    )
    return jobs.none() if ids["first"] is None else jobs.filter(pk__range=(ids["first"], ids["last"]))


def _of_filters(filters: JobFilters, *, by: User) -> OwnedQuerySet[SubmissionContent]:
    contents = filters.filter_queryset(SubmissionContent.objects.all(), but=COMMON | {"submitted_at"})
    return contents.filter(_visible_to(by))


def _visible_to(actor: User) -> Q:
    """Return the condition of ``visible_to``, by values: the planner uses no index for alternatives of subqueries."""
    if actor.is_operator:
        return Q()
    # Uses index: content_of_owner, content_of_group
    sharing = Group.objects.sharing().filter(memberships__user=actor).values_list("pk", flat=True)
    managed = VO.objects.filter(managers=actor).values_list("pk", flat=True)
    return Q(owner=actor) | Q(group__in=list(sharing)) | Q(vo__in=list(managed))


def _all_match(filters: JobFilters) -> Q:
    """Return the condition of submissions all of whose jobs match."""
    return reduce(and_, (all_match for all_match, _ in _conditions(filters)), Q())


def _some_may_match(filters: JobFilters) -> Q:
    """Return the condition of submissions some of whose jobs may match."""
    return reduce(and_, (all_match | undecided for all_match, undecided in _conditions(filters)), Q())


def _conditions(filters: JobFilters) -> Iterator[tuple[Q, Q]]:
    """Yield, for each filter of what jobs may have in common, when all jobs match, and when some may."""
    for name, value in filters.form.cleaned_data.items():
        each = filters.filters[name]
        field = field_of(each)
        if value in EMPTY_VALUES:
            continue
        if field == "job_name":
            yield _by_pattern(value) if "*" in value else _by_name(value)
        elif field == "job_group":
            # Uses index: content_with_label, content_with_labels
            yield Q(job_group=value), Q(labels__contains=[value]) | Q(labels=[])
        elif field in COMMON or field == "submitted_at":
            # Uses index: content_since
            yield Q(**{f"{field}__{each.lookup_expr}": value}), Q(**{f"{field}__isnull": True})


def _by_name(name: str) -> tuple[Q, Q]:
    # Uses index: content_with_name, content_with_name_stems
    stem = name.rstrip(digits)
    exactly = Q(name_rest=NameRest.NOTHING, name_prefix=name)
    numbered = Q(name_rest=NameRest.DIGITS, name_prefix=stem) | Q(name_stems__contains=[stem])
    return exactly, numbered | Q(name_stems=[], name_prefix__in=_beginnings(name))


def _by_pattern(pattern: str) -> tuple[Q, Q]:
    # Uses index: content_with_name
    prefix_matches = Q(name_prefix__like=pattern)
    if pattern.endswith("*"):
        all_match, some_may = prefix_matches, ~prefix_matches
    else:
        all_match, some_may = prefix_matches & Q(name_rest=NameRest.NOTHING), Q()
    # What precedes the last digits of the pattern ends in the stem, which has no digits at its end.
    of_stem = pattern.rstrip(f"{digits}*") + "*"
    numbered = Q(name_rest=NameRest.DIGITS, name_prefix__like=of_stem)
    beginning = pattern.partition("*")[0]
    within = Q(name_prefix__like=f"{beginning}*") | Q(name_prefix__in=_beginnings(beginning))
    # One comparison with all stems, each in a line, takes a fraction of one with each; two lines may match together.
    stems = Concat(
        Value("\n"),
        Func(F("name_stems"), Value("\n"), function="array_to_string", output_field=CharField()),
        output_field=CharField(),
    )
    with_stem = Q(name_stems=[]) | Q(Like(stems, f"*\n{of_stem}"))
    return all_match, some_may & (numbered | (Q(name_rest=NameRest.ANYTHING) & within & with_stem))


def _beginnings(name: str) -> list[str]:
    return [name[:length] for length in range(len(name) + 1)]
