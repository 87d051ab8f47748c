"""Sections of the configuration file: VOs, groups and users."""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from django.contrib.auth.hashers import check_password

from wms.accounts.models import VO, Group, Membership, User, UserDN
from wms.configuration.records import SectionEntry
from wms.configuration.schema import GroupEntry, UserEntry, VOEntry
from wms.configuration.sections import Identity, Section, SectionChange, sorted_names


class VOSection(Section[VOEntry, VO]):
    """``vos``."""

    record: ClassVar[type[SectionEntry]] = VOEntry

    def load(self) -> Iterator[tuple[Identity, VO]]:
        """Yield every VO."""
        for vo in VO.objects.prefetch_related("managers").order_by("name"):
            yield (vo.name,), vo

    def entry_of(self, row: VO) -> VOEntry:
        """Return the entry of the VO."""
        return VOEntry(
            name=row.name,
            setup=row.setup,
            setups=sorted_names(row.setups),
            managers=sorted_names(user.username for user in row.managers.all()),
            history_fair_share=row.history_fair_share,
            any_segment_fraction=row.any_segment_fraction,
            stalled_s=row.stalled_s,
            stalled_cpu_fraction=row.stalled_cpu_fraction,
            max_stalled_s=row.max_stalled_s,
        )

    def write(self, change: SectionChange[VOEntry]) -> None:
        """Write the VO's own columns."""
        row = self.rows.setdefault(change.identity, VO(name=change.entry.name))
        row.setup, row.setups = change.entry.setup, list(change.entry.setups)
        row.history_fair_share = change.entry.history_fair_share
        row.any_segment_fraction = change.entry.any_segment_fraction
        row.stalled_s, row.stalled_cpu_fraction = change.entry.stalled_s, change.entry.stalled_cpu_fraction
        row.max_stalled_s = change.entry.max_stalled_s
        row.save()

    def link(self, change: SectionChange[VOEntry]) -> None:
        """Write the managers."""
        if "managers" in change.changed:
            self.rows[change.identity].managers.set(User.objects.filter(username__in=change.entry.managers))


class GroupSection(Section[GroupEntry, Group]):
    """``groups``."""

    record: ClassVar[type[SectionEntry]] = GroupEntry

    def __init__(self, vos: VOSection) -> None:
        self._vos = vos
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, Group]]:
        """Yield every group."""
        for group in Group.objects.select_related("vo").order_by("name"):
            yield (group.name,), group

    def entry_of(self, row: Group) -> GroupEntry:
        """Return the entry of the group."""
        return GroupEntry(name=row.name, vo=row.vo.name, priority=row.priority, properties=sorted_names(row.properties))

    def write(self, change: SectionChange[GroupEntry]) -> None:
        """Write the group."""
        row = self.rows.setdefault(change.identity, Group(name=change.entry.name))
        row.vo, row.priority, row.properties = (
            self._vos.rows[change.entry.vo,],
            change.entry.priority,
            list(change.entry.properties),
        )
        row.save()


class UserSection(Section[UserEntry, User]):
    """``users``."""

    record: ClassVar[type[SectionEntry]] = UserEntry

    def __init__(self, groups: GroupSection) -> None:
        self._groups = groups
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, User]]:
        """Yield every user."""
        users = User.objects.select_related("default_group").prefetch_related("dns", "memberships__group")
        for user in users.order_by("username"):
            yield (user.username,), user

    def entry_of(self, row: User) -> UserEntry:
        """Return the entry of the user."""
        return UserEntry(
            username=row.username,
            dns=sorted_names(dn.dn for dn in row.dns.all()),
            groups=sorted_names(membership.group.name for membership in row.memberships.all()),
            default_group=row.default_group.name if row.default_group else None,
            staff=row.is_staff,
            superuser=row.is_superuser,
            operator=row.operator,
            suspended=not row.is_active,
        )

    def changed_secrets(self, identity: Identity, entry: UserEntry) -> Iterable[str]:
        """Return the password's key if the password differs."""
        if entry.password is None:
            return ()
        row = self.rows.get(identity)
        # NB: not User.check_password, which would store a new hash when the hasher has changed.
        same = row is not None and check_password(entry.password, row.password)
        return () if same else ("password",)

    def write(self, change: SectionChange[UserEntry]) -> None:
        """Write the user's own columns and memberships, and remove DNs that the entry does not name."""
        row = self.rows.get(change.identity)
        if row is None:
            row = self.rows[change.identity] = User(username=change.entry.username, date_joined=change.now)
            row.set_unusable_password()
        if change.entry.password is not None and "password" in change.changed:
            # Without the rules for strong passwords: an operator writes this file.
            row.set_password(change.entry.password)
        row.is_staff, row.is_superuser, row.operator = change.entry.staff, change.entry.superuser, change.entry.operator
        row.is_active = not change.entry.suspended
        row.default_group = (
            None if change.entry.default_group is None else self._groups.rows[change.entry.default_group,]
        )
        row.save()
        UserDN.objects.filter(user=row).exclude(dn__in=change.entry.dns).delete()
        if "groups" in change.changed:
            groups = [self._groups.rows[name,] for name in change.entry.groups]
            Membership.objects.filter(user=row).exclude(group__in=groups).delete()
            Membership.objects.bulk_create(
                [Membership(user=row, group=group) for group in groups], ignore_conflicts=True
            )

    def link(self, change: SectionChange[UserEntry]) -> None:
        """Write the DNs; last, as another user may have had them before."""
        if "dns" in change.changed:
            row = self.rows[change.identity]
            has = set(UserDN.objects.filter(user=row).values_list("dn", flat=True))
            UserDN.objects.bulk_create([UserDN(user=row, dn=dn) for dn in change.entry.dns if dn not in has])
