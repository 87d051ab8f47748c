"""Seeds of tests that make their input by chance."""

import pytest


def seeds(number: int, *, quick: int) -> list[object]:
    """Return the seeds from 0 to *number* - 1 for ``parametrize``; those from *quick* on are slow."""
    return [pytest.param(seed, marks=[pytest.mark.slow] if seed >= quick else []) for seed in range(number)]
