"""GPUs of the slot: those that the batch system allocates, else those of the node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import NamedTuple

from pilots.agent.node import cgroups

_DEV, _SYS = Path("/dev"), Path("/sys")
#: Variables of batch systems that number the allocated GPUs, whatever their kind; set but empty: none.
_NUMBERED = ("SLURM_JOB_GPUS", "_CONDOR_AssignedGPUs")
#: HTCondor's numbers have a prefix, such as CUDA0.
_PREFIX = re.compile(r"^[A-Za-z]+(?=\d+$)")
#: Values that end a list: no such device, for CUDA and for older batch systems.
_NO_GPU = frozenset({"", "-1", "NoDevFiles"})
_NVIDIA_DEVICE = re.compile(r"nvidia(\d+)")
_SIMD_COUNT = re.compile(r"^simd_count ([0-9]+)$", re.MULTILINE)
#: PCI vendor, and classes of adapters without a screen: graphics of desktops are not offered.
_INTEL, _COMPUTES = "0x8086", ("0x0302", "0x0380")


class Gpus(NamedTuple):
    """GPUs of one kind.

    Attributes:
        variable: environment variable whose value selects the GPUs that a process sees.
        names: of the GPUs, as that variable has them.
        container_options, directories: those that give a container such GPUs.
    """

    variable: str
    names: tuple[str, ...]
    container_options: tuple[str, ...]
    directories: tuple[Path, ...]


def of_slot(environment: Mapping[str, str], *, devices: Path = _DEV, sysfs: Path = _SYS) -> Gpus:
    """Return the GPUs of the slot: of several kinds, those of the first kind that the node has.

    Args:
        environment: the pilot's.
        devices: directory of the node's devices.
        sysfs: directory where the kernel describes them.
    """
    found = {kind: kind.found(devices, sysfs) for kind in _KINDS}
    usual = next((kind for kind in _KINDS if found[kind]), _KINDS[0])
    granted = {kind: _named(environment[kind.variable]) for kind in _KINDS if kind.variable in environment}
    if not granted and (number := next((name for name in _NUMBERED if name in environment), None)) is not None:
        granted = {usual: tuple(_PREFIX.sub("", name) for name in _named(environment[number]))}
    # Slurm sets the variables of all kinds, unless it is configured for one.
    of_kind = granted or found
    with_names = [kind for kind in of_kind if of_kind[kind]]
    kind = next((kind for kind in with_names if found[kind]), (with_names or [usual])[0])
    return Gpus(kind.variable, _whole(of_kind.get(kind, ())), kind.container_options, kind.directories)


def show_only(names: Iterable[str], environment: MutableMapping[str, str]) -> None:
    """Change the environment so that these GPUs are those of the slot."""
    chosen = of_slot(environment).variable
    for kind in _KINDS:
        environment.pop(kind.variable, None)
    environment[chosen] = ",".join(names)


def _named(grant: str) -> tuple[str, ...]:
    names: list[str] = []
    for name in (part.strip() for part in grant.split(",")):
        if name in _NO_GPU:
            break  # as CUDA does
        names.append(name)
    return tuple(dict.fromkeys(names))


def _whole(names: tuple[str, ...]) -> tuple[str, ...]:
    """Join the names of the tiles of each GPU, as Level Zero has them: 0.0, 0.1 and 1.0 are of two GPUs."""
    tiles: dict[str, list[str]] = {}
    for name in names:
        tiles.setdefault(name.partition(".")[0], []).append(name)
    return tuple(map(",".join, tiles.values()))


def _nvidia(devices: Path, _: Path) -> tuple[str, ...]:
    numbers = [match[1] for path in _in(devices, "*") if (match := _NVIDIA_DEVICE.fullmatch(path.name))]
    return tuple(sorted(numbers, key=int))


def _amd(devices: Path, sysfs: Path) -> tuple[str, ...]:
    """Return the GPUs among the nodes of ROCm's driver, which describes none that the process may not use."""
    nodes = _in(sysfs, "class/kfd/kfd/topology/nodes/*/properties") if (devices / "kfd").exists() else ()
    counts = (_SIMD_COUNT.search(cgroups.read(node)) for node in nodes)
    return _numbers(count is not None and int(count[1]) > 0 for count in counts)


def _intel(devices: Path, sysfs: Path) -> tuple[str, ...]:
    adapters = [sysfs / "class" / "drm" / path.name / "device" for path in _in(devices, "dri/renderD*")]
    return _numbers(
        cgroups.read(adapter / "vendor").strip() == _INTEL and cgroups.read(adapter / "class").startswith(_COMPUTES)
        for adapter in adapters
    )


def _in(directory: Path, pattern: str) -> Iterable[Path]:
    try:
        return list(directory.glob(pattern))
    except OSError:
        return ()


def _numbers(are_gpus: Iterable[bool]) -> tuple[str, ...]:
    """Return the numbers from 0 of as many GPUs, as the vendors' libraries number those that a process may use."""
    return tuple(map(str, range(sum(are_gpus))))


class _Kind(NamedTuple):
    variable: str
    container_options: tuple[str, ...]
    directories: tuple[Path, ...]
    #: Names of the node's GPUs of this kind.
    found: Callable[[Path, Path], tuple[str, ...]]


#: Of NVIDIA (CUDA), AMD (ROCm) and Intel (Level Zero).
_KINDS = (
    _Kind("CUDA_VISIBLE_DEVICES", ("--nv",), (), _nvidia),
    _Kind("ROCR_VISIBLE_DEVICES", ("--rocm",), (), _amd),
    _Kind("ZE_AFFINITY_MASK", (), (_DEV / "dri",), _intel),
)
