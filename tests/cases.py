"""Cases of one test, of which the default suite runs the first."""

from collections.abc import Iterable

import pytest


def quick_cases(values: Iterable[object], *, quick: int) -> list[object]:
    """Return the *values*, tuples for several names, for ``parametrize``; all but the first *quick* are slow.

    For many cases of one kind, such as the seeds of a random input or all pages with the same rule.
    """
    return [
        pytest.param(*(value if isinstance(value, tuple) else [value]), marks=[pytest.mark.slow] * (n >= quick))
        for n, value in enumerate(values)
    ]
