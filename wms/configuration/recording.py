"""Events of a configuration file for the security log: one for the file, and one for each row and kind of change."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from django.db.models import Model, prefetch_related_objects

from resources.models import ComputingElement, Queue, Site
from resources.services.states import full_name
from taskqueues.models import Limit
from taskqueues.services.limits import name_of
from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.accounts.services.members import record_member
from wms.configuration.entries import as_written
from wms.configuration.plan import Plan, StoredConfiguration
from wms.configuration.sections import AnyChange, AnySection
from wms.kernel.names import changed_names, values_in_words

#: Kind of event of a changed key, by the noun of its section; of other keys it is CONFIGURATION_CHANGED.
_KINDS: Final[Mapping[str, Mapping[str, SecurityEventKind]]] = MappingProxyType(
    {
        "user": {
            **dict.fromkeys(("operator", "staff", "superuser", "groups", "dns"), SecurityEventKind.RIGHTS_CHANGED),
            "password": SecurityEventKind.PASSWORD_CHANGED,
        },
        "vo": {"managers": SecurityEventKind.RIGHTS_CHANGED},
        "group": {"properties": SecurityEventKind.RIGHTS_CHANGED},
        "ce": dict.fromkeys(("type", "options", "identity"), SecurityEventKind.COMPUTING_ELEMENT_CHANGED),
        "site": {"storage_elements": SecurityEventKind.STORAGE_ELEMENT_CHANGED},
        "storage element": dict.fromkeys(("url", "credential", "vos"), SecurityEventKind.STORAGE_ELEMENT_CHANGED),
    }
)
#: Keys whose values may be secrets, beside those that are: only their names, or that they changed, are recorded.
_PRIVATE: Final = frozenset({"options", "url"})
#: What a new row does not have.
_NOTHING: Final[tuple[object, ...]] = (None, "", [], {})
#: Keys that services record which the sections call.
_RECORDED_ELSEWHERE: Final = frozenset({"status", "tokens"})


def record_removals(new_plan: Plan, *, database: StoredConfiguration, door: str = "") -> None:
    """Write one event for each limit that will be removed; through which *door*, unless by a command."""
    for identity in new_plan.removed_limits:
        row = database.limits.rows[identity]
        record(SecurityEventKind.CONFIGURATION_CHANGED, target=_target(row), row=row, what="deleted", **_said_of(door))


def record_changes(new_plan: Plan, *, database: StoredConfiguration, door: str = "") -> None:
    """Write one event for the file, and one for each row that it has changed and kind of change.

    Args:
        new_plan: the changes, written.
        database: the stored configuration.
        door: through which the file came; empty: by a command, which the events name.
    """
    if not new_plan.differences:
        return
    labels = [f"{'+' if change.is_new else '~'}{_label(section, change)}" for section, change in new_plan.changes]
    kind = SecurityEventKind.CONFIGURATION_APPLIED
    record(kind, target="configuration file", changes=len(labels), objects=labels, **_said_of(door))
    _load_vos(new_plan)
    for section, change in new_plan.changes:
        row = section.rows[change.identity]
        changed = dict(_kinds_of(section, change, database=database))
        what = "added" if change.is_new else "changed"
        by_kind = {
            kind: sorted(key for key in changed if changed[key] is kind)
            for kind in [changed[key] for key in sorted(changed)]
        }
        shown = {kind: _shown(section, change, keys) for kind, keys in by_kind.items()}
        for kind in [kind for kind in shown if shown[kind]] or list(shown)[:1]:
            record(kind, target=_target(row), row=row, what=what, changes=shown[kind], **_said_of(door))
        if section is database.users and "groups" in change.changed:
            _record_members(section, change, database=database)


def _said_of(door: str) -> dict[str, Any]:
    return {"door": door} if door else {}


def _record_members(section: AnySection, change: AnyChange, *, database: StoredConfiguration) -> None:
    """Write to the history of each group that the user was put into or taken from it."""
    stored = section.entries.get(change.identity)
    (username,) = change.identity
    for name in changed_names(getattr(stored, "groups", None), change.entry.groups) or []:
        group = database.groups.rows[name[1:],]
        record_member(group, f"{name[0]}{username}")


def _load_vos(new_plan: Plan) -> None:
    """Read the VOs of all sites at once: a file may have twenty thousand queues."""
    for model, path in ((Site, "vos"), (ComputingElement, "site__vos"), (Queue, "ce__site__vos")):
        rows = [section.rows[change.identity] for section, change in new_plan.changes if section.model is model]
        prefetch_related_objects(rows, path)


def _kinds_of(
    section: AnySection, change: AnyChange, *, database: StoredConfiguration
) -> Iterator[tuple[str, SecurityEventKind]]:
    kinds = _KINDS.get(section.record.noun, {})
    for key in change.changed - _RECORDED_ELSEWHERE:
        if section is database.users and key == "suspended":
            if change.entry.suspended or not change.is_new:
                suspended = change.entry.suspended
                yield key, SecurityEventKind.USER_SUSPENDED if suspended else SecurityEventKind.USER_RESTORED
        elif section is database.users and change.is_new:
            yield key, SecurityEventKind.USER_ADDED
        elif section is not database.users or key in kinds:
            yield key, kinds.get(key, SecurityEventKind.CONFIGURATION_CHANGED)


def _label(section: AnySection, change: AnyChange) -> str:
    return f"{section.record.noun} {'/'.join(change.identity)}"


def _target(row: Model) -> str:
    """Return the name of a row in the security log, as through other doors."""
    if isinstance(row, Site | ComputingElement | Queue):
        return full_name(row)
    return name_of(row) if isinstance(row, Limit) else f"{row._meta.verbose_name} {row}"


def _shown(section: AnySection, change: AnyChange, keys: list[str]) -> dict[str, object]:
    stored = section.entries.get(change.identity)
    shown: dict[str, object] = {}
    for key in keys:
        before, after = as_written(getattr(stored, key, None)), as_written(getattr(change.entry, key))
        if stored is None and (after is False or after in _NOTHING):
            continue
        if key in section.record.secrets:
            shown[key] = "changed"
        elif before != after:
            has_values = section.record.noun != "user" and key not in _PRIVATE
            shown[key] = _change_of(before, after, has_values=has_values)
    return shown


def _change_of(before: object, after: object, *, has_values: bool) -> object:
    if isinstance(after, bool):
        return after
    if has_values:
        return values_in_words(before, after)
    names = changed_names(before, after)
    return "changed" if names is None else names
