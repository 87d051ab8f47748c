"""Presentation of a user's own account: the overview."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.template.defaultfilters import filesizeformat

from wms.accounts.domain import MailWhen
from wms.accounts.models import ApiToken, Group, Membership, User
from wms.accounts.oidc.configuration import OIDCProvider, provider_of_issuer
from wms.jobs.queries.amounts import UsedAmount
from wms.portal.presentation.statuses import Fact

#: {choice: its label on the page}.
MAIL_IN_WORDS: Final[Mapping[MailWhen, str]] = MappingProxyType(
    {
        MailWhen.NEVER: "Never",
        MailWhen.ENDED: "When all jobs of a submission have ended",
        MailWhen.FAILED: "Only when at least one of them has failed",
    }
)
NO_SERVER: Final = "This server sends no mail: its operators have not configured a mail server."
NO_ADDRESS: Final = (
    "Your account has no valid e-mail address, so no mail can be sent. Ask an operator or a manager of your VO to add "
    "one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailSection:
    """The part of the page about mail; choices are offered only if mail can be sent."""

    address: str
    #: Why none can be sent; empty: it can.
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Institute:
    """A provider of OpenID Connect, and the user's account there, if it is connected."""

    name: str
    #: Empty: it is no longer configured.
    provider_id: str
    #: None: not connected.
    account_id: int | None = None
    account_name: str = ""
    connected_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedMembership:
    """A membership by claim, as the list of groups says it."""

    group_id: int
    provider: str
    confirmed_at: datetime
    lapses_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPage:
    """The overview of an account."""

    facts: Sequence[Fact]
    password: str
    second_factor: str
    has_second_factor: bool
    tokens: str
    #: Last use of any valid token; None: none was used.
    tokens_used_at: datetime | None
    groups: Sequence[Group]
    default_group: Group | None
    mail: MailSection
    institutes: Sequence[Institute]
    #: What is used of the amounts that are bounded.
    amounts: Sequence[Fact]


def account_page(
    user: User,
    *,
    groups: Sequence[Group],
    default_group: Group | None,
    tokens: Sequence[ApiToken],
    has_second_factor: bool,
    mail: MailSection,
    institutes: Sequence[Institute] = (),
    amounts: Sequence[UsedAmount] = (),
) -> AccountPage:
    """Return what the overview says about *user*, whose groups and valid tokens these are."""
    return AccountPage(
        facts=_facts(user),
        password="Set." if user.has_usable_password() else "You have none: you cannot log in by password.",
        second_factor=(
            "Set up: it is asked for at every log-in." if has_second_factor else "None: your password alone logs in."
        ),
        has_second_factor=has_second_factor,
        tokens=f"{len(tokens)} valid token{'' if len(tokens) == 1 else 's'}." if tokens else "You have none.",
        tokens_used_at=max((token.last_used_at for token in tokens if token.last_used_at is not None), default=None),
        groups=groups,
        default_group=default_group,
        mail=mail,
        institutes=institutes,
        amounts=[Fact(label=amount.what, value=_used(amount)) for amount in amounts],
    )


def _used(amount: UsedAmount) -> str:
    if not amount.in_bytes:
        return f"{amount.used:,} of {amount.most:,}"
    return f"{filesizeformat(amount.used)} of {filesizeformat(amount.most)}"


def institutes_of(providers: Iterable[OIDCProvider], accounts: Sequence[SocialAccount]) -> list[Institute]:
    """Return the configured providers with the accounts of one user there, and then accounts at former providers."""
    by_issuer = {account.provider: account for account in accounts}
    found = []
    for provider in providers:
        # One provider may have several accounts of a user; further ones come last, as those of former providers.
        account = by_issuer.pop(provider.issuer, None)
        found.append(_institute(provider.name, provider.id, account))
    shown = {institute.account_id for institute in found}
    return [*found, *(_institute(account.provider, "", account) for account in accounts if account.pk not in shown)]


def _institute(name: str, provider_id: str, account: SocialAccount | None) -> Institute:
    if account is None:
        return Institute(name=name, provider_id=provider_id)
    return Institute(
        name=name,
        provider_id=provider_id,
        account_id=account.pk,
        account_name=account.extra_data.get("name") or account.uid,
        connected_at=account.date_joined,
    )


def claimed_memberships(memberships: Iterable[Membership]) -> list[ClaimedMembership]:
    """Return those of *memberships* that are by claim, with their providers."""
    return [
        ClaimedMembership(
            group_id=membership.group_id,
            provider=_name_of(membership.by_claim_of.provider),
            confirmed_at=membership.confirmed_at,
            lapses_at=membership.confirmed_at + timedelta(days=settings.WMS_OIDC_MEMBERSHIP_DAYS),
        )
        for membership in memberships
        if membership.by_claim_of is not None and membership.confirmed_at is not None
    ]


def _name_of(issuer: str) -> str:
    provider = provider_of_issuer(issuer)
    return issuer if provider is None else provider.name


def mail_section(*, address: str, is_on: bool) -> MailSection:
    """Return what the page says about mail to *address*; empty: the account has none."""
    if not is_on:
        return MailSection(address=address, obstacle=NO_SERVER)
    return MailSection(address=address, obstacle="" if address else NO_ADDRESS)


def _facts(user: User) -> list[Fact]:
    roles = {"operator": user.is_operator, "administration": user.is_staff}
    return [
        Fact(label="User name", value=user.username),
        Fact(label="Name", value=user.get_full_name()),
        Fact(label="E-mail", value=user.email),
        Fact(label="Roles", value=", ".join(role for role, held in roles.items() if held)),
    ]
