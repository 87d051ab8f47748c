"""What the database refuses about VOs."""

import pytest
from django.db import IntegrityError

from tests.factories import make_vo

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("fraction", [-0.001, 1.001, float("nan"), float("inf")])
def test_a_vo_any_segment_fraction_is_0_to_1(fraction: float) -> None:
    with pytest.raises(IntegrityError, match="vo_any_segment_fraction_is_0_to_1"):
        make_vo(any_segment_fraction=fraction)


@pytest.mark.parametrize("fraction", [0.0, 0.1, 1.0])
def test_any_fraction_from_0_to_1_is_stored(fraction: float) -> None:
    assert make_vo(any_segment_fraction=fraction).any_segment_fraction == fraction
