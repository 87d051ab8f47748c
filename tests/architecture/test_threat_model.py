"""Every test that the threat model names exists."""

import re

from tests.named_tests import ROOT, THREAT_MODEL, defined_tests, named_by_threat_model


def test_every_test_that_it_names_exists() -> None:
    named = named_by_threat_model()
    assert named
    assert named - {test.rsplit("::", 1)[1] for test in defined_tests()} == set()


def test_every_attacker_of_the_threat_model_has_tests() -> None:
    rows = [line for line in THREAT_MODEL.splitlines() if line.startswith("| **")]
    assert len(rows) >= 8
    assert [row for row in rows if "`test_" not in row.split("|")[-2]] == []


def test_every_file_that_it_names_exists() -> None:
    named = re.findall(r"`((?:tests|docs|wms)/[\w/.-]+)`", THREAT_MODEL)
    assert [name for name in named if not (ROOT / name).exists()] == []
