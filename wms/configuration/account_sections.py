"""Sections of the configuration file: VOs, groups and users."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import ClassVar

from django.contrib.auth.hashers import check_password
from django.db.models import Model

from wms.accounts.models import VO, Group, Membership, User, UserDN
from wms.configuration.entries import SectionEntry
from wms.configuration.schema import GroupEntry, UserEntry, VOEntry
from wms.configuration.sections import Identity, Section, SectionChange, sorted_names


class VOSection(Section[VOEntry, VO]):
    """``vos``."""

    record: ClassVar[type[SectionEntry]] = VOEntry
    model: ClassVar[type[Model]] = VO


class GroupSection(Section[GroupEntry, Group]):
    """``groups``."""

    record: ClassVar[type[SectionEntry]] = GroupEntry
    model: ClassVar[type[Model]] = Group


class UserSection(Section[UserEntry, User]):
    """``users``."""

    record: ClassVar[type[SectionEntry]] = UserEntry
    model: ClassVar[type[Model]] = User
    identified_by: ClassVar[tuple[str, ...]] = ("username",)
    columns: ClassVar[Mapping[str, str]] = MappingProxyType({"staff": "is_staff", "superuser": "is_superuser"})
    apart: ClassVar[frozenset[str]] = frozenset({"dns", "groups", "suspended"})
    reads: ClassVar[tuple[str, ...]] = ("dns", "memberships__group")

    def stored(self, row: User) -> dict[str, object]:
        """Return the values of the keys."""
        memberships = list(row.memberships.all())
        # Those by claim come and go with log-ins, and are no configuration.
        by_claim = {membership.group_id for membership in memberships if membership.confirmed_at is not None}
        values = super().stored(row) | {
            "dns": sorted_names(row.dns.all()),
            "groups": sorted_names(each.group for each in memberships if each.group_id not in by_claim),
            "suspended": not row.is_active,
        }
        return values | {"default_group": None} if row.default_group_id in by_claim else values

    def changed_secrets(self, identity: Identity, entry: UserEntry) -> Iterable[str]:
        """Return the password's key if the password differs."""
        if entry.password is None:
            return ()
        row = self.rows.get(identity)
        # NB: not User.check_password, which would store a new hash when the hasher has changed.
        same = row is not None and check_password(entry.password, row.password)
        return () if same else ("password",)

    def put(self, row: User, change: SectionChange[UserEntry]) -> None:
        """Set the user's own columns."""
        super().put(row, change)
        row.is_active = not change.entry.suspended
        if change.is_new:
            row.date_joined = change.now
            row.set_unusable_password()
        if change.entry.password is not None and "password" in change.changed:
            # Without the rules for strong passwords: an operator writes this file.
            row.set_password(change.entry.password)

    def write(self, change: SectionChange[UserEntry]) -> User:
        """Write the user and its memberships, and remove DNs that the entry does not name."""
        row = super().write(change)
        UserDN.objects.filter(user=row).exclude(dn__in=change.entry.dns).delete()
        if "groups" in change.changed:
            groups = [self.sections[Group].rows[name,] for name in change.entry.groups]
            memberships = Membership.objects.filter(user=row)
            memberships.given().exclude(group__in=groups).delete()
            # One by claim that the file names does not lapse from now on.
            memberships.filter(group__in=groups).update(by_claim_of=None, confirmed_at=None)
            Membership.objects.bulk_create(
                [Membership(user=row, group=group) for group in groups], ignore_conflicts=True
            )
        return row

    def link(self, change: SectionChange[UserEntry]) -> None:
        """Write the DNs; last, as another user may have had them before."""
        if "dns" in change.changed:
            row = self.rows[change.identity]
            has = set(UserDN.objects.filter(user=row).values_list("dn", flat=True))
            UserDN.objects.bulk_create([UserDN(user=row, dn=dn) for dn in change.entry.dns if dn not in has])
