"""The options of computing elements agree with their documentation."""

import re
from pathlib import Path

import pytest
from django.conf import settings

from pilots.services.ce_backends import flaw_of_options

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "computing-elements.md"


@pytest.mark.parametrize("kind", settings.WMS_BACKENDS)
def test_every_option_of_every_kind_is_documented(kind: str) -> None:
    refused = flaw_of_options("site", "ce", kind, {"nonsense": 1}, "none")
    assert refused is not None
    options = re.findall(r"\w+", refused.partition("it has ")[2].partition(".")[0])
    documented = set(re.findall(r"`(\w+)[`:]", DOCUMENTATION.read_text()))
    assert options
    assert set(options) <= documented
