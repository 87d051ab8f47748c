"""The part of the configuration that one user changes by an uploaded file: what the administration lets the user edit.

What computing elements run is no part of it, nor is any secret (ADR 110).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from django.db.models import Model, QuerySet

from resources.models import ComputingElement, Queue, RequirementDefinition, Site, StorageElement
from resources.queries.rights import definitions_of_only, sites_serving, sites_serving_only
from resources.services.ce_rules import refusal_of_url_over_http
from taskqueues.models import Limit
from taskqueues.services.limits import managed_by
from wms.accounts.domain import GroupProperty
from wms.accounts.models import VO, Group, Membership, User
from wms.accounts.queries import is_above, is_in, is_only_in, managed_vos_of
from wms.configuration.entries import SectionEntry, as_written, keys_of
from wms.configuration.plan import StoredConfiguration
from wms.configuration.reading import Reading
from wms.configuration.resource_schema import QueueEntry, StorageElementEntry
from wms.configuration.schema import GroupEntry, UserEntry, VOEntry
from wms.configuration.sections import AnySection, Identity

#: Keys that no uploaded file has, by noun, and why.
_NEVER: Final[Mapping[str, tuple[frozenset[str], str]]] = MappingProxyType(
    {
        "ce": (
            frozenset({"type", "options", "identity"}),
            "decides what the computing element runs, which no uploaded file changes; leave it out",
        ),
        "user": (frozenset({"password"}), "is a secret, which no uploaded file has; leave it out"),
        "site": (frozenset({"tokens"}), "is a secret, which no uploaded file has; leave it out"),
        "storage element": (frozenset({"credential"}), "is a secret, which no uploaded file has; leave it out"),
    }
)
_OF_LEVELS: Final = frozenset({"status", "parameters", "vo_parameters"})
#: Keys that a manager changes, by noun; what is missing here is for operators.
_OF_MANAGERS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "vo": frozenset(keys_of(VOEntry)) - {"managers"},
        "group": frozenset(keys_of(GroupEntry)),
        "user": frozenset({"groups", "default_group", "suspended"}),
        "requirement definition": frozenset({"kind", "unit", "vos"}),
        "site": _OF_LEVELS | {"vos", "containers_provide_platforms", "throttle", "storage_elements", "ces"},
        "ce": _OF_LEVELS | {"middleware", "pilot_types", "setup", "queues"},
        "queue": frozenset(keys_of(QueueEntry)),
    }
)
#: The same in a new row.
_ADDED_BY_MANAGERS: Final = frozenset({"group", "requirement definition", "site", "queue"})
#: Lifts a limit.
_PRODUCTION: Final = GroupProperty.PRODUCTION
_NEW_CE: Final = "a new computing element needs a type, which decides what it runs; add it by `wms-server configure`"
#: Keys that name rows which a manager may not see: by noun and key, the noun of those rows.
_NAMING: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("user", "groups"): "group",
        ("site", "storage_elements"): "storage element",
        ("site", "vo_parameters"): "vo",
        ("ce", "vo_parameters"): "vo",
        ("queue", "vo_parameters"): "vo",
    }
)


class FileReach:
    """What *user* sees and changes by a file.

    Args:
        user: a manager of VOs, or an operator.
        database: the stored configuration.
        reading: takes the problems of the file.
    """

    def __init__(self, user: User, *, database: StoredConfiguration, reading: Reading | None = None) -> None:
        self._user = user
        self._database = database
        self._reading = reading
        #: {group that the file adds: its VO}.
        self._new_groups: dict[str, str] = {}
        #: None: an operator, who manages all.
        self.vos = managed_vos_of(user)

    # ---- Rows --------------------------------------------------------------------------------------------------------

    def has(self, section: AnySection, identity: Identity) -> bool:
        """Return whether the user may change a stored row."""
        row = section.rows.get(identity)
        return row is not None and (self.vos is None or row.pk in self._changeable.get(section.model, ()))

    def keys(self, section: AnySection, identity: Identity) -> frozenset[str]:
        """Return the keys that the file has of a row, stored or new."""
        noun, named_by = section.record.noun, section.record.named_by
        keys = frozenset(keys_of(section.record)) if self.vos is None else _OF_MANAGERS.get(noun, frozenset())
        keys -= _NEVER.get(noun, (frozenset(), ""))[0]
        row = section.rows.get(identity)
        if isinstance(row, User):
            if is_above(row, self._user) or (self.vos is not None and row.pk not in self._people_of_these_vos_only):
                keys &= {"groups"}
            elif not self._user.is_superuser:
                keys -= {"superuser"}
        return keys | {named_by}

    @cached_property
    def _changeable(self) -> Mapping[type[Model], frozenset[int]]:
        """The keys of the rows that the manager changes, by model."""
        vos = self.vos or frozenset()
        sites = sites_serving_only(vos)
        rows: Mapping[type[Model], QuerySet[Any]] = {
            VO: VO.objects.filter(pk__in=vos),
            Group: Group.objects.filter(vo__in=vos),
            User: User.objects.filter(is_in(vos)),
            RequirementDefinition: definitions_of_only(vos),
            Site: sites,
            ComputingElement: ComputingElement.objects.filter(site__in=sites),
            Queue: Queue.objects.filter(ce__site__in=sites),
            Limit: Limit.objects.filter(managed_by(vos)),
        }
        return {model: frozenset(found.values_list("pk", flat=True)) for model, found in rows.items()}

    @cached_property
    def _people_of_these_vos_only(self) -> frozenset[int]:
        return frozenset(User.objects.filter(is_only_in(self.vos or ())).values_list("pk", flat=True))

    # ---- Names -------------------------------------------------------------------------------------------------------

    def may_name(self, noun: str, name: str) -> bool:
        """Return whether the user may refer to a stored object."""
        return self.vos is None or name in self._names.get(noun, ())

    @cached_property
    def _names(self) -> Mapping[str, frozenset[str]]:
        vos = self.vos or frozenset()
        sites = sites_serving(vos)
        names: Mapping[str, Iterable[str]] = {
            "vo": VO.objects.filter(pk__in=vos).values_list("name", flat=True),
            "group": Group.objects.filter(vo__in=vos).values_list("name", flat=True),
            "user": User.objects.filter(is_in(vos)).values_list("username", flat=True),
            "storage element": StorageElement.objects.filter(vos__in=vos).values_list("name", flat=True),
            "site": sites.values_list("name", flat=True),
            "ce": ComputingElement.objects.filter(site__in=sites).values_list("name", flat=True),
        }
        return {noun: frozenset(each) for noun, each in names.items()}

    def is_limit_of_others(self, identity: Identity) -> bool:
        """Return whether a stored limit is not in the user's file: the user may not change it, or not see its jobs."""
        return not self.has(self._database.limits, identity) or not all(
            self.may_name(noun, name)
            for noun in ("vo", "site", "ce", "group", "user")
            if (name := getattr(self._database.limits.entries[identity].scope, noun)) is not None
        )

    # ---- Writing the file --------------------------------------------------------------------------------------------

    def written(self, section: AnySection, identity: Identity) -> dict[str, object] | None:
        """Return a stored row as the user's file has it, without the rows below; None: it has not."""
        if not self.has(section, identity):
            return None
        written, keys = as_written(self.shown(section, section.entries[identity])), self.keys(section, identity)
        return {key: value for key, value in written.items() if key in keys} if isinstance(written, dict) else None

    def shown(self, section: AnySection, entry: SectionEntry) -> SectionEntry:
        """Return an entry without the names that the user does not see."""
        for key, named in self._naming(section):
            entry = replace(entry, **{key: self._part(named, getattr(entry, key), seen=True)})
        return entry

    def _naming(self, section: AnySection) -> Iterator[tuple[str, str]]:
        """Yield the keys of a section that name rows which the user may not see, each with the noun of those rows."""
        if self.vos is not None:
            yield from ((key, named) for (noun, key), named in _NAMING.items() if noun == section.record.noun)

    def _part(self, noun: str, value: Any, *, seen: bool) -> Any:  # noqa: ANN401 - names, or values by name
        """Return the part of *value* whose names the user sees, or does not see."""
        names = [name for name in value if self.may_name(noun, name) == seen]
        return {name: value[name] for name in names} if isinstance(value, Mapping) else tuple(names)

    # ---- Reading the file --------------------------------------------------------------------------------------------

    def bounded(self, section: AnySection, identity: Identity, entry: SectionEntry) -> SectionEntry | None:
        """Return an entry of the file with what the user does not see of the row; None: it is refused, with a problem.

        NB: the sentences are the same for rows that the user does not see and for those that do not exist.
        """
        if any(self._is_closed(above, identity[:length]) for length, above in self._levels_above(identity)):
            return None  # the level above is refused
        refused = self._refusal(section, identity)
        if refused:
            self._refuse(entry, "", refused)
            return None
        stored: SectionEntry | None = section.entries.get(identity)
        keys = self.keys(section, identity)
        mistakes = [(key, _why(section.record.noun, key)) for key in entry.source.lines if key not in keys]
        mistakes += self._mistakes(section, identity, entry, stored)
        for key, sentence in mistakes:
            self._refuse(entry, key, sentence)
        if mistakes or entry.source.broken:
            return None
        if isinstance(entry, GroupEntry) and stored is None:
            self._new_groups[entry.name] = entry.vo
        for key, named in self._naming(section):
            if stored is not None and key in entry.source.lines:
                hidden, value = self._part(named, getattr(stored, key), seen=False), getattr(entry, key)
                both: Any = {**hidden, **value} if isinstance(value, Mapping) else tuple(sorted({*hidden, *value}))
                entry = replace(entry, **{key: both})
        return entry

    def _levels_above(self, identity: Identity) -> Iterator[tuple[int, AnySection]]:
        yield from zip(range(1, len(identity)), (self._database.sites, self._database.ces), strict=False)

    def _is_closed(self, section: AnySection, identity: Identity) -> bool:
        is_new_ce = section is self._database.ces and identity not in section.rows
        return is_new_ce or (identity in section.rows and not self.has(section, identity))

    def _refusal(self, section: AnySection, identity: Identity) -> str | None:
        """Return why the user may not have the row in the file; None: he may."""
        noun, is_new = section.record.noun, identity not in section.rows
        if self.has(section, identity):
            return None
        if noun == "ce" and is_new:
            return _NEW_CE
        if self.vos is None or (is_new and noun in _ADDED_BY_MANAGERS):
            return None
        if noun in _ADDED_BY_MANAGERS:
            return f"this {noun} is not yours to change, or its name is taken; leave it out, or choose another name"
        return f"you may change no {noun} of this name, nor add one; leave it out"

    def _mistakes(
        self, section: AnySection, identity: Identity, entry: SectionEntry, stored: SectionEntry | None
    ) -> Iterator[tuple[str, str]]:
        stated = entry.source.lines
        if isinstance(entry, StorageElementEntry) and "url" in stated:
            sentence = refusal_of_url_over_http(getattr(stored, "url", ""), entry.url)
            if sentence:
                yield "url", sentence.removesuffix(".")
        if self.vos is None:
            return
        if section.record.noun in {"site", "requirement definition"}:
            yield from _mistakes_in_vos(entry, stored)
        before = {*getattr(stored, "properties", ())}
        if isinstance(entry, GroupEntry) and "properties" in stated and _PRODUCTION in before ^ {*entry.properties}:
            yield "properties", f"only operators give or take {_PRODUCTION}"
        if isinstance(entry, UserEntry) and isinstance(stored, UserEntry) and "groups" in stated:
            yield from (
                ("groups", f"{entry.username} is not in the VO of {name} yet; invite by `wms admin member`")
                for name in sorted({*entry.groups} - {*stored.groups})
                if not self._is_in_vo_of(name, section.rows[identity])
            )

    def _is_in_vo_of(self, group: str, user: User) -> bool:
        row = self._database.groups.rows.get((group,))
        vo = row.vo.name if row is not None else self._new_groups.get(group)
        return Membership.objects.filter(user=user, group__vo__name=vo, group__vo__in=self.vos or ()).exists()

    def _refuse(self, entry: SectionEntry, key: str, sentence: str) -> None:
        if self._reading is not None:
            self._reading.problems.append(entry.remark(key, sentence))


def _why(noun: str, key: str) -> str:
    keys, sentence = _NEVER.get(noun, (frozenset(), ""))
    return sentence if key in keys else "this is not yours to change; leave it out"


def _mistakes_in_vos(entry: SectionEntry, stored: SectionEntry | None) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the VOs of a manager's row: an empty list would mean all."""
    vos = {*getattr(entry, "vos", ())}
    if stored is None and not vos:
        yield "vos", "name the VOs, of those that you manage: none would mean all"
    if stored is not None and "vos" in entry.source.lines and vos != {*getattr(stored, "vos", ())}:
        yield "vos", "only operators change the VOs; leave them as they are"
