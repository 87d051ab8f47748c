"""The amounts of an offer that are options of ``match-test``.

A copy of what ``wms.kernel.amounts`` says of them, because the client is a distribution of its own;
``tests/architecture/test_client.py`` compares both.
"""

from __future__ import annotations

from typing import NamedTuple


class OfferedAmount(NamedTuple):
    """One amount of a slot."""

    name: str
    #: As shown; empty: things that are counted.
    unit: str
    help_of_slot: str


OFFERED_AMOUNTS = (
    OfferedAmount("processors", "", "Cores of the slot."),
    OfferedAmount("memory_mb", "MB", "Of the slot, in MB; 0: only for jobs that require no memory."),
    OfferedAmount("wall_time_s", "s", "Seconds until the slot ends; left out: not limited."),
    OfferedAmount("gpus", "", "GPUs of the slot."),
    OfferedAmount("disk_mb", "MB", "Of the slot, in MB; 0: only for jobs that require no disk space."),
)
