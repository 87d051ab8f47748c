"""Where the sandboxes of tests are."""

from pathlib import Path

import pytest
from pytest_django import Settings


@pytest.fixture
def directory(settings: Settings, tmp_path: Path) -> Path:
    """The directory of this test's sandboxes."""
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    return tmp_path
