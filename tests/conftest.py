"""Fixtures for every test."""

import signal
from collections.abc import Iterator

import hypothesis
import pytest
from django.conf import settings
from django.test import TransactionTestCase

from taskqueues.services.index.shared import index
from tests.clock import reset_clock
from tests.tables import empty_tables
from wms.accounts.security_log import refusals
from wms.kernel.memo import forget_brief_results

# No example fails because the machine is slow.
hypothesis.settings.register_profile("wms", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("wms")

# Where the tests run in the background, programs that they start would never hear a Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Make passwords, requests and emptied tables cheap: each takes longer than a test."""
    TransactionTestCase._fixture_teardown = lambda _case: empty_tables()  # type: ignore[attr-defined] # not in stubs
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_USE_FINDERS = False
    settings.STATIC_ROOT = None  # WhiteNoise warns of a directory that is not there
    # All processes of the tests have one Redis, and users of the same numbers; servers of end-to-end tests count.
    settings.WMS_MAX_REQUESTS_PER_MINUTE = settings.WMS_MAX_SUBMISSIONS_PER_MINUTE = 0
    settings.WMS_MAX_SANDBOXES_PER_MINUTE = 0


#: Tests that take longest. They are begun first: of the last ones none keeps a worker busy when the others are idle.
LONG = ("tests/end_to_end", "tests/attacks", "tests/backends")
#: Tests whose branches are measured by ``--cov``; the others run programs of their own, or would take much longer.
MEASURED = ("tests/unit", "tests/database")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the long tests, and leave tests out of the measurement of branches, if there is one."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    if config.pluginmanager.hasplugin("_cov"):
        for item in items:
            if not item.nodeid.startswith(MEASURED):
                item.add_marker("no_cover")


@pytest.fixture(autouse=True)
def fresh_index() -> Iterator[None]:
    """Start each test without the index of another test's rows, and close the connection of its thread."""
    yield
    index.forget()


@pytest.fixture(autouse=True)
def fresh_refusals() -> None:
    """Start each test without the counted refusals of another test."""
    refusals.forget()


@pytest.fixture(autouse=True)
def fresh_memos() -> None:
    """Start each test without results of another test's rows."""
    forget_brief_results()


@pytest.fixture
def clock() -> Iterator[None]:
    """Set the database's clock back after a test that moves it."""
    yield
    reset_clock()
