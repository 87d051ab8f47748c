"""Rounding that keeps the number of task queues small (TQM)."""

from bisect import bisect_left
from collections.abc import Sequence


def cpu_segment_s(cpu_time_s: int, *, segments_s: Sequence[int]) -> int:
    """Return the smallest segment that contains *cpu_time_s*; above the last one, the last.

    Args:
        cpu_time_s: reference-core CPU seconds per core, ≥ 0.
        segments_s: ascending, at least one.

    Source: TQM, "Task Queue Implementation".
    """
    return segments_s[min(bisect_left(segments_s, cpu_time_s), len(segments_s) - 1)]


def in_steps(amount: int, *, step: int) -> int:
    """Return *amount* rounded up to a whole number of steps, both in the same unit; 0 (no requirement) stays 0."""
    return -(-amount // step) * step
