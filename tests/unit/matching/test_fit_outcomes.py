"""The outcome of comparing a described job with the queues."""

import pytest

from matching.domain.findings import Fit, FitOutcome


def fit(*, fitting: int = 0, closed: int = 0) -> Fit:
    return Fit(queues=3, fitting=fitting, closed=closed, sites=(), exclusions=(), never="")


@pytest.mark.parametrize(
    ("compared", "outcome"),
    [
        (None, FitOutcome.CHECKING),
        (fit(), FitOutcome.NONE),
        (fit(closed=1), FitOutcome.CLOSED),
        (fit(fitting=1), FitOutcome.FITS),
        (fit(fitting=1, closed=1), FitOutcome.FITS),
    ],
)
def test_the_outcome_is_that_of_the_best_queue(compared: Fit | None, outcome: FitOutcome) -> None:
    assert FitOutcome.of(compared) is outcome
