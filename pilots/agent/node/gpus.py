"""The GPUs of the slot: those that the batch system allocated, else all of the node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

#: Variables with the allocated GPUs; set but empty: none.
_GRANTS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS")
_DEVICE = re.compile(r"nvidia(\d+)")
#: Values that end a list: no such device, for CUDA and for older batch systems.
_NONE = frozenset({"", "-1", "NoDevFiles"})


def of_slot(environment: Mapping[str, str], *, devices: Path) -> tuple[str, ...]:
    """Return the CUDA names of the GPUs of the slot.

    Args:
        environment: the pilot's.
        devices: directory of the node's devices, /dev.
    """
    for variable in _GRANTS:
        if variable in environment:
            return _named(environment[variable])
    try:
        numbers = [match[1] for path in devices.iterdir() if (match := _DEVICE.fullmatch(path.name))]
    except OSError:
        return ()
    return tuple(sorted(numbers, key=int))


def _named(grant: str) -> tuple[str, ...]:
    names: list[str] = []
    for name in (part.strip() for part in grant.split(",")):
        if name in _NONE:
            break  # as CUDA does
        names.append(name)
    return tuple(dict.fromkeys(names))
