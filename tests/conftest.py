"""What holds for every test."""

import pytest
from django.conf import settings


def pytest_configure(config: pytest.Config) -> None:
    """Make passwords and requests cheap: a safe hash, and a walk through all static files, take longer than a test."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_USE_FINDERS = False
    settings.STATIC_ROOT = None  # WhiteNoise warns of a directory that is not there
