"""Fixtures for every test."""

import fcntl
import gc
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from django.conf import settings
from django.db import connection, transaction
from django.test import TransactionTestCase
from pytest_django import DjangoDbBlocker

from taskqueues.services.index.shared import index
from tests.clock import reset_clock
from tests.named_tests import ROOT, has_named_tests, named_by_proofs, named_by_threat_model
from tests.servers import TEMPLATE
from tests.tables import empty_tables
from wms.accounts.security_log import refusals
from wms.kernel.memo import forget_brief_results
from wms.operations import tiles

# No example fails because the machine is slow.
hypothesis.settings.register_profile("wms", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# For the oldest dependencies: whether their functions are there and mean the same, not the logic.
hypothesis.settings.register_profile("few", hypothesis.settings.get_profile("wms"), max_examples=10)
# The nightly run tries a hundred.
hypothesis.settings.register_profile("default suite", hypothesis.settings.get_profile("wms"), max_examples=25)
hypothesis.settings.load_profile("wms")

# Where the tests run in the background, programs that they start would never hear a Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Run slow tests that are named, and make passwords, requests and emptied tables cheap."""
    named = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    if config.option.markexpr == "not slow" and all(map(is_slow, named)):
        config.option.markexpr = ""
    in_ci = config.option.markexpr == "not slow" or config.option.markexpr.startswith(("core", "root"))
    if in_ci and config.option.hypothesis_profile is None:
        hypothesis.settings.load_profile("default suite")
    TransactionTestCase._fixture_teardown = lambda _case: empty_tables()  # type: ignore[attr-defined] # not in stubs
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_USE_FINDERS = False
    settings.STATIC_ROOT = None  # WhiteNoise warns of a directory that is not there
    # All processes of the tests have one Redis, and users of the same numbers; servers of end-to-end tests count.
    settings.WMS_MAX_REQUESTS_PER_MINUTE = settings.WMS_MAX_SUBMISSIONS_PER_MINUTE = 0
    settings.WMS_MAX_SANDBOXES_PER_MINUTE = settings.WMS_MAX_CHANGES_PER_MINUTE = 0
    settings.WMS_USAGE_FACTOR = 1e12  # tests report hours of usage a moment after the match
    tiles.STATEMENT_WITHIN_S = 0.0  # type: ignore[misc] # no limit: a machine may be slow


#: Where all tests are slow: they run pilots, batch systems, browsers, other accounts, web servers or the whole system,
#: let many connections work concurrently, or try many generated inputs.
SLOW: Final = (
    "tests/agent",
    "tests/backends",
    "tests/end_to_end",
    "tests/openid_connect",
    "tests/attacks",
    "tests/chaos/test_short_run.py",
    "tests/concurrency",
    "tests/fuzz",
    "tests/portal/test_oidc_of_another_provider.py",
)
#: Tests whose branches are measured by ``--cov``; the others run programs of their own, or would take much longer.
MEASURED: Final = ("tests/unit", "tests/database", "tests/api")
#: Tests of a file that is begun first, if they are slow.
LARGE_FILE: Final = 40
_SLOW_PATHS: Final = tuple(str(ROOT / place) for place in SLOW)


def is_slow(path: Path) -> bool:
    return str(path).startswith(_SLOW_PATHS)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what collection makes, which stays to the end, out of garbage collections, and make these rare."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
    return result


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no module without a test that is asked for: to read all takes each worker half a minute.

    The environment of the default suite also lacks what modules of slow tests import.
    """
    chosen = config.option.markexpr
    if chosen == "not slow":
        return True if is_slow(collection_path) else None
    if collection_path.name.startswith("test_") and collection_path.is_file():
        if chosen.startswith("core"):
            return None if has_named_tests(collection_path) and has_slow_tests(collection_path) else True
        if chosen.startswith("root"):
            return None if "mark.root" in collection_path.read_text(encoding="utf-8") else True
    return None


def has_slow_tests(module: Path) -> bool:
    text = module.read_text(encoding="utf-8")
    return is_slow(module) or "mark.slow" in text or "quick_cases" in text


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark slow tests, and those of root; begin with the long ones; leave tests out of the measurement of branches."""
    of_proofs, of_threat_model = named_by_proofs(), named_by_threat_model()
    for item in items:
        if is_slow(item.path):
            item.add_marker("slow")
        test = item.nodeid.partition("[")[0]
        is_named = test in of_proofs or test.rpartition("::")[2] in of_threat_model
        is_core = item.nodeid in of_proofs or (is_named and not is_further_case(item))
        if is_core and item.get_closest_marker("slow") and not item.get_closest_marker("nightly"):
            item.add_marker("core")
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))
        if config.pluginmanager.hasplugin("_cov") and not item.nodeid.startswith(MEASURED):
            item.add_marker("no_cover")
    # Of the tests that are begun last none may keep one worker busy when the others are idle. The tests of a file run
    # in one worker, so large files are begun first, and then the longest tests, of whole systems and of pilots, which
    # need no database of the tests.
    of_file = Counter(item.path for item in items)
    items.sort(
        key=lambda item: (
            item.get_closest_marker("slow") is None,
            -of_file[item.path] if is_large(item, of_file) else 0,
            needs_database(item),
            not is_end_to_end(item),
        )
    )


def is_large(item: pytest.Item, of_file: Mapping[Path, int]) -> bool:
    return item.get_closest_marker("slow") is not None and of_file[item.path] >= LARGE_FILE


def is_further_case(item: pytest.Item) -> bool:
    """Return whether a case is not the first of its kind (tests/cases.py)."""
    case = getattr(item, "callspec", None)
    return case is not None and any(mark.name == "slow" for mark in case.marks)


def needs_database(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", [])
    return item.get_closest_marker("django_db") is not None or "db" in fixtures or "transactional_db" in fixtures


def is_end_to_end(item: pytest.Item) -> bool:
    return item.nodeid.startswith("tests/end_to_end/")


@pytest.fixture(scope="session")
def filled_template() -> None:
    """Make all tables once for all workers: each worker's database is then a copy of the template."""
    url = os.environ.get(TEMPLATE)
    if url is None:
        return
    with Path(os.environ["WMS_DATA_DIR"], "template").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.tell() == 0:
            command = [sys.executable, "manage.py", "migrate", "--verbosity=0"]
            subprocess.run(command, cwd=ROOT, env=os.environ | {"WMS_DATABASE_URL": url}, check=True)
            file.write("made\n")


@pytest.fixture(scope="session")
def _migrate_left_out(filled_template: None) -> pytest.MonkeyPatch:
    """Leave out the command `migrate`, which Django runs in each worker's database: a copy has all tables."""
    patch = pytest.MonkeyPatch()
    if TEMPLATE in os.environ:
        patch.setattr("django.core.management.call_command", lambda *_arguments, **_options: None)
    return patch


@pytest.fixture(scope="session")
def django_db_setup(_migrate_left_out: pytest.MonkeyPatch, django_db_setup: None) -> None:
    """Make the worker's database, by pytest-django's fixture of this name."""
    _migrate_left_out.undo()


@pytest.fixture(scope="module")
def rows_of_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Keep the rows that fixtures of the module make to its end; each test works in a savepoint, and cannot commit.

    A fixture of such rows gives each test a copy of its objects, which the test may change.
    """
    outermost = transaction.atomic()
    # As Django marks the transactions of its tests, in which durable blocks may begin.
    outermost._from_testcase = True  # type: ignore[attr-defined]
    with django_db_blocker.unblock(), outermost:
        # On a slow machine tests may go on for long without a query.
        connection.cursor().execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield
        transaction.set_rollback(True)


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
