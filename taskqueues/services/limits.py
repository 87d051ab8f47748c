"""Limits as people and programs write them: who may, what is wrong with one, and its entry in the logs."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from django.db.models import Q, QuerySet
from django.utils.text import capfirst

from resources.queries.rights import sites_serving_only
from taskqueues.domain.limits import BOUNDS, SCOPE, bounded_by_both, contradictions_in
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words
from taskqueues.services.consequences import of_stored_limits
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, Group, User
from wms.accounts.security_log import record
from wms.kernel.consequences import require_confirmed
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import NotFoundError
from wms.kernel.names import change_in_words


def managed_by(vos: frozenset[int]) -> Q:
    """Return the condition of the limits that concern only these VOs, which their managers change."""
    sites = sites_serving_only(vos)
    return Q(vo__in=vos) | Q(group__vo__in=vos) | Q(site__in=sites) | Q(ce__site__in=sites)


def nameable(user: User) -> Mapping[str, QuerySet[Any]]:
    """Return {field of the scope: rows that *user* may name in a limit}: own VOs, their groups and their members."""
    managed = VO.objects.managed_by(user)
    members = User.objects.all() if user.is_operator else User.objects.filter(memberships__group__vo__in=managed)
    return {
        "vo": managed,
        "group": Group.objects.filter(vo__in=managed).select_related("vo"),
        "user": members.distinct(),
    }


def mistakes_in(
    limit: Limit, *, managed_vos: frozenset[int] | None, but: Limit | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (field, sentence) for what is wrong with a limit before it is stored; "" is the limit as a whole.

    Args:
        limit: new, or with other values than the stored one; the rows that it names are loaded.
        managed_vos: of the manager who writes it; None: an operator, who may limit anybody. Of a limit that is not the
            manager's nothing else is said, because it could tell of limits that the manager does not see.
        but: a stored one that it may repeat.
    """
    site, ce, vo, group = limit.site, limit.ce, limit.vo, limit.group
    place = site or (ce.site if ce else None)
    is_managed = vo or group or (place and sites_serving_only(managed_vos or frozenset()).filter(pk=place.pk).exists())
    if managed_vos is not None and not is_managed:
        yield "", "Choose a VO or a group of yours, or a site that serves no other VO."
        return
    if site and ce and ce.site_id != site.pk:
        yield "ce", f"The CE is not at {site}; choose a CE of this site, or leave the site out."
    values = {name: getattr(limit, name) for name in (*SCOPE, *BOUNDS)}
    names = {name: value and str(value) for name, value in values.items() if name in SCOPE}
    for field, sentence in contradictions_in(values | names, vo_of_group=group.vo.name if group else None):
        yield field, f"{capfirst(sentence)}."
    for other in of_same_scope(limit) if but is None else of_same_scope(limit).exclude(pk=but.pk):
        for name in bounded_by_both(limit, other):
            yield name, f"Limit {other.pk} bounds this for the same scope; change or delete that one."


def of_same_scope(limit: Limit) -> QuerySet[Limit]:
    """Return the other limits on the same jobs; a CE stands for its site."""
    scope = {name: getattr(limit, name) for name in SCOPE if name != "site" or not limit.ce}
    return Limit.objects.exclude(pk=limit.pk).filter(**scope).order_by("pk")


@transaction_required
def lock_limits() -> None:
    """Wait for other changes of limits, before one is looked at to be added or changed; until the transaction ends.

    Else two equal requests would both find no limit, and each would add one.
    """
    lock(LockKey.SET_LIMITS)


@transaction_required
def save_limit(limit: Limit, *, confirmed: Collection[str], by: User, reason: str = "") -> None:
    """Store a new limit, or other bounds of a stored one; the present bounds change nothing.

    Args:
        limit: without mistakes; looked at below ``lock_limits``.
        confirmed: sentences of consequences that are meant.
        by: the acting user.
        reason: for the history; may be empty.

    Raises:
        NotFoundError: it has been deleted.
        ConfirmationNeededError: it stops jobs at once, and that is not confirmed; the caller's transaction must end.
    """
    before = _stored(limit) if limit.pk else None
    changes: dict[str, object] = {
        name: change_in_words(getattr(before, name, None), getattr(limit, name))
        for name in BOUNDS
        if getattr(before, name, None) != getattr(limit, name)
    }
    if before is None:
        limit.save(force_insert=True)
    elif changes:
        # By default an update that finds no row would insert one.
        limit.save(force_update=True, update_fields=BOUNDS)
    else:
        return
    sentences = require_confirmed(of_stored_limits(Limit.objects.filter(pk=limit.pk))[limit.pk], confirmed)
    if sentences:
        changes["confirmed"] = [f"+{sentence}" for sentence in sentences]
    if reason:
        changes["reason"] = reason
    _log(limit, "added" if before is None else "changed", changes, by=by)


@transaction_required
def delete_limit(limit: Limit, *, by: User) -> None:
    """Remove a limit.

    Raises:
        NotFoundError: it has been deleted.
    """
    stored = _stored(limit)
    bounds = {name: getattr(stored, name) for name in BOUNDS}
    changes: dict[str, object] = {
        name: change_in_words(value, None) for name, value in bounds.items() if value is not None
    }
    _log(limit, "deleted", changes, by=by)
    limit.delete()


def _stored(limit: Limit) -> Limit:
    stored = Limit.objects.select_for_update().filter(pk=limit.pk).first()
    if stored is None:
        raise NotFoundError(f"There is no limit {limit.pk}.")
    return stored


def _log(limit: Limit, what: Literal["added", "changed", "deleted"], changes: dict[str, object], *, by: User) -> None:
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    record(kind, actor=by, target=name_of(limit), row=limit, what=what, changes=changes)


def name_of(limit: Limit) -> str:
    """Return the name of a limit in the history, such as "limit 5 on the VO lhcb"."""
    return f"limit {limit.pk} on {limit_in_words(limit)}"
