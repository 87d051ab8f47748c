"""``dirac``: DIRAC's own TaskQueueDB compared with this system, on the same rows, in the same run."""

from tests.benchmarks.dirac.comparison import run

__all__ = ["run"]
