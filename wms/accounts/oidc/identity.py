"""The claims of a provider about a person: identity, name, and groups by the configured map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from wms.accounts.oidc.configuration import OIDCProvider

#: Of a subject, in characters: what allauth's table stores. The specification allows 255.
MAX_SUBJECT: Final = 191
#: Values of one claim that are looked at.
_MAX_VALUES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderIdentity:
    """A person as a provider has authenticated it; (issuer, subject) is who it is, all else may change.

    Args:
        provider: who says so.
        subject: claim ``sub``.
        preferred_name: claim ``preferred_username``, cut; no identity, as people may choose it.
        first_name: claim ``given_name``.
        last_name: claim ``family_name``.
        email: claim ``email`` if the provider has verified it; else empty.
        groups: names of the groups to which its claims map.
    """

    provider: OIDCProvider
    subject: str
    preferred_name: str = ""
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    groups: frozenset[str] = frozenset()


def identity_of(provider: OIDCProvider, claims: Mapping[str, object]) -> ProviderIdentity:
    """Return the person of *claims*, which are verified."""
    return ProviderIdentity(
        provider=provider,
        subject=str(claims["sub"]),
        preferred_name=_text(claims, "preferred_username", 100),
        first_name=_text(claims, "given_name", 150),
        last_name=_text(claims, "family_name", 150),
        email=_verified_email(claims),
        groups=groups_of_claims(provider.group_map, claims),
    )


def groups_of_claims(
    group_map: Mapping[str, Mapping[str, tuple[str, ...]]], claims: Mapping[str, object]
) -> frozenset[str]:
    """Return the names of the groups to which *claims* map; a claim is a text or a list of texts, compared exactly."""
    groups: set[str] = set()
    for claim, by_value in group_map.items():
        stated = claims.get(claim)
        values = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
        for value in values[:_MAX_VALUES]:
            if isinstance(value, str):
                groups.update(by_value.get(value, ()))
    return frozenset(groups)


def _text(claims: Mapping[str, object], claim: str, length: int) -> str:
    value = claims.get(claim)
    # Without characters that control terminals or the direction of writing: people choose their names.
    return "".join(filter(str.isprintable, value)).strip()[:length] if isinstance(value, str) else ""


def _verified_email(claims: Mapping[str, object]) -> str:
    # An unverified one may be anybody's, and the server sends mail to it.
    email = _text(claims, "email", 254)
    if claims.get("email_verified") is not True:
        return ""
    try:
        validate_email(email)
    except ValidationError:
        return ""
    return email
