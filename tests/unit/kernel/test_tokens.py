from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import jwt
import pytest
from pytest_django import Settings

from wms.kernel import tokens
from wms.kernel.tokens import PREFIXES, InvalidTokenError, TokenKind, read, sign

LATER = datetime.now(tz=UTC).replace(microsecond=0) + timedelta(hours=1)
EARLIER = LATER - timedelta(hours=2)


@pytest.mark.parametrize("kind", list(TokenKind))
def test_a_token_contains_the_signed_claims(kind: TokenKind) -> None:
    token = sign(kind, {"pilot": 7, "match": "abc"}, expires_at=LATER)

    assert token.startswith(PREFIXES[kind])
    assert read(kind, token).claims == {"pilot": 7, "match": "abc"}
    assert read(kind, token).expires_at == LATER


def test_an_expired_token_is_refused() -> None:
    with pytest.raises(InvalidTokenError, match="has expired"):
        read(TokenKind.PILOT, sign(TokenKind.PILOT, {"pilot": 7}, expires_at=EARLIER))


def test_a_token_that_was_read_before_is_refused_from_its_last_second_on(monkeypatch: pytest.MonkeyPatch) -> None:
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER)
    clock = Mock()
    monkeypatch.setattr(tokens, "current_time", clock)
    for now in (LATER - timedelta(hours=1), LATER - timedelta(seconds=1)):
        clock.return_value = now
        assert read(TokenKind.PILOT, token).claims == {"pilot": 7}
    clock.return_value = LATER
    with pytest.raises(InvalidTokenError, match="has expired"):
        read(TokenKind.PILOT, token)


def test_a_token_that_was_read_before_is_refused_once_its_key_is_no_fallback_any_more(settings: Settings) -> None:
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER)
    old, settings.SECRET_KEY = settings.SECRET_KEY, "another secret key of sufficient length, 50 characters"
    settings.SECRET_KEY_FALLBACKS = [old]
    read(TokenKind.PILOT, token)
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(InvalidTokenError, match="not valid"):
        read(TokenKind.PILOT, token)


def test_cached_claims_of_a_token_are_immutable() -> None:
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER)
    with pytest.raises(TypeError):
        read(TokenKind.PILOT, token).claims["pilot"] = 8  # type: ignore[index]


def test_a_token_is_a_json_web_token_of_the_pinned_algorithm() -> None:
    encoded = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER).removeprefix(PREFIXES[TokenKind.PILOT])
    assert jwt.get_unverified_header(encoded) == {"alg": "HS256", "typ": "JWT"}
    claims = jwt.decode(encoded, options={"verify_signature": False})
    assert claims == {"pilot": 7, "kind": "pilot", "exp": int(LATER.timestamp())}


def test_a_token_of_one_kind_never_passes_for_another() -> None:
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER)
    disguised = PREFIXES[TokenKind.JOB] + token.removeprefix(PREFIXES[TokenKind.PILOT])

    for forged in (token, disguised):
        with pytest.raises(InvalidTokenError):
            read(TokenKind.JOB, forged)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS384"])
def test_a_token_of_another_key_or_of_none_is_refused(algorithm: str) -> None:
    key = "" if algorithm == "none" else "k" * 48
    claims = {"pilot": 7, "kind": "pilot", "exp": int(LATER.timestamp())}
    with pytest.raises(InvalidTokenError, match="not valid"):
        read(TokenKind.PILOT, PREFIXES[TokenKind.PILOT] + jwt.encode(claims, key, algorithm=algorithm))


@pytest.mark.parametrize("left_out", ["exp", "kind"])
def test_a_token_that_lacks_what_is_always_signed_is_refused(left_out: str, settings: Settings) -> None:
    claims = {"pilot": 7, "kind": "pilot", "exp": int(LATER.timestamp())}
    del claims[left_out]
    encoded = jwt.encode(claims, tokens._key(TokenKind.PILOT, settings.SECRET_KEY), algorithm="HS256")
    with pytest.raises(InvalidTokenError, match="not valid"):
        read(TokenKind.PILOT, PREFIXES[TokenKind.PILOT] + encoded)


@pytest.mark.parametrize("text", ["", "wmsp_", "wmsp_x", "wmsp_a.b.c", "Bearer", "wmsp_\u00e9.\x00.\ud800"])
def test_an_invalid_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidTokenError):
        read(TokenKind.PILOT, text)


def test_a_changed_claim_breaks_the_signature() -> None:
    head, _, signature = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER).split(".")
    other = sign(TokenKind.PILOT, {"pilot": 8}, expires_at=LATER).split(".")[1]
    with pytest.raises(InvalidTokenError):
        read(TokenKind.PILOT, f"{head}.{other}.{signature}")


def test_a_token_outlives_a_change_of_the_secret_key_while_the_old_one_is_a_fallback(settings: Settings) -> None:
    token = sign(TokenKind.PILOT, {"pilot": 7}, expires_at=LATER)

    old, settings.SECRET_KEY = settings.SECRET_KEY, "another secret key of sufficient length, 50 characters"
    with pytest.raises(InvalidTokenError):
        read(TokenKind.PILOT, token)
    settings.SECRET_KEY_FALLBACKS = [old]
    assert read(TokenKind.PILOT, token).claims == {"pilot": 7}


def test_a_reserved_claim_cannot_be_signed() -> None:
    with pytest.raises(ValueError, match="reserved"):
        sign(TokenKind.PILOT, {"kind": "job"}, expires_at=LATER)
