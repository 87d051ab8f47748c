"""What holds for every test."""

import pytest
from django.conf import settings


def pytest_configure(config: pytest.Config) -> None:
    """Make passwords cheap: a safe hash takes longer than most tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
