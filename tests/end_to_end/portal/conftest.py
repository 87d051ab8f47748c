"""Fixtures for every test in a browser."""

import pytest
from playwright.sync_api import expect

from tests.pace import within


@pytest.fixture(autouse=True)
def _patience() -> None:
    """Let a page take as long as the machine's pace allows to show what is expected, instead of five seconds."""
    expect.set_options(timeout=1000 * within(30))
