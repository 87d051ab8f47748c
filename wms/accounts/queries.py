"""Named reads of users and their groups."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from wms.accounts import sql
from wms.accounts.domain import FAILURE_WINDOW, WAITED_DEVICE_PREFIX, Failure, Standing, digest_of
from wms.accounts.models import (
    VO,
    ApiToken,
    ConfigurationChange,
    FailedLogIn,
    Group,
    Invitation,
    Membership,
    User,
    identity_of,
)
from wms.accounts.sql import Bearer


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A user's own account."""

    username: str
    dns: tuple[str, ...]
    groups: tuple[Group, ...]
    default_group: str | None
    managed_vos: tuple[str, ...]
    roles: tuple[str, ...]


def bearer_of(token: str, *, now: datetime) -> Bearer | None:
    """Return the user of *token*, or None if it is unknown, expired, revoked or its user suspended."""
    return sql.bearer_of(digest_of(token), now=now)


def open_invitations(user: User, *, now: datetime) -> QuerySet[Invitation]:
    """Return the invitations that *user* may accept or decline, the newest first."""
    return Invitation.objects.open_to(user, now=now).select_related("group__vo", "invited_by").order_by("-pk")


def live_tokens(user: User, *, now: datetime) -> QuerySet[ApiToken]:
    """Return the valid tokens of *user*."""
    return ApiToken.objects.live(now=now).filter(user=user)


def standings_of(user: User, *, now: datetime) -> list[Standing]:
    """Return the groups of *user*, the VOs that it manages, and the open invitations to it.

    If they were read with the user's session they are not read again, once.
    """
    if user.standings_read is None:
        return sql.standings_of(user.pk, now=now)
    read, user.standings_read = user.standings_read, None
    return read


def groups_of(user: User) -> tuple[Group, ...]:
    """Return the groups that *user* may act in, with their VOs, by name."""
    return tuple(Group.objects.filter(memberships__user=user).select_related("vo").order_by("name"))


def default_group_of(user: User, *, groups: tuple[Group, ...]) -> Group | None:
    """Return the group of a request of *user* that names none: the default one, or the only one.

    A default group that the user has left does not count.
    """
    for group in groups:
        if group.pk == user.default_group_id:
            return group
    return groups[0] if len(groups) == 1 else None


def is_member(user: User, group: Group) -> bool:
    """Return whether *user*, suspended or not, is a member of *group*."""
    return Membership.objects.filter(user=user, group=group).exists()


def memberships_among(pairs: Collection[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Return those of these (user, group), as primary keys, that are memberships; suspended users may be members."""
    users, groups = {user for user, _ in pairs}, {group for _, group in pairs}
    # Uses index: user_is_member_of_a_group_once
    return frozenset(Membership.objects.filter(user__in=users, group__in=groups).values_list("user_id", "group_id"))


def active_memberships(*, user_ids: Collection[int], group_ids: Collection[int]) -> frozenset[tuple[int, int]]:
    """Return (user, group), as primary keys, of those memberships whose user is not suspended."""
    return sql.active_memberships(user_ids=user_ids, group_ids=group_ids)


def is_manager(user: User) -> bool:
    """Return whether *user* manages at least one VO; an operator manages all."""
    return user.is_operator or user.managed_vos.exists()


def managed_vos_of(user: User) -> frozenset[int] | None:
    """Return the primary keys of the VOs that *user* manages; None: an operator, who manages everything."""
    return None if user.is_operator else frozenset(VO.objects.managed_by(user).values_list("pk", flat=True))


def groups_managed_by(user: User) -> QuerySet[Group]:
    """Return the groups of the VOs that *user* manages, with their VOs, by name."""
    return Group.objects.filter(vo__in=VO.objects.managed_by(user)).select_related("vo").order_by("name")


def profile_of(user: User) -> Profile:
    """Return the account of *user*."""
    groups = groups_of(user)
    default = default_group_of(user, groups=groups)
    managed = tuple(user.managed_vos.order_by("name").values_list("name", flat=True))
    roles = {"operator": user.is_operator, "manager": bool(managed)}
    return Profile(
        username=user.username,
        dns=tuple(user.dns.order_by("dn").values_list("dn", flat=True)),
        groups=groups,
        default_group=default.name if default else None,
        managed_vos=managed,
        roles=tuple(role for role, held in roles.items() if held),
    )


def recent_failures(*, name_digest: bytes, address: str, now: datetime) -> list[Failure]:
    """Return the failed log-ins, without a known device, that may delay the next one of this name or address."""
    # Uses index: failed_log_in_recent
    rows = FailedLogIn.objects.filter(
        Q(name_digest=name_digest) | Q(address=address),
        Q(device="") | Q(device__startswith=WAITED_DEVICE_PREFIX),
        of_code=False,
        failed_at__gt=now - FAILURE_WINDOW,
    ).values_list("failed_at", "name_digest", "address")
    return [
        Failure(failed_at=failed_at, same_name=bytes(name) == name_digest, same_address=where == address)
        for failed_at, name, where in rows
    ]


# ---- People whom managers see and change ----------------------------------------------------------------------------


def is_in(vos: Collection[int]) -> Q:
    """Return the condition of the users whom managers of *vos* see: the members of their groups."""
    return Q(Exists(Membership.objects.filter(user=OuterRef("pk"), group__vo__in=vos)))


def is_only_in(vos: Collection[int]) -> Q:
    """Return the condition of the users whom managers of *vos* change: members in no other VO, without privileges."""
    elsewhere = Membership.objects.filter(user=OuterRef("pk")).exclude(group__vo__in=vos)
    # NB: a relation of an app above: who has the password of an administrator of a site has the site.
    powerless = Q(is_staff=False, is_superuser=False, operator=False, managed_vos=None, administered_sites=None)
    return is_in(vos) & Q(~Exists(elsewhere)) & powerless


def people_seen_by(user: User) -> QuerySet[User]:
    """Return the people whom *user* manages: for operators all, for managers the members of their VOs."""
    vos = managed_vos_of(user)
    return User.objects.all() if vos is None else User.objects.filter(is_in(vos))


def is_above(person: User, user: User) -> bool:
    """Return whether *user* may not change *person* whatever else: only superusers change superusers."""
    return person.is_superuser and not user.is_superuser


def to_add(group: Group, *, by_operator: bool) -> QuerySet[User]:
    """Return the users who are made members of a group without their consent (ADR 48).

    Managers move those who are in its VO already; operators add anybody.
    """
    return User.objects.all() if by_operator else User.objects.filter(is_in([group.vo_id]))


# ---- History of the configuration ------------------------------------------------------------------------------------

#: Facts of a change beside what it changed.
_NOT_CHANGED: Final = frozenset({"what", "changes"})
_SAID_LAST: Final = frozenset({"share", "reason", "confirmed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One change of a row of the configuration, in words."""

    id: int
    at: datetime
    #: A user, or a command of the server; empty: nobody known.
    who: str
    kind: str
    target: str
    #: Such as "priority: 1000 → 6000".
    changes: Sequence[str]
    #: Type of the row, whether it was added, changed or deleted, and the changes by field, as the reader sees them.
    row_type: str
    what: object
    changed: object


def history_of(row: Model, *, user: User, most: int | None = None, is_whole: bool = False) -> list[HistoryEntry]:
    """Return the newest *most* changes of a row, through any door, that *user* may see; None: all.

    Args:
        row: of the configuration.
        user: the reader.
        most: entries at most.
        is_whole: whether the reader answers for the row, and sees all its changes, whatever VOs they concern.
    """
    row_type, row_id = identity_of(row)
    vos = _managed(user)
    # Uses index: security_event_by_row
    events = (ConfigurationChange.objects.all() if is_whole else _history_of_vos(vos)).filter(
        row_type=row_type, row_id=row_id
    )
    names = None if vos is None else frozenset(vos.values())
    return [history_entry(event, vos=names) for event in events.order_by("-id")[:most]]


def history_of_person(person: User, *, user: User, most: int) -> list[HistoryEntry]:
    """Return the newest *most* changes of a person that *user* may see.

    Managers see suspensions of members of their VOs, and memberships in groups of their VOs: what those groups have in
    their histories about the person. Operators see the whole history of the account.
    """
    vos = _managed(user)
    if vos is None:
        return history_of(person, user=user, most=most)
    groups = dict(Group.objects.filter(vo__in=vos).values_list("pk", "name"))
    lines = {f"{sign}{person} in {name}" for name in groups.values() for sign in "+-~"}
    row_type, row_id = identity_of(person)
    of_person = Q(row_type=row_type, row_id=row_id)
    of_groups = Q(
        row_type=Group._meta.label_lower,
        row_id__in=[str(pk) for pk in groups],
        facts__changes__memberships__has_any_keys=sorted(lines),
    )
    # Uses index: security_event_by_row
    events = _history_of_vos(vos).filter(of_person | of_groups).order_by("-id")[:most]
    names = frozenset(vos.values())
    return [history_entry(_about(event, lines), vos=names) for event in events]


def _about(event: ConfigurationChange, lines: Collection[str]) -> ConfigurationChange:
    """Return an event without the memberships of others."""
    changes = event.facts.get("changes")
    if isinstance(changes, Mapping) and isinstance(memberships := changes.get("memberships"), list):
        theirs = [line for line in memberships if line in lines]
        event.facts = {"what": "changed", "changes": {**changes, "memberships": theirs}}
    return event


def first_change_of(row: Model) -> datetime | None:
    """Return the time of the first change of a row that was recorded, whoever may see it."""
    row_type, row_id = identity_of(row)
    # Uses index: security_event_by_row
    events = ConfigurationChange.objects.filter(row_type=row_type, row_id=row_id).exclude(row_type="")
    return events.order_by("id").values_list("at", flat=True).first()


def names_in_event(term: str, *, kinds: Collection[str]) -> Q:
    """Return the condition of the events by a user, from an address, or on an object that *term* names.

    Args:
        term: the whole name of a user or an object, or the beginning of an address or of an object's kind and name.
        kinds: of objects, such as "site", which events name before their names.
    """
    # Uses index: security_event_by_actor, security_event_by_address, security_event_by_target
    of_objects = Q(target__startswith=term) | Q(target__in=sorted(f"{kind} {term}" for kind in kinds))
    return Q(actor_name=term) | Q(address__startswith=term) | of_objects


def history_for(user: User) -> QuerySet[ConfigurationChange]:
    """Return the events that concern VOs which *user* manages; for an operator those of all rows."""
    return _history_of_vos(_managed(user))


def managed_names(user: User) -> frozenset[str] | None:
    """Return the names of the VOs that *user* manages; None: an operator, who manages all."""
    vos = _managed(user)
    return None if vos is None else frozenset(vos.values())


def _managed(user: User) -> Mapping[int, str] | None:
    """Return {primary key: name} of the VOs that *user* manages; None: an operator, who manages all."""
    return None if user.is_operator else dict(user.managed_vos.values_list("pk", "name"))


def _history_of_vos(vos: Collection[int] | None) -> QuerySet[ConfigurationChange]:
    if vos is None:
        return ConfigurationChange.objects.exclude(row_type="")
    # Uses index: security_event_by_vo, or security_event_of_vos
    return ConfigurationChange.objects.filter(vo_ids__isnull=False, vo_ids__overlap=list(vos))


def facts_for(event: ConfigurationChange, *, vos: Collection[str] | None) -> Mapping[str, object]:
    """Return the facts of an event without what concerns only VOs that the reader does not manage.

    Args:
        event: that the reader may see.
        vos: names of the VOs that the reader manages; None: an operator.
    """
    facts: dict[str, object] = event.facts
    changes = facts.get("changes")
    if vos is None or not isinstance(changes, Mapping):
        return facts
    return {**facts, "changes": {name: _seen(name, value, vos=vos) for name, value in changes.items()}}


def _seen(name: str, value: object, *, vos: Collection[str]) -> object:
    """Return the part of a change that concerns the VOs; what else was changed is not said."""
    seen: object = value
    if name == "vos" and isinstance(value, list):
        seen = [each for each in value if str(each)[1:] in vos]
    elif name == "vo_parameters" and isinstance(value, Mapping):
        seen = {vo: values for vo, values in value.items() if vo in vos}
    elif name in {"vo_parameters", "storage_elements"}:
        seen = None
    return "changed" if seen in (None, [], {}) else seen


def history_entry(event: ConfigurationChange, *, vos: Collection[str] | None) -> HistoryEntry:
    """Return an event in words, as ``facts_for`` the reader."""
    seen = facts_for(event, vos=vos)
    changed = seen.get("changes")
    facts = {name: value for name, value in seen.items() if name not in _NOT_CHANGED and value not in (None, "")}
    what = [] if event.facts.get("what") in (None, "changed") else [str(event.facts["what"])]
    return HistoryEntry(
        id=event.pk,
        at=event.at,
        who=event.actor_name,
        kind=event.kind,
        target=event.target,
        changes=[*what, *_lines({**facts, **(changed if isinstance(changed, Mapping) else {})})],
        row_type=event.row_type,
        what=event.facts.get("what"),
        changed=changed,
    )


def _lines(changes: Mapping[str, object]) -> Iterator[str]:
    """Yield the changes by name, those that say why or what followed last: the database does not keep their order."""
    for name, value in sorted(changes.items(), key=lambda change: (change[0] in _SAID_LAST, change[0])):
        if isinstance(value, Mapping):
            yield from (f"{name} {line}" for line in _lines(value))
        else:
            yield f"{name}: {_in_words(value)}"


def _in_words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
