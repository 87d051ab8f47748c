"""The number of examples of the fuzz tests, and the system that they use.

``uv run pytest`` takes some examples of each kind, the same each time. For a longer run with other examples each time:
``FUZZ_EXAMPLES=1000 uv run pytest tests/fuzz``.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, settings
from pytest_django import Settings

from tests.fuzz.sample import SampleData, make_sample
from tests.oidc import scripted_provider
from tests.tables import undone

LONG = "FUZZ_EXAMPLES" in os.environ
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "10"))

settings.register_profile(
    "fuzz",
    max_examples=EXAMPLES,
    derandomize=not LONG,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
Fresh = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def _one_connection(db: None) -> Iterator[None]:
    """Let requests use the test's transaction, as Django's own client does; else each would close the connection."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture
def sample(_one_connection: None, settings: Settings, tmp_path: Path) -> Iterator[SampleData]:
    """Yield the sample system, with its sandboxes in a directory of their own, and a provider of OpenID Connect."""
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}
    with scripted_provider(settings):
        yield make_sample()


@pytest.fixture
def fresh() -> Fresh:
    """Return a context at whose end all changes of rows are undone."""

    return undone
