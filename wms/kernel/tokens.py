"""Signed tokens of machines: checked without a query, valid for one purpose only."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import jwt
import msgspec
from django.conf import settings
from django.utils.crypto import salted_hmac

from wms.kernel.clock import current_time
from wms.kernel.memo import RecentlyUsed
from wms.wire.protocol import PILOT_TOKEN_PREFIX

#: Pinned: a token that names another algorithm, or none, is refused.
ALGORITHM = "HS256"
_HEADER: Final = b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"  # {"alg":"HS256","typ":"JWT"}
#: Claims written by this module.
RESERVED = frozenset({"kind", "exp"})
#: Tokens whose check each process remembers, about 1 kB each: ten thousand pilots report with two tokens each in turns,
#: and with less room each would be dropped before its next use.
REMEMBERED: Final = 40_960
#: Seconds without use after which one is forgotten: those that report do so every WMS_HEARTBEAT_S (30).
FORGOTTEN_AFTER_S: Final = 300.0


class TokenKind(StrEnum):
    """The purpose of a signed token; each kind has its own key, so that one is never accepted as another."""

    PILOT = "pilot"
    JOB = "job"


#: The prefix shows the kind of a token before anything is computed.
PREFIXES: Mapping[TokenKind, str] = MappingProxyType({TokenKind.PILOT: PILOT_TOKEN_PREFIX, TokenKind.JOB: "wmsj_"})


class InvalidTokenError(Exception):
    """The token is of another kind, was not signed here, or has expired; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedToken:
    """The content of a genuine token."""

    claims: Mapping[str, str | int]
    expires_at: datetime


_known: Final[RecentlyUsed[tuple[TokenKind, str, tuple[str, ...]], SignedToken]] = RecentlyUsed(
    most=REMEMBERED, unused_s=FORGOTTEN_AFTER_S
)


def sign(kind: TokenKind, claims: Mapping[str, str | int], *, expires_at: datetime) -> str:
    """Return a token with *claims*, valid until *expires_at* (whole seconds: a fraction is cut off)."""
    if overwritten := RESERVED & claims.keys():
        raise ValueError(f"reserved claims: {sorted(overwritten)}")
    payload = {**claims, "kind": str(kind), "exp": int(expires_at.timestamp())}
    # As RFC 7515 has it; jwt.encode takes four times as long, and every match signs a token.
    signed = _HEADER + b"." + _base64url(msgspec.json.encode(payload))
    signature = _base64url(hmac.digest(_key(kind, settings.SECRET_KEY), signed, "sha256"))
    return f"{PREFIXES[kind]}{signed.decode()}.{signature.decode()}"


def read(kind: TokenKind, token: str) -> SignedToken:
    """Return the content of *token*.

    A token of a previous secret key is valid as long as that key is in SECRET_KEY_FALLBACKS.

    Raises:
        InvalidTokenError: another kind, another signature, or expired.
    """
    encoded = token.removeprefix(PREFIXES[kind])
    if encoded == token or not encoded.isascii():
        raise InvalidTokenError(f"This is not a {kind} token.")
    # The secrets are part of the key: signatures of an old one must not outlive its time among the fallbacks. Refusals
    # are not kept, so that guessed tokens displace no valid ones.
    asked = (kind, encoded, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))
    genuine = _known.recall(asked, lambda: _genuine(*asked))
    if genuine.expires_at <= current_time():
        raise InvalidTokenError(f"The {kind} token has expired.")
    return genuine


def _genuine(kind: TokenKind, encoded: str, secrets: tuple[str, ...]) -> SignedToken:
    for secret in secrets:
        try:
            payload = _claims_as_signed(encoded, _key(kind, secret)) or jwt.decode(
                encoded,
                _key(kind, secret),
                algorithms=[ALGORITHM],
                # The caller compares the end, by the database's clock.
                options={"require": ["exp", "kind"], "verify_exp": False},
            )
        except jwt.InvalidSignatureError:
            continue
        except jwt.InvalidTokenError as error:
            raise InvalidTokenError(f"The {kind} token is not valid.") from error
        if payload.pop("kind") != kind:
            break
        expires_at = datetime.fromtimestamp(payload.pop("exp"), tz=UTC)
        return SignedToken(expires_at=expires_at, claims=MappingProxyType(payload))
    raise InvalidTokenError(f"The {kind} token is not valid.")


def _claims_as_signed(encoded: str, key: bytes) -> dict[str, Any] | None:
    """Return the claims if ``sign`` has made the token with this key, in a fifth of the time of ``jwt.decode``."""
    signed, _, signature = encoded.encode().rpartition(b".")
    header, _, claims = signed.partition(b".")
    if header != _HEADER or not hmac.compare_digest(signature, _base64url(hmac.digest(key, signed, "sha256"))):
        return None
    decoded: dict[str, Any] = msgspec.json.decode(urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))
    return decoded if decoded.keys() > RESERVED and isinstance(decoded["exp"], int) else None


def _base64url(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


@cache
def _key(kind: TokenKind, secret: str) -> bytes:
    return salted_hmac("wms.kernel.tokens", kind, secret=secret, algorithm="sha256").digest()
