"""Two Slurm clusters and a plain host behind SSH for each test that asks for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.pilots.grid import Farms, farms
from tests.end_to_end.pilots.workload import remove_leftovers


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Farms]:
    with farms(tmp_path) as made:
        try:
            yield made
        finally:
            remove_leftovers(made.shared)
