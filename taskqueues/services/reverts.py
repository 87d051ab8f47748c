"""Reverting a change: the former value, read from the history, is stored by the service that changes it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeAlias

from django.db.models import DateTimeField, FloatField, IntegerField, Model

from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.queries.rights import require_may_change
from resources.services.states import set_state
from resources.services.throttles import COLUMNS
from taskqueues.domain.limits import BOUNDS
from taskqueues.models import Limit
from taskqueues.services.limits import lock_limits, managed_by, mistakes_in, save_limit
from taskqueues.services.priorities import set_priority
from taskqueues.services.throttles import set_throttle
from wms.accounts.models import VO, ConfigurationChange, Group, Membership, User
from wms.accounts.queries import managed_vos_of
from wms.accounts.services.members import put_into_group, remove_from_group
from wms.accounts.services.pauses import set_pause
from wms.kernel.db import transaction_required
from wms.kernel.errors import ConflictError, ForbiddenError, RejectedError
from wms.kernel.log_lines import MASK, safe_text
from wms.kernel.names import change_in_words, in_full

#: What a change says beside the fields that it changed.
_REMARKS: Final = frozenset({"reason", "confirmed", "share"})
#: Types of rows by their classes, as events name them.
_GROUP, _SITE, _LIMIT, _VO = (model._meta.label_lower for model in (Group, Site, Limit, VO))
_PLACES: Final[Mapping[str, type[Site | ComputingElement | Queue]]] = {
    model._meta.label_lower: model for model in (Site, ComputingElement, Queue)
}
#: {fact about a state: its column}; they are set together, and so reverted together, as a pause is.
_STATE: Final = {"state": "state", "reason": "state_reason", "until": "state_until"}
_PAUSE: Final = ("paused_until", "pause_reason")
_MEMBERS: Final = "memberships"
#: Carries a revert out: reason, confirmed sentences, who, when.
_CarryOut: TypeAlias = Callable[[str, Collection[str], User, datetime], None]


class RevertError(ConflictError):
    """The change cannot be reverted: it is of another kind, its row is gone, or the value has changed since."""

    code = "cannot_revert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revert:
    """A change that can be reverted now."""

    #: What reverting it does, such as "priority: 6000 → 1000".
    words: str
    #: The reason that is proposed.
    reason: str
    carry_out: _CarryOut


# ---- Which changes have a revert -------------------------------------------------------------------------------------


def has_revert(*, row_type: str, what: object, changes: object) -> bool:
    """Return whether a change is of a kind that can be reverted, whatever has happened since.

    Args:
        row_type: of the row, such as "accounts.group".
        what: whether the row was "added", "changed" or "deleted"; None: changed.
        changes: by field.
    """
    return what in (None, "changed") and isinstance(changes, Mapping) and bool(_fields_of(row_type, changes))


def needs_fresh_log_in(change: ConfigurationChange) -> bool:
    """Return whether reverting the change needs a fresh log-in, as making it does: it is of a membership."""
    changes = change.facts.get("changes")
    return isinstance(changes, Mapping) and _MEMBERS in changes


def _fields_of(row_type: str, changes: Mapping[str, object]) -> Mapping[str, str]:
    """Return {name: column} of what is reverted together; empty: the change has no revert."""
    names = {*changes}
    if row_type in _PLACES and names and names <= _STATE.keys():
        return {name: _STATE[name] for name in names}
    names -= _REMARKS
    if row_type == _VO and names and names <= {*_PAUSE}:
        return {name: name for name in names}
    of_one_field = {_GROUP: {"priority", _MEMBERS}, _SITE: {*COLUMNS.values()}, _LIMIT: {*BOUNDS}}
    if len(names) != 1 or not names <= of_one_field.get(row_type, set()):
        return {}
    return {name: name for name in names if name != _MEMBERS or _member_in(changes[name])}


def _member_in(lines: object) -> str:
    """Return "+" or "-" and the name of the only user who was put into a group or taken from it; else nothing."""
    line = str(lines[0]) if isinstance(lines, list) and len(lines) == 1 else ""
    return line.partition(" in ")[0] if line[:1] in {"+", "-"} else ""


# ---- Reverting -------------------------------------------------------------------------------------------------------


@transaction_required
def reverted(change: ConfigurationChange, *, by: User) -> Revert:
    """Return what reverting a change does; until the transaction ends, nobody else changes the row.

    Args:
        change: that *by* sees.
        by: the acting user.

    Raises:
        RevertError: it has no revert, its row is gone, or the value has changed since.
        ForbiddenError: *by* may not change the row.
    """
    changes = change.facts.get("changes")
    if not has_revert(row_type=change.row_type, what=change.facts.get("what"), changes=changes):
        raise RevertError("A change of this kind has no revert; change the value back where it is set.")
    if change.row_type == _LIMIT:
        lock_limits()
    model: type[Model] = {_GROUP: Group, _LIMIT: Limit, _VO: VO, **_PLACES}[change.row_type]
    row = model._default_manager.select_for_update(of=("self",), no_key=True).filter(pk=change.row_id).first()
    if row is None:
        raise RevertError(f"The {change.target} is no longer there.")
    _require_right(row, by)
    fields = _fields_of(change.row_type, changes)
    if isinstance(row, Group) and _MEMBERS in fields:
        return _of_member(change, row, _member_in(changes[_MEMBERS]))
    former = {column: _former(str(changes[name]), row, column) for name, column in fields.items()}
    # The reason of a state or a pause is the one that is given now.
    shown = {name: column for name, column in fields.items() if name not in {"reason", "pause_reason"}} or fields
    words = "; ".join(f"{name}: {_between(getattr(row, column), former[column])}" for name, column in shown.items())
    return Revert(words=words, reason=_reason(change, row, former), carry_out=partial(_restore, row, former))


def _require_right(row: Model, by: User) -> None:
    match row:
        case Site():
            require_may_change(row, by)
            return
        case ComputingElement():
            require_may_change(row.site, by)
            return
        case Queue():
            require_may_change(row.ce.site, by)
            return
        case Limit():
            vos = managed_vos_of(by)
            may = vos is None or Limit.objects.filter(managed_by(vos), pk=row.pk).exists()
        case Group():
            may = VO.objects.managed_by(by).filter(pk=row.vo_id).exists()
        case _:
            may = VO.objects.managed_by(by).filter(pk=row.pk).exists()
    if not may:
        raise ForbiddenError("You may not change this; ask those who manage its VO, or an operator.")


def _of_member(change: ConfigurationChange, group: Group, member: str) -> Revert:
    was_added, username = member[0] == "+", member[1:]
    if Membership.objects.filter(group=group, user__username=username).exists() is not was_added:
        now = "no member any more" if was_added else "a member again"
        raise RevertError(f"{username} is {now}: nothing is left to revert.")

    def carry_out(reason: str, _confirmed: Collection[str], by: User, now: datetime) -> None:
        if was_added:
            remove_from_group(group, username, by=by, now=now, reason=reason)
        else:
            put_into_group(group, username, by=by, now=now, reason=reason)

    sign = "-" if was_added else "+"
    return Revert(
        words=f"{_MEMBERS}: {sign}{username} in {group}", reason=_reason(change, group, {}), carry_out=carry_out
    )


def _reason(change: ConfigurationChange, row: Model, former: Mapping[str, object]) -> str:
    """Return the proposed reason; of a state and a pause, which show theirs to everybody, it ends with the former."""
    shown = {*former} & {*_STATE.values(), *_PAUSE}
    column = "pause_reason" if isinstance(row, VO) else "state_reason"
    was = former.get(column, getattr(row, column)) if shown else ""
    return f"Reverts change {change.pk}{f': {was}' if was else ''}"


def _former(recorded: str, row: Model, column: str) -> Any:  # noqa: ANN401 - of the column
    """Return the value before a change.

    Args:
        recorded: what the history says, such as "1000 → 6000", or "6000" if there was no value.
        row: locked, as it is now.
        column: of the row.

    Raises:
        RevertError: the present value is not the one of the change, or the former one is not kept in full.
    """
    field = row._meta.get_field(column)
    now = safe_text(change_in_words(None, getattr(row, column)))
    if recorded == now:
        return None if field.null else ""
    if not recorded.endswith(f" → {now}"):
        raise RevertError(f"The value has changed since: it is {now} now.")
    before = recorded.removesuffix(f" → {now}")
    if before.endswith("…") or MASK in before or "\\" in before:
        raise RevertError("The history does not keep the former value in full; change it back where it is set.")
    match field:
        case FloatField():
            return float(before)
        case IntegerField():
            return int(before)
        case DateTimeField():
            return datetime.strptime(before, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    return before


def _between(now: object, former: object) -> str:
    return change_in_words(now, in_full(former) if isinstance(former, float) else former)


def _restore(
    row: Model, former: Mapping[str, Any], reason: str, confirmed: Collection[str], by: User, now: datetime
) -> None:
    match row:
        case Group():
            set_priority(row, priority=former["priority"], reason=reason, confirmed=confirmed, by=by, now=now)
        case Limit():
            for name, value in former.items():
                setattr(row, name, value)
            for _, sentence in mistakes_in(row, managed_vos=managed_vos_of(by)):
                raise RejectedError(sentence)
            save_limit(row, confirmed=confirmed, by=by, reason=reason)
        case VO():
            until = former.get("paused_until", row.paused_until)
            set_pause(row, until=until, reason=reason if until else "", by=by, now=now)
        case Site() if not former.keys() <= {*_STATE.values()}:
            settings = {name: former.get(column, getattr(row, column)) for name, column in COLUMNS.items()}
            set_throttle(row, settings=settings, confirmed=confirmed, by=by, reason=reason)
        case Site() | ComputingElement() | Queue():
            state = ResourceState(former.get("state", row.state))
            until = former.get("state_until", row.state_until)
            set_state(row, state=state, reason=reason, until=until, by=by, now=now)
