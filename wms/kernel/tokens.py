"""Signed tokens of machines: checked without a query, useless for any other purpose than the one they were made for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import MappingProxyType

import jwt
from django.conf import settings
from django.utils.crypto import salted_hmac

#: Pinned: a token that names another algorithm, or none, is not looked at any further.
ALGORITHM = "HS256"
#: The claims that this module writes itself.
RESERVED = frozenset({"kind", "exp"})


class TokenKind(StrEnum):
    """What a signed token is for; each kind has its own key, so that one can never pass for another."""

    PILOT = "pilot"
    JOB = "job"


#: By its first letters a token is told from the other kinds before anything is computed.
PREFIXES: Mapping[TokenKind, str] = MappingProxyType({TokenKind.PILOT: "wmsp_", TokenKind.JOB: "wmsj_"})


class InvalidTokenError(Exception):
    """The token is not one of this kind, was not signed here, or is over; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedToken:
    """What a genuine token says."""

    claims: Mapping[str, str | int]
    expires_at: datetime


def sign(kind: TokenKind, claims: Mapping[str, str | int], *, expires_at: datetime) -> str:
    """Return a token that says *claims* until *expires_at* (whole seconds: a fraction is cut off)."""
    if overwritten := RESERVED & claims.keys():
        raise ValueError(f"reserved claims: {sorted(overwritten)}")
    payload = {**claims, "kind": str(kind), "exp": int(expires_at.timestamp())}
    return PREFIXES[kind] + jwt.encode(payload, _key(kind, settings.SECRET_KEY), algorithm=ALGORITHM)


def read(kind: TokenKind, token: str) -> SignedToken:
    """Return what *token* says.

    A token signed before the secret key was changed is read as long as the old key is in SECRET_KEY_FALLBACKS.

    Raises:
        InvalidTokenError: another kind, another signature, or expired.
    """
    encoded = token.removeprefix(PREFIXES[kind])
    if encoded == token or not encoded.isascii():
        raise InvalidTokenError(f"This is not a {kind} token.")
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            payload = jwt.decode(
                encoded, _key(kind, secret), algorithms=[ALGORITHM], leeway=0, options={"require": ["exp", "kind"]}
            )
        except jwt.InvalidSignatureError:
            continue
        except jwt.ExpiredSignatureError as error:
            raise InvalidTokenError(f"The {kind} token has expired.") from error
        except jwt.InvalidTokenError as error:
            raise InvalidTokenError(f"The {kind} token is not valid.") from error
        if payload.pop("kind") != kind:
            break
        return SignedToken(expires_at=datetime.fromtimestamp(payload.pop("exp"), tz=UTC), claims=payload)
    raise InvalidTokenError(f"The {kind} token is not valid.")


@cache
def _key(kind: TokenKind, secret: str) -> bytes:
    return salted_hmac("wms.kernel.tokens", kind, secret=secret, algorithm="sha256").digest()
