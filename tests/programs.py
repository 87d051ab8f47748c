"""External programs of tests: without one, a test is skipped locally and fails in CI, which installs them."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: Not /tmp and the like: payloads have their own.
_EVERYBODYS = ("/srv", "/run/lock")


@contextmanager
def directory_of_agents() -> Iterator[Path]:
    """Yield a directory with a short path; under root other users can enter it, because payloads are other users."""
    directory = Path(tempfile.mkdtemp(prefix="wms-test-", dir="/tmp"))
    if os.geteuid() == 0:
        directory.chmod(0o1777)  # sticky as /tmp: a server that reads in it trusts no other
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def directory_of_payloads() -> Iterator[Path]:
    """Yield a directory where a test and payloads of any user and namespace may write."""
    place = next((each for each in _EVERYBODYS if os.access(each, os.W_OK | os.X_OK)), None)
    if place is None:
        pytest.skip(f"none of {', '.join(_EVERYBODYS)} can be written to")
    with tempfile.TemporaryDirectory(prefix="wms-test-", dir=place, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o777)
        yield Path(directory)


def needed(*names: str) -> None:
    """Skip the test, or fail in CI, unless all these programs are on the path."""
    missing = [
        name for name in names if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None
    ]
    if not missing:
        return
    sentence = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
    if os.environ.get("CI"):
        pytest.fail(f"{sentence}; .ci/run installs what tests need")
    pytest.skip(sentence)
