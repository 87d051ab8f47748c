"""A weak or published key in WMS_SECRET_KEY_FALLBACKS could sign tokens and sessions; it is refused."""

import os
import subprocess
import sys

import pytest
from pytest_django import Settings

from wms.kernel import checks

GOOD_KEY = "a0b1c2d3e4f5g6h7i8j9k0l1m2n3o4p5q6r7s8t9u0v1w2x3y4z5"
OLD_KEY = "z5y4x3w2v1u0t9s8r7q6p5o4n3m2l1k0j9i8h7g6f5e4d3c2b1a0"


@pytest.fixture
def production(settings: Settings) -> Settings:
    """Return settings that a production start accepts, with the database of the tests."""
    settings.WMS_EMBEDDED = False
    settings.DEBUG = False
    settings.SECRET_KEY = GOOD_KEY
    return settings


def refusals() -> list[str]:
    return [str(error.msg) for error in checks.check_production() if "FALLBACKS" in error.msg]


@pytest.mark.parametrize("weak", ["", "short", "ab" * 40])
def test_a_weak_fallback_is_refused_by_its_place_and_never_printed(production: Settings, weak: str) -> None:
    production.SECRET_KEY_FALLBACKS = [OLD_KEY, weak]
    (refusal,) = refusals()
    assert refusal.startswith("Key 2 of WMS_SECRET_KEY_FALLBACKS is too easy to guess")
    assert not weak or weak not in refusal


def test_the_default_key_is_refused_as_a_fallback(production: Settings) -> None:
    production.SECRET_KEY_FALLBACKS = [production.INSECURE_SECRET_KEY]
    (refusal,) = refusals()
    assert refusal.startswith("Key 1 of WMS_SECRET_KEY_FALLBACKS is the default")


def test_a_strong_fallback_is_accepted(production: Settings) -> None:
    production.SECRET_KEY_FALLBACKS = [OLD_KEY]
    assert refusals() == []


def test_a_server_does_not_start_with_the_default_key_as_a_fallback() -> None:
    environment = {**os.environ, "WMS_EMBEDDED": "0", "WMS_SECRET_KEY": GOOD_KEY, "WMS_SECRET_KEY_FALLBACKS": "x"}
    start = "import django; django.setup(); from wms.kernel.checks import refuse_unsafe_start; refuse_unsafe_start()"
    done = subprocess.run([sys.executable, "-c", start], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Key 1 of WMS_SECRET_KEY_FALLBACKS" in done.stderr
