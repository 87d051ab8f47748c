"""Events of a configuration file for the security log: names of keys, never values that may be secrets."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.configuration.plan import Plan, StoredConfiguration
from wms.configuration.sections import AnyChange, AnySection
from wms.kernel.log_lines import changed_names

#: Kind of event of a changed key, by the noun of its section; other changes are only counted.
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


def record_changes(new_plan: Plan, *, database: StoredConfiguration) -> None:
    """Write one event for the file, and one for each change of rights, computing elements and storage elements."""
    if not new_plan.differences:
        return
    labels = [f"{'+' if change.is_new else '~'}{_label(section, change)}" for section, change in new_plan.changes]
    record(SecurityEventKind.CONFIGURATION_APPLIED, target="configuration file", changes=len(labels), objects=labels)
    for section, change in new_plan.changes:
        changed = dict(_kinds_of(section, change, database=database))
        for kind in dict.fromkeys(changed.values()):
            keys = sorted(key for key, of_kind in changed.items() if of_kind is kind)
            what = "added" if change.is_new else "changed"
            record(kind, target=_label(section, change), what=what, changes=_shown(section, change, keys))


def _kinds_of(
    section: AnySection, change: AnyChange, *, database: StoredConfiguration
) -> Iterator[tuple[str, SecurityEventKind]]:
    kinds = _KINDS.get(section.record.noun, {})
    for key in change.changed:
        if section is database.users and key == "suspended":
            if change.entry.suspended or not change.is_new:
                suspended = change.entry.suspended
                yield key, SecurityEventKind.USER_SUSPENDED if suspended else SecurityEventKind.USER_RESTORED
        elif section is database.users and change.is_new:
            yield key, SecurityEventKind.USER_ADDED
        elif key in kinds:
            yield key, kinds[key]


def _label(section: AnySection, change: AnyChange) -> str:
    return f"{section.record.noun} {'/'.join(change.identity)}"


def _shown(section: AnySection, change: AnyChange, keys: list[str]) -> dict[str, object]:
    stored = section.entries.get(change.identity)
    return {key: _change_of(getattr(stored, key, None), getattr(change.entry, key)) for key in keys}


def _change_of(before: object, after: object) -> object:
    if isinstance(after, bool):
        return after
    names = changed_names(before, after)
    return "changed" if names is None else names
