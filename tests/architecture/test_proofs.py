"""Each condition, invariant and kind of computing element has a proof: a test that exists."""

from typing import Final

import pytest
from django.conf import settings

from matching.queries.invariants import INVARIANTS
from taskqueues.domain.conditions import CONDITIONS
from tests.named_tests import PROOFS, defined_tests, named_by_proofs

PARTS: Final = ["conditions", "invariants", "backends", "faults", "users"]


def test_the_proofs_have_all_conditions_invariants_and_backends() -> None:
    assert list(PROOFS) == PARTS
    assert list(PROOFS["conditions"]) == list(CONDITIONS)
    assert list(PROOFS["invariants"])[: len(INVARIANTS)] == list(INVARIANTS)
    assert set(settings.WMS_BACKENDS) <= set(PROOFS["backends"])


@pytest.mark.parametrize("part", PARTS)
def test_everything_has_a_proof(part: str) -> None:
    assert [rule for rule, tests in PROOFS[part].items() if not tests] == []


def test_every_test_of_the_proofs_exists() -> None:
    assert {test for test in named_by_proofs() if test.split("[")[0] not in defined_tests()} == set()
