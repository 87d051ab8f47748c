"""Verification of ID tokens (OpenID Connect Core 1.0, §3.1.3.7)."""

from collections.abc import Mapping
from hmac import compare_digest
from typing import Final

import jwt

from wms.accounts.oidc import connection
from wms.accounts.oidc.configuration import OIDCProvider
from wms.accounts.oidc.identity import MAX_SUBJECT
from wms.kernel.errors import UnauthenticatedError

#: Signatures by a private key of the provider; neither ``none`` nor those of a shared secret.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
#: Seconds by which clocks of provider and server may differ.
LEEWAY_S: Final = 60


class ProviderTokenRefusedError(UnauthenticatedError):
    """The ID token of a provider is not valid for this log-in."""

    code = "provider_token_refused"


def verified_claims(provider: OIDCProvider, id_token: str, *, nonce: str | None) -> Mapping[str, object]:
    """Return the claims of *id_token*.

    Args:
        provider: whose token it must be.
        id_token: as received.
        nonce: of this log-in; None: of a flow without one.

    Raises:
        ProviderTokenRefusedError: signature, issuer, audience, authorised party, times or nonce are wrong.
        ProviderFailedError: its keys cannot be read.
    """
    try:
        header = jwt.get_unverified_header(id_token)
        claims: Mapping[str, object] = jwt.decode(
            id_token,
            _key(provider, header).key,
            algorithms=[header["alg"]],  # one of ALGORITHMS, by _key
            issuer=provider.issuer,
            audience=provider.client_id,
            leeway=LEEWAY_S,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except (jwt.PyJWTError, TypeError, ValueError) as error:  # a key of another kind than the algorithm is a TypeError
        raise _refused(provider, str(error)) from error
    audience = claims["aud"]
    is_shared = isinstance(audience, list) and len(audience) > 1
    if (is_shared or "azp" in claims) and claims.get("azp") != provider.client_id:
        raise _refused(provider, "it was issued to another client")
    if nonce is not None and not compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
        raise _refused(provider, "it is of another log-in")
    subject = claims["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or "\x00" in subject:
        raise _refused(provider, f"its subject is not a text of at most {MAX_SUBJECT} characters")
    return claims


def claims_with_userinfo(
    provider: OIDCProvider, answer: Mapping[str, object], *, nonce: str | None
) -> Mapping[str, object]:
    """Return the claims of the ID token and of the userinfo endpoint; where both have one, that of the ID token.

    Args:
        provider: who answered.
        answer: of the token endpoint.
        nonce: of this log-in; None: of a flow without one.

    Raises:
        ProviderTokenRefusedError: as for ``verified_claims``, or the userinfo is of another person.
        ProviderFailedError: the provider does not answer.
    """
    claims = verified_claims(provider, str(answer.get("id_token", "")), nonce=nonce)
    more = connection.userinfo(provider, str(answer.get("access_token", "")))
    if more and more.get("sub") != claims["sub"]:
        raise _refused(provider, "its userinfo is of another person")
    return {**more, **claims}


def _key(provider: OIDCProvider, header: Mapping[str, object]) -> jwt.PyJWK:
    """Return the key that the header of a token names.

    Raises:
        jwt.PyJWTError: the algorithm is none of ours, or there is no such key.
    """
    if header.get("alg") not in ALGORITHMS:
        raise jwt.InvalidAlgorithmError("it is not signed by a public key")
    for again in (False, True):
        for key in jwt.PyJWKSet.from_dict(dict(connection.keys_of(provider, again=again))).keys:
            if header.get("kid") in {None, key.key_id} and key.public_key_use in {None, "sig"}:
                return key
    raise jwt.InvalidKeyError("its key is unknown")


def _refused(provider: OIDCProvider, why: str) -> ProviderTokenRefusedError:
    return ProviderTokenRefusedError(f"The ID token of {provider.name} is refused: {why}. Log in again.")
