"""Texts of sites that stay parsed."""

import tracemalloc

from resources.domain.throttle_conditions import expression_and_reach, parsed_or_none


def test_ever_new_advertisements_take_a_bounded_amount_of_memory() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for advertisement in range(200):
            classad = f'Name = "{"x" * 20_000}"\nRunning = {advertisement}\nRequirements = Running < 100'
            assert parsed_or_none(classad) is not None
            assert expression_and_reach(None, classad)[0] is not None
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All of them would take 8 MB.
    assert after - before < 2_500_000
