"""Programs that some tests need: without one a test is skipped at a desk, and fails in CI, which installs them."""

import os
import shutil

import pytest


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
