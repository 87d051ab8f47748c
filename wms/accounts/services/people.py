"""People who come by OpenID Connect: log-in, memberships by claim, and the waiting room (ADR 67)."""

import re
import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import Group, Invitation, Membership, User, lapsed_before
from wms.accounts.oidc.configuration import providers
from wms.accounts.oidc.identity import ProviderIdentity
from wms.accounts.queries import groups_managed_by
from wms.accounts.security_log import record
from wms.accounts.services.access import SuspendedError
from wms.accounts.services.second_factors import has_second_factor
from wms.kernel.db import LockKey, lock
from wms.kernel.errors import ForbiddenError, NotFoundError

#: For people who wait, and for the programs that they start.
WAITING: Final = "You wait to be admitted: a manager of your VO lets you in. Until then you can do nothing here."
#: Names that are tried before a random one.
_MAX_NAMES: Final = 5
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")


class WaitingError(ForbiddenError):
    """The user came by OpenID Connect, and no manager has admitted them yet."""

    code = "waiting"


class NoPersonWaitsError(NotFoundError):
    """The person does not wait any more, or not for this manager."""

    code = "no_person_waits"


def is_waiting(user: User, *, now: datetime) -> bool:
    """Return whether *user* has neither been admitted nor is in a group."""
    return user.waits_since is not None and not Membership.objects.valid(now=now).filter(user=user).exists()


def log_in_by_provider(identity: ProviderIdentity, *, address: str, now: datetime) -> SocialAccount:
    """Return the account at the provider, whose ``user`` the person is; the caller checks a second factor.

    The person is known by issuer and subject only; whoever is not known gets an account of their own, and waits.

    Args:
        identity: as the provider has authenticated it.
        address: of the caller.
        now: time of the log-in, which confirms the memberships by its claims.

    Raises:
        SuspendedError: the user is suspended.
    """
    account = _account_of(identity) or _new_person(identity, now=now)
    user: User = account.user
    if not user.is_active:
        record(SecurityEventKind.LOG_IN_REFUSED, address=address, target=f"user {user.username}", reason="suspended")
        raise SuspendedError("Your account is suspended, or a manager has refused it; ask an operator of this server.")
    confirm_memberships(account, identity.groups, now=now)
    record(
        SecurityEventKind.LOG_IN_ACCEPTED,
        actor=user,
        address=address,
        provider=identity.provider.id,
        needs_code=has_second_factor(user),
    )
    return account


@transaction.atomic
def confirm_memberships(account: SocialAccount, groups: frozenset[str], *, now: datetime) -> None:
    """Make the memberships by claim of *account* those in *groups*; memberships that a manager gave are unchanged.

    Args:
        account: whose provider states them.
        groups: names; those of groups that do not exist are ignored.
        now: time of the confirmation.
    """
    user = User.objects.select_for_update(no_key=True).get(pk=account.user_id)
    claimed = list(Group.objects.filter(name__in=groups))
    gone = Membership.objects.filter(by_claim_of=account).exclude(group__in=claimed)
    left = sorted(gone.values_list("group__name", flat=True))
    gone.delete()
    present = Membership.objects.filter(user=user, group__in=claimed)
    known = set(present.values_list("group_id", flat=True))
    # One that another provider has stated goes over to the one that confirmed it last.
    present.filter(confirmed_at__isnull=False).update(by_claim_of=account, confirmed_at=now)
    new = [group for group in claimed if group.pk not in known]
    Membership.objects.bulk_create(
        [Membership(user=user, group=group, by_claim_of=account, confirmed_at=now) for group in new]
    )
    if new or left:
        joined = sorted(group.name for group in new)
        target = f"user {user.username}"
        record(SecurityEventKind.RIGHTS_CHANGED, actor=user, target=target, by="claim", joined=joined, left=left)


def remove_lapsed_memberships(*, now: datetime) -> int:
    """Remove the memberships by claim that no log-in has confirmed in time, and return their number."""
    # Uses index: membership_by_claim
    lapsed = Membership.objects.filter(confirmed_at__lte=lapsed_before(now=now)).select_related("user", "group")
    removed = 0
    for membership in lapsed.order_by("pk"):
        with transaction.atomic():
            # The condition again: a log-in may have confirmed it meanwhile.
            deleted, _ = lapsed.filter(pk=membership.pk).delete()
            if deleted:
                removed += 1
                target = f"user {membership.user}"
                record(SecurityEventKind.RIGHTS_CHANGED, target=target, by="claim", lapsed=membership.group.name)
    return removed


def people_who_wait(by: User, *, now: datetime) -> QuerySet[User]:
    """Return the people whom *by* may admit or refuse: for operators all who wait.

    Managers see those of the providers that the setting assigns to a VO of theirs, or to no VO.
    """
    member = Membership.objects.valid(now=now).filter(user=OuterRef("pk"))
    people = User.objects.filter(~Exists(member), waits_since__isnull=False, is_active=True)
    if by.is_operator:
        return people
    managed = set(by.managed_vos.values_list("name", flat=True))
    issuers = [
        provider.issuer
        for provider in providers().values()
        if managed and (provider.vos is None or managed & set(provider.vos))
    ]
    return people.filter(Exists(SocialAccount.objects.filter(user=OuterRef("pk"), provider__in=issuers)))


@transaction.atomic
def admit(user_id: int, group_id: int, *, by: User, now: datetime) -> tuple[User, Group]:
    """Make a person who waits a member of a group, and return both.

    Raises:
        NoPersonWaitsError: the person does not wait, or *by* may not admit them, or not into this group.
    """
    user = _locked(user_id, by=by, now=now)
    group = groups_managed_by(by).filter(pk=group_id).first()
    if group is None:
        raise NoPersonWaitsError("You manage no such group.")
    given = {"by_claim_of": None, "confirmed_at": None}  # else a lapsed one would stay
    Membership.objects.update_or_create(user=user, group=group, defaults=given)
    User.objects.filter(pk=user.pk).update(waits_since=None)
    kind = SecurityEventKind.PERSON_ADMITTED
    record(kind, actor=by, target=f"user {user.username}", row=group, group=group.name)
    return user, group


@transaction.atomic
def refuse(user_id: int, *, by: User, now: datetime) -> User:
    """Suspend a person who waits, and return them; an operator may end the suspension.

    Raises:
        NoPersonWaitsError: the person does not wait, or *by* may not refuse them.
    """
    user = _locked(user_id, by=by, now=now)
    User.objects.filter(pk=user.pk).update(is_active=False)
    record(SecurityEventKind.PERSON_REFUSED, actor=by, target=f"user {user.username}")
    return user


def connected_accounts(user: User) -> list[SocialAccount]:
    """Return the accounts at providers by which *user* logs in."""
    return list(SocialAccount.objects.filter(user=user).order_by("pk"))


def memberships_by_claim(user: User) -> QuerySet[Membership]:
    """Return the memberships by claim of *user*."""
    return Membership.objects.filter(user=user, confirmed_at__isnull=False).select_related("by_claim_of")


def who_admits(user: User) -> tuple[str, ...]:
    """Return the names of the VOs whose managers admit *user*; empty: those of all VOs."""
    issuers = set(SocialAccount.objects.filter(user=user).values_list("provider", flat=True))
    configured = [provider.vos for provider in providers().values() if provider.issuer in issuers]
    return () if None in configured else tuple(sorted({vo for vos in configured for vo in vos or ()}))


@transaction.atomic
def disconnect(account: SocialAccount, *, by: User) -> None:
    """Remove an account at a provider from its user, with its memberships by claim."""
    left = sorted(Membership.objects.filter(by_claim_of=account).values_list("group__name", flat=True))
    account.delete()
    target = f"user {by.username}"
    record(SecurityEventKind.ACCOUNT_DISCONNECTED, actor=by, target=target, issuer=account.provider, left=left)


def _account_of(identity: ProviderIdentity) -> SocialAccount | None:
    accounts = SocialAccount.objects.filter(provider=identity.provider.issuer, uid=identity.subject)
    return accounts.select_related("user").first()


@transaction.atomic
def _new_person(identity: ProviderIdentity, *, now: datetime) -> SocialAccount:
    # One after another: two log-ins of one person, or two people of one name, make one account each.
    lock(LockKey.ADD_PEOPLE)
    account = _account_of(identity)
    if account is not None:
        return account
    user = User(
        username=next(_free_names(identity)),
        first_name=identity.first_name,
        last_name=identity.last_name,
        email=identity.email,
        waits_since=now,
        date_joined=now,
    )
    user.set_unusable_password()
    user.save()
    account = SocialAccount.objects.create(user=user, provider=identity.provider.issuer, uid=identity.subject)
    record(SecurityEventKind.USER_ADDED, actor=user, target=f"user {user.username}", provider=identity.provider.id)
    return account


def _free_names(identity: ProviderIdentity) -> Iterator[str]:
    """Yield user names for a new person that nobody has and nobody was invited by.

    People choose their names at the provider. So a name ends with the provider's id, and is none that a manager may
    have meant for somebody else.
    """
    wanted = _NOT_IN_NAMES.sub("-", identity.preferred_name.partition("@")[0]).strip(".-")[:60] or "person"
    suffixes = ["", *(f"-{number}" for number in range(2, _MAX_NAMES + 1)), f"-{secrets.token_hex(8)}"]
    for suffix in suffixes:
        name = f"{wanted}{suffix}@{identity.provider.id}"
        is_taken = User.objects.filter(username__iexact=name).exists()
        if not is_taken and not Invitation.objects.filter(username__iexact=name).exists():
            yield name


def _locked(user_id: int, *, by: User, now: datetime) -> User:
    user = people_who_wait(by, now=now).select_for_update(of=("self",), no_key=True).filter(pk=user_id).first()
    if user is None:
        raise NoPersonWaitsError("This person does not wait any more, or does not wait for you.")
    return user
