"""Limits as people and programs write them: who may, what is wrong with one, and its entry in the logs."""

from collections.abc import Collection, Iterator
from typing import Final, Literal

from django.db.models import Q, QuerySet

from resources.queries.rights import sites_serving_only
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words
from taskqueues.services.consequences import of_stored_limits
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.kernel.consequences import require_confirmed
from wms.kernel.db import transaction_required
from wms.kernel.names import change_in_words

#: Fields of the scope; a limit must have one of them, also in the configuration file.
SCOPE: Final = ("vo", "site", "ce", "group", "user", "job_type")
#: Fields of the bounds; the last belongs to the one before it.
BOUNDS: Final = ("running", "waiting", "cpu_s_per_day", "delay_s", "burst")


def managed_by(vos: frozenset[int]) -> Q:
    """Return the condition of the limits that concern only these VOs, which their managers change."""
    sites = sites_serving_only(vos)
    return Q(vo__in=vos) | Q(group__vo__in=vos) | Q(site__in=sites) | Q(ce__site__in=sites)


def mistakes_in(
    limit: Limit, *, managed_vos: frozenset[int] | None, but: Limit | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (field, sentence) for what is wrong with a limit before it is stored; "" is the limit as a whole.

    Args:
        limit: new, or with other values than the stored one; the rows that it names are loaded.
        managed_vos: of the manager who writes it; None: an operator, who may limit anybody.
        but: a stored one that it may repeat.
    """
    site, ce, vo, group = limit.site, limit.ce, limit.vo, limit.group
    if limit.waiting is not None and (site or ce):
        yield "waiting", "A limit of waiting jobs has no site and no CE; leave both out, or limit running jobs."
    if site and ce and ce.site_id != site.pk:
        yield "ce", f"The CE is not at {site}; choose a CE of this site, or leave the site out."
    if vo and group and group.vo_id != vo.pk:
        yield "group", f"The group belongs to {group.vo}; choose a group of {vo}, or leave the VO out."
    if not any(getattr(limit, name) for name in SCOPE):
        yield "", "Choose at least one of VO, site, CE, group, user and job type."
    if limit.burst is not None and limit.delay_s is None:
        yield "burst", "A burst requires a delay; give the delay."
    others = of_same_scope(limit) if but is None else of_same_scope(limit).exclude(pk=but.pk)
    yield from _duplicates(limit, others=others)
    site = site or (ce.site if ce else None)
    is_managed = vo or group or (site and sites_serving_only(managed_vos or frozenset()).filter(pk=site.pk).exists())
    if managed_vos is not None and not is_managed:
        yield "", "Choose a VO or a group of yours, or a site that serves no other VO."


def of_same_scope(limit: Limit) -> QuerySet[Limit]:
    """Return the other limits on the same jobs."""
    return Limit.objects.exclude(pk=limit.pk).filter(**{name: getattr(limit, name) for name in SCOPE})


def _duplicates(limit: Limit, *, others: QuerySet[Limit]) -> Iterator[tuple[str, str]]:
    """Yield second bounds of one kind on one scope, of which only the smaller would count."""
    for name in BOUNDS[:-1]:
        other = others.filter(**{f"{name}__isnull": False}).first() if getattr(limit, name) is not None else None
        if other is not None:
            yield name, f"Limit {other.pk} bounds this for the same scope; change or delete that one."


@transaction_required
def save_limit(limit: Limit, *, confirmed: Collection[str], by: User) -> None:
    """Store a new limit, or other bounds of a stored one.

    Args:
        limit: without mistakes.
        confirmed: sentences of consequences that are meant.
        by: the acting user.

    Raises:
        ConfirmationNeededError: it stops jobs at once, and that is not confirmed; the caller's transaction must end.
    """
    before = Limit.objects.filter(pk=limit.pk).select_for_update().first()
    limit.save()
    sentences = require_confirmed(of_stored_limits(Limit.objects.filter(pk=limit.pk))[limit.pk], confirmed)
    changes: dict[str, object] = {
        name: change_in_words(getattr(before, name, None), getattr(limit, name))
        for name in BOUNDS
        if getattr(before, name, None) != getattr(limit, name)
    }
    if sentences:
        changes["confirmed"] = [f"+{sentence}" for sentence in sentences]
    _log(limit, "added" if before is None else "changed", changes, by=by)


@transaction_required
def delete_limit(limit: Limit, *, by: User) -> None:
    """Remove a limit."""
    _log(limit, "deleted", {}, by=by)
    limit.delete()


def _log(limit: Limit, what: Literal["added", "changed", "deleted"], changes: dict[str, object], *, by: User) -> None:
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=name_of(limit), row=limit, what=what, changes=changes)


def name_of(limit: Limit) -> str:
    """Return the name of a limit in the history, such as "limit 5 on the VO lhcb"."""
    return f"limit {limit.pk} on {limit_in_words(limit)}"
