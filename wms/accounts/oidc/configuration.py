"""The configured providers of OpenID Connect (WMS_OIDC_PROVIDERS), and the check of the setting."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from wms.kernel.checks import is_loopback
from wms.kernel.names import did_you_mean

#: Without ``openid`` there is no ID token; the others give the name of a new person.
DEFAULT_SCOPES: Final = ("openid", "profile", "email")
#: An id is part of addresses and, as ``name@id``, of user names.
_ID: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")
_TEXTS: Final = ("name", "issuer", "client_id")
_KEYS: Final = (*_TEXTS, "client_secret", "scopes", "groups", "vos")
#: Longest issuer that allauth's table stores.
_MAX_ISSUER: Final = 200


class ProviderSettingError(ValueError):
    """WMS_OIDC_PROVIDERS is wrong; the text says where and what to write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCProvider:
    """One provider of OpenID Connect, such as the institute's single sign-on.

    Args:
        id: in addresses, such as ``cern``.
        name: for people, such as "CERN".
        issuer: exactly as in its ID tokens; all of its addresses are read from its discovery document.
        client_id: of this server, as registered with the provider.
        client_secret: empty: a public client.
        scopes: that are requested.
        group_map: {claim: {value: names of groups}}.
        vos: names of the VOs whose managers admit its people; None: those of all VOs.
    """

    id: str
    name: str
    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    group_map: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    vos: tuple[str, ...] | None = None

    @property
    def has_plain_addresses(self) -> bool:
        """Whether its addresses may be http://, which only a provider on this machine may have."""
        return urlsplit(self.issuer).scheme == "http"


def providers() -> Mapping[str, OIDCProvider]:
    """Return the configured providers by id; none by default."""
    return parse(settings.WMS_OIDC_PROVIDERS) if settings.WMS_OIDC_PROVIDERS else {}


def provider_of_issuer(issuer: str) -> OIDCProvider | None:
    """Return the configured provider with this issuer, or None."""
    return next((provider for provider in providers().values() if provider.issuer == issuer), None)


@lru_cache(maxsize=4)
def parse(text: str) -> Mapping[str, OIDCProvider]:
    """Return the providers that *text*, a JSON object by id, configures.

    Raises:
        ProviderSettingError: it is not such an object.
    """
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise ProviderSettingError(f"it is not JSON: {error}") from error
    if not isinstance(entries, dict):
        raise ProviderSettingError("it is not a JSON object of providers by id")
    found = {provider_id: _provider(provider_id, entry) for provider_id, entry in entries.items()}
    issuers = [provider.issuer for provider in found.values()]
    if len(set(issuers)) < len(issuers):
        raise ProviderSettingError("two providers have the same issuer")
    return found


@register()
def check_providers(**_options: object) -> list[CheckMessage]:
    """Return an error if WMS_OIDC_PROVIDERS is wrong."""
    try:
        providers()
    except ProviderSettingError as error:
        # NB: without the setting itself, which holds secrets.
        hint = "See docs/openid-connect.md."
        return [Error(f"WMS_OIDC_PROVIDERS cannot be used: {error}.", hint=hint, id="wms.E015")]
    return []


def _provider(provider_id: str, entry: object) -> OIDCProvider:
    if not _ID.fullmatch(provider_id):
        raise ProviderSettingError(f'"{provider_id}" is not an id: small letters, digits and hyphens, at most 31')
    if not isinstance(entry, dict):
        raise ProviderSettingError(f'"{provider_id}" is not an object')
    for key in entry:
        if key not in _KEYS:
            raise ProviderSettingError(f'{provider_id}: unknown key "{key}".{did_you_mean(key, _KEYS)}')
    for key in _TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key]:
            raise ProviderSettingError(f'{provider_id}: "{key}" is missing')
    secret = entry.get("client_secret", "")
    if not isinstance(secret, str):
        raise ProviderSettingError(f'{provider_id}: "client_secret" is not a text')
    scopes = tuple(_texts(entry.get("scopes", list(DEFAULT_SCOPES)), f"{provider_id}: scopes"))
    if "openid" not in scopes:
        raise ProviderSettingError(f'{provider_id}: "scopes" lacks "openid"')
    return OIDCProvider(
        id=provider_id,
        name=entry["name"],
        issuer=_issuer(entry["issuer"], provider_id),
        client_id=entry["client_id"],
        client_secret=secret,
        scopes=scopes,
        group_map=_group_map(entry.get("groups", {}), f"{provider_id}: groups"),
        vos=tuple(_texts(entry["vos"], f"{provider_id}: vos")) if "vos" in entry else None,
    )


def _issuer(issuer: str, provider_id: str) -> str:
    url = urlsplit(issuer)
    is_private = url.scheme == "http" and is_loopback(url.hostname or "")
    if not (url.scheme == "https" and url.hostname) and not is_private:
        raise ProviderSettingError(f"{provider_id}: the issuer is not an https:// address")
    if url.query or url.fragment or len(issuer) > _MAX_ISSUER:
        raise ProviderSettingError(f"{provider_id}: the issuer has a query or is longer than {_MAX_ISSUER} characters")
    return issuer


def _group_map(entry: object, where: str) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    if not isinstance(entry, dict) or not all(isinstance(values, dict) for values in entry.values()):
        raise ProviderSettingError(f'{where} is not of the form {{"claim": {{"value": ["group"]}}}}')
    return {
        claim: {value: tuple(_texts(groups, f'{where}: "{value}"')) for value, groups in values.items()}
        for claim, values in entry.items()
    }


def _texts(values: object, where: str) -> Iterator[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and value for value in values):
        raise ProviderSettingError(f"{where} is not a list of texts")
    texts: Sequence[str] = values
    yield from texts
