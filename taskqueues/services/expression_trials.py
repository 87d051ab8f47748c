"""A site's expression, tried against its last advertisement and a waiting job before it is stored."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from resources.domain.classad import (
    ERROR,
    MAX_BYTES,
    UNDEFINED,
    ClassAd,
    ClassAdError,
    Value,
    evaluate,
    parse_expression,
)
from resources.domain.enums import ThrottlePolicy
from resources.domain.throttle_conditions import MAX_STEPS, NO_JOB, ThrottleCondition, flaw_of_expression
from resources.models import Site, ThrottleState
from resources.queries.throttles import remarks_on, throttle_in
from taskqueues.models import TaskQueue
from taskqueues.services.classads import SPELLED, as_classad

#: Names of an expression whose values are read, and characters of each value.
MOST_NAMES: Final = 30
MOST_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadName:
    """A name that an expression reads, and its value."""

    name: str
    #: Whose it is: "advertisement", "job", or empty: nobody's.
    whose: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedExpression:
    """The value of an expression with one advertisement."""

    #: Empty: the only one.
    gateway: str
    #: TRUE, FALSE, UNDEFINED, ERROR, or another value, which is not TRUE.
    value: str
    #: Whether jobs like the tried one start: it is TRUE, and the site has the numbers that the policy requires.
    lets_start: bool
    names: Sequence[ReadName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The result of a trial."""

    #: What is wrong with the text, with the place; empty: it is an expression.
    flaw: str = ""
    #: One for each gateway that has advertised.
    results: Sequence[TriedExpression] = ()
    #: Of the job: its owner and group; empty: none waits that the caller may see.
    job: str = ""
    #: None: the site has not advertised, or the server has counted since.
    advertised_at: datetime | None = None
    remarks: Sequence[str] = ()


def tried(requirements: str, *, site: Site, vo_ids: Collection[int] | None, now: datetime) -> Trial:
    """Return the value of an expression as the policy ``custom`` of a site would compute it now; nothing is stored.

    Args:
        requirements: the text, of any length.
        site: the site.
        vo_ids: VOs whose jobs the caller may see; None: all.
        now: the database's clock.
    """
    if len(requirements) > MAX_BYTES:
        return Trial(flaw=f"The expression is longer than {MAX_BYTES:,} characters; shorten it.")
    try:
        parse_expression(requirements)
    except ClassAdError as error:
        return Trial(flaw=str(error))
    state = ThrottleState.objects.filter(site=site).first()
    task_queue = _waiting_at(site, vo_ids)
    job = NO_JOB if task_queue is None else as_classad(task_queue)
    as_custom = copy(site)
    as_custom.throttle_policy, as_custom.throttle_requirements = ThrottlePolicy.CUSTOM, requirements
    throttle = throttle_in(as_custom, state or ThrottleState(site=site), now=now)
    conditions = throttle.conditions(matched=0 if state is None else state.matched)
    missing = [f"The site has no value of {name}, which the policy custom requires." for name in throttle.missing]
    flaw = flaw_of_expression(requirements)
    return Trial(
        results=[
            _result(condition, job, is_complete=not missing) for condition in conditions if not condition.is_advertised
        ],
        job="" if task_queue is None else f"{task_queue.owner} in {task_queue.group}",
        advertised_at=None if state is None else state.advertised_at,
        remarks=[
            *missing,
            *([f"It is {flaw}."] if flaw else []),
            *(f"{remark[0].upper()}{remark[1:]}" for remark in remarks_on(requirements, state)),
        ],
    )


def _waiting_at(site: Site, vo_ids: Collection[int] | None) -> TaskQueue | None:
    """Return the oldest task queue with jobs that could run at the site, of these VOs."""
    there = (Q(sites=[]) | Q(sites__contains=[site.name])) & ~Q(banned_sites__contains=[site.name])
    waiting = TaskQueue.objects.filter(there, priority__gt=0).with_jobs()
    if vo_ids is not None:
        waiting = waiting.filter(vo__in=vo_ids)
    if served := [vo.pk for vo in site.vos.all()]:
        waiting = waiting.filter(vo__in=served)
    return waiting.select_related("owner", "group", "vo").order_by("pk").first()


def _result(condition: ThrottleCondition, job: ClassAd, *, is_complete: bool) -> TriedExpression:
    value = _in_words("", condition, job)
    return TriedExpression(
        gateway=condition.gateway,
        value=value,
        lets_start=is_complete and value == "TRUE",
        names=list(_names(condition, job)),
    )


def _names(condition: ThrottleCondition, job: ClassAd) -> Iterator[ReadName]:
    reach, entries = condition.reach, condition.my.record.entries
    own = {name: entries[name].name for name in sorted(reach.own & entries.keys())}
    elsewhere = {name.lower().removeprefix("target."): name for name in sorted(reach.elsewhere)}
    nobodys = {name: f"MY.{name}" for name in sorted(reach.own - entries.keys() - elsewhere.keys())}
    for name in [*own, *elsewhere, *nobodys][:MOST_NAMES]:
        if name in own:
            yield ReadName(name=own[name], whose="advertisement", value=_in_words(f"MY.{name}", condition, job))
        elif name in job.record.entries:
            yield ReadName(name=SPELLED[name], whose="job", value=_in_words(f"TARGET.{name}", condition, job))
        else:
            yield ReadName(name=elsewhere.get(name) or nobodys[name], whose="", value="UNDEFINED")


def _in_words(text: str, condition: ThrottleCondition, job: ClassAd) -> str:
    """Return the value of a name, or (empty) of the condition itself."""
    try:
        expression = parse_expression(text) if text else condition.expression
        if expression is None:
            return "ERROR"
        value = evaluate(expression, my=condition.my, target=job, now=condition.now, max_steps=MAX_STEPS)
    except ClassAdError:
        return "not computed: it takes too long"
    words = _spelled(value)
    return words if len(words) <= MOST_CHARACTERS else f"{words[:MOST_CHARACTERS]}…"


def _spelled(value: Value) -> str:
    if value is UNDEFINED or value is ERROR:
        return "UNDEFINED" if value is UNDEFINED else "ERROR"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"{{{', '.join(map(_spelled, value))}}}"
    return "a record" if isinstance(value, Mapping) else str(value)
