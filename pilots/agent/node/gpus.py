"""The GPUs of the slot: those that the batch system gave to it, else those that the node shows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

#: A batch system says by these which GPUs are the slot's; set and empty: none is.
_GRANTS = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS")
_DEVICE = re.compile(r"nvidia(\d+)")
#: What ends a list: "no such device", to CUDA and to older batch systems.
_NONE = frozenset({"", "-1", "NoDevFiles"})


def of_slot(environment: Mapping[str, str], *, devices: Path) -> tuple[str, ...]:
    """Return the names by which CUDA knows the GPUs of the slot.

    Args:
        environment: the pilot's.
        devices: where the node's devices are: /dev.
    """
    for variable in _GRANTS:
        if variable in environment:
            return _named(environment[variable])
    try:
        found = [match[1] for path in devices.iterdir() if (match := _DEVICE.fullmatch(path.name))]
    except OSError:
        return ()
    return tuple(sorted(found, key=int))


def _named(grant: str) -> tuple[str, ...]:
    names: list[str] = []
    for name in (part.strip() for part in grant.split(",")):
        if name in _NONE:
            break  # CUDA does not look further either
        names.append(name)
    return tuple(dict.fromkeys(names))
