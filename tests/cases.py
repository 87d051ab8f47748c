"""Cases of one test, of which the default suite, or the slow core, runs the first."""

from collections.abc import Iterable

import hypothesis
import pytest
from _pytest.mark.structures import ParameterSet


def quick_cases(values: Iterable[object], *, quick: int) -> list[object]:
    """Return the *values*, each as ``parametrize`` takes it, for ``parametrize``; all but the first *quick* are slow.

    For many cases of one kind, such as the seeds of a random input or all pages with the same rule. The slow core has
    further cases only where tests/proofs.yaml names them.
    """
    cases = [value if isinstance(value, ParameterSet) else pytest.param(*_values(value)) for value in values]
    return [
        pytest.param(*case.values, id=case.id, marks=[*case.marks, *[pytest.mark.slow] * (number >= quick)])
        for number, case in enumerate(cases)
    ]


def examples(number: int) -> int:
    """Return how many examples of a property to try where the nightly run tries *number*: a quarter in the others."""
    return max(1, number * hypothesis.settings().max_examples // 100)


def _values(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)
