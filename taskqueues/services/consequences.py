"""Consequences of limits, priorities and throttles: the jobs that they stop at once (ADR 105)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from resources.domain.enums import ThrottlePolicy
from resources.domain.parameters import folded_name
from resources.models import Site, ThrottleState
from resources.queries.known_names import requirement_names
from resources.queries.throttles import remarks_on, throttle_of
from taskqueues.models import Limit, SubmitPool
from taskqueues.queries import job_types_for, limit_in_words, waiting_in, waiting_only_in, with_counts
from wms.accounts.models import VO, Group
from wms.kernel.consequences import Consequence
from wms.kernel.names import counted, did_you_mean, listed

#: Likeness, 0 to 1, from which a name of a parameter is probably another one, mistyped.
_ALIKE: Final = 0.8

# ---- Limits ----------------------------------------------------------------------------------------------------------


def of_limit(limit: Limit) -> Sequence[Consequence]:
    """Return what a limit stops at once; for this it is written, so that its jobs are counted, and that is undone.

    Args:
        limit: valid; new, or with another scope or bound than the stored one.
    """
    with transaction.atomic():
        tried = copy(limit)
        tried.save()
        found = of_stored_limits(Limit.objects.filter(pk=tried.pk))[tried.pk]
        transaction.set_rollback(True)
    return found


def of_stored_limits(limits: QuerySet[Limit]) -> Mapping[int, Sequence[Consequence]]:
    """Return {primary key: what the limit stops now}; a delay stops nothing."""
    with_names = with_counts(limits).select_related("vo", "site", "ce", "group", "user")
    return {limit.pk: list(_of_counted(limit)) for limit in with_names}


def _of_counted(limit: Limit) -> Iterator[Consequence]:
    types = job_types_for(limit) if limit.job_type else []
    if types and limit.job_type not in types:  # in a new system no job waits at all
        sentence = f'No waiting job has the type "{limit.job_type}".{did_you_mean(limit.job_type, types)}'
        yield Consequence(sentence=sentence, extent="The limit is on nobody.", is_felt=False)
    held, used_s = vars(limit)["held"], vars(limit)["used_s"]
    is_full = limit.running is not None and held >= limit.running
    is_used_up = limit.cpu_s_per_day is not None and used_s >= limit.cpu_s_per_day
    if not (is_full or is_used_up or limit.waiting is not None):
        return  # how many jobs wait need not be counted
    has_place = limit.site is not None or limit.ce is not None
    number = waiting_only_in(limit) if has_place else waiting_in(limit)
    waiting = f"{jobs_in_words(number, 'wait')}{' that can run nowhere else' if has_place else ''}"
    the_limit = f"The limit on {limit_in_words(limit)}"
    if is_full:
        until = f" while {limit.running} or more of them run" if limit.running else ""
        yield Consequence(
            sentence=f"{the_limit} lets no job start{until}.",
            extent=f"{jobs_in_words(held, 'run')}; {waiting}.",
            is_felt=bool(held or number),
        )
    if is_used_up:
        until = f" until they have used less than {limit.cpu_s_per_day} s in 24 hours" if limit.cpu_s_per_day else ""
        yield Consequence(
            sentence=f"{the_limit} lets no job start{until}.",
            extent=f"Its jobs have used {used_s:.0f} s of CPU time; {waiting}.",
            is_felt=bool(number),
        )
    if limit.waiting is not None and number >= limit.waiting:
        until = f" while {limit.waiting} or more of them wait" if limit.waiting else ""
        yield Consequence(
            sentence=f"{the_limit} refuses every further job{until}.", extent=f"{waiting}.", is_felt=bool(number)
        )


def jobs_in_words(number: int, does: str) -> str:
    """Return the number of jobs and what they do, such as "1,102 jobs wait"."""
    return f"{counted(number, 'job')} {does}{'s' if number == 1 else ''}"


# ---- Priorities ------------------------------------------------------------------------------------------------------


def of_priority(group: Group) -> Sequence[Consequence]:
    """Return what the priority of a group stops: jobs of a group with 0 are never drawn (PRI)."""
    if group.priority:
        return ()
    number = waiting_in(Limit(group=group))
    sentence = f"No job of the group {group} starts: a priority of 0 gives it no share."
    return [Consequence(sentence=sentence, extent=f"{jobs_in_words(number, 'wait')}.", is_felt=bool(number))]


# ---- VOs of sites ----------------------------------------------------------------------------------------------------


def of_served(site: Site, *, before: Iterable[VO], after: Iterable[VO]) -> Iterator[Consequence]:
    """Yield what it stops when a site serves other VOs.

    Args:
        site: it is stored.
        before: the VOs that it served; empty: all.
        after: the VOs that it will serve; empty: all.
    """
    kept = {*after}
    served = {*before} or {*VO.objects.all()}
    for vo in sorted(served - kept if kept else (), key=str):
        if number := waiting_only_in(Limit(site=site, vo=vo)):
            yield Consequence(
                sentence=f"The site {site} no longer serves the VO {vo}.",
                extent=f"{jobs_in_words(number, 'wait')} that can run nowhere else.",
                is_felt=True,
            )


# ---- Parameters of places --------------------------------------------------------------------------------------------


def of_parameters(names: Collection[str], *, vos: Iterable[VO]) -> Iterator[Consequence]:
    """Yield the names of new parameters that are like a known name, and that nothing reads: probably mistakes.

    A name that is like no other is not one of them: later jobs may require it.

    Args:
        names: of parameters that a place did not have, which is not stored yet.
        vos: that the place serves, whose jobs read its parameters; empty: all.
    """
    if not names:
        return
    served = {*vos} or {*VO.objects.all()}
    required = SubmitPool.objects.filter(vo__in=served).values_list("requirements", flat=True)
    known = {str(name) for requirements in required for name in requirements}.union(*map(requirement_names, served))
    folded = {folded_name(name) for name in known}
    for name in sorted(names):
        hint = "" if folded_name(name) in folded else did_you_mean(name, known, cutoff=_ALIKE)
        if hint:
            yield Consequence(
                sentence=f'No definition, job or other place has the parameter "{name}".{hint}',
                extent="No job that waits reads it.",
                is_felt=True,
            )


# ---- Job types of queues and directors -------------------------------------------------------------------------------


def of_job_types(job_types: Sequence[str], *, whose: str, site: Site | None = None) -> Iterator[Consequence]:
    """Yield that no waiting job has a type that is taken; in a new system no job waits at all.

    Args:
        job_types: those that will be taken; empty: all.
        whose: who takes them, such as "the queue grid".
        site: of the queue; None: jobs for any site count.
    """
    types = job_types_for(Limit(site=site)) if job_types else []
    if types and not {*types} & {*job_types}:
        hint = did_you_mean(job_types[0], types)
        yield Consequence(
            sentence=f"No waiting job has a type that {whose} takes: {listed(job_types)}.{hint}",
            extent="It takes none of those that wait.",
            is_felt=False,
        )


# ---- Throttles -------------------------------------------------------------------------------------------------------


def closes(site: Site, *, now: datetime) -> str:
    """Return why the throttle of a site lets no job start there now; empty: it may let one.

    Args:
        site: with the settings that are asked about.
        now: the database's clock.
    """
    standing = throttle_of(site, _state_of(site), now=now)
    return "" if standing is None else standing.why_closed


def of_throttle(site: Site, *, was_open: bool, now: datetime) -> Iterator[Consequence]:
    """Yield what other settings of a site's throttle stop at once.

    Args:
        site: with the new settings.
        was_open: whether the throttle accepted matches with the old ones.
        now: the database's clock.
    """
    if was_open and (why := closes(site, now=now)):
        number = waiting_only_in(Limit(site=site))
        yield Consequence(
            sentence=f"The throttle closes the site {site} at once.",
            extent=f"{why} {jobs_in_words(number, 'wait')} that can run nowhere else.",
            is_felt=True,
        )


def of_expression(site: Site) -> Iterator[Consequence]:
    """Yield the names in a site's expression that nothing has, which may be meant: the site may advertise them."""
    if site.throttle_policy != ThrottlePolicy.CUSTOM:
        return  # no other policy evaluates it
    for remark in remarks_on(site.throttle_requirements, _state_of(site)):
        yield Consequence(
            sentence=f"The expression of the throttle: {remark}",
            extent="An expression that is not TRUE closes the site.",
            is_felt=True,
        )


def _state_of(site: Site) -> ThrottleState | None:
    return ThrottleState.objects.filter(site=site.pk).first()
