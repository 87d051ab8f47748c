"""JDL in the shapes that users of DIRAC and gLite bring: what becomes of each file is kept beside it."""

import json

import pytest

from tests.unit.jobs.jdl_outcomes import files, outcome_of


def test_a_jdl_of_the_corpus_has_its_expected_outcome(subtests: pytest.Subtests) -> None:
    for file in files():
        with subtests.test(file.stem):
            kept = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
            outcome = outcome_of(file.read_text(encoding="utf-8"))
            assert outcome == kept, "if it is meant: python -m tests.unit.jobs.jdl_outcomes"


def test_the_corpus_is_large_and_has_an_outcome_of_each_kind() -> None:
    kept = [json.loads(file.with_suffix(".json").read_text(encoding="utf-8")) for file in files()]
    assert len(kept) >= 60
    assert sum("description" in outcome for outcome in kept) >= 40
    assert sum(bool(outcome.get("warnings")) for outcome in kept) >= 20
    assert sum("error" in outcome for outcome in kept) >= 10
