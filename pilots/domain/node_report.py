"""What pilots tell of their nodes, in words: amounts with units as people read them, and lists as lists.

A pilot says what it likes: nothing here trusts a name to be there or a value to be of its kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

#: What has places of its own on a page: the check of the node, and what its jobs missed there.
_TOLD_ELSEWHERE: Final = frozenset({"ok", "checks", "flaws", "batch_id"})
#: {property: label}, in the order in which people look for them; what is not here comes after these, by its name.
_LABELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "platform": "Platform",
        "processors": "Processors",
        "processors_of_machine": "Processors of the machine",
        "speed": "Speed (1: the reference core)",
        "benchmark_units_per_s": "Benchmark (units per second)",
        "load": "Load (1, 5, 15 minutes)",
        "memory_mb": "Memory",
        "memory_available_mb": "Memory available",
        "disk_free_mb": "Disk free",
        "gpus": "GPUs",
        "work_directory": "Work directory",
        "scratch": "Scratch directories",
        "cvmfs": "CVMFS repositories",
        "container_runtime": "Container runtime",
        "container_runtime_version": "Container runtime version",
        "user_namespaces": "User namespaces",
        "clock_skew_s": "Clock ahead by",
        "user": "Unix user id",
        "kernel": "Kernel",
        "glibc": "C library",
        "python": "Python",
        "agent": "Agent",
        "protocol": "Protocol",
    }
)
_WORDS: Final = MappingProxyType({True: "yes", False: "no", None: ""})
#: A number beyond is nobody's memory or time.
_LARGEST: Final = 1e15


class NodeProperty(NamedTuple):
    """One thing that a pilot told of its node, or that was asked of a batch system; an empty value: it has none."""

    label: str
    value: str


class CheckedItem(NamedTuple):
    """One thing that a pilot looked at on its node."""

    name: str
    fit: bool
    detail: str


class MissingItem(NamedTuple):
    """One thing that a job did not find on the node."""

    name: str
    detail: str
    #: When, as the server noted it; empty: not known.
    at: str


def properties(told: Mapping[str, object]) -> Sequence[NodeProperty]:
    """Return the properties of a node, in the order in which people look for them."""
    known = [name for name in _LABELS if name in told]
    others = sorted(told.keys() - _LABELS.keys() - _TOLD_ELSEWHERE)
    return [NodeProperty(_label(name), _in_words(name, told[name])) for name in (*known, *others)]


def asked(slot: Mapping[str, object]) -> Sequence[NodeProperty]:
    """Return what was asked of a batch system; 0 and an empty list ask nothing of it."""
    return properties({name: value for name, value in slot.items() if value})


def checks(told: Mapping[str, object]) -> Sequence[CheckedItem]:
    """Return what the pilot looked at before it had any job (PIL §2.1), in its order."""
    return [
        CheckedItem(_spaced(str(one.get("name", ""))), one.get("ok") is True, str(one.get("detail", "")))
        for one in _records(told.get("checks"))
    ]


def missed(told: Mapping[str, object]) -> Sequence[MissingItem]:
    """Return what jobs did not find on the node, the latest last."""
    return [
        MissingItem(str(one.get("name", "")), str(one.get("detail", "")), str(one.get("at", ""))[:19].replace("T", " "))
        for one in _records(told.get("flaws"))
    ]


def amount_mb(amount: float) -> str:
    """Return megabytes as people read them, such as "500 MB" or "76 GB"."""
    for unit, size in (("TB", 1024**2), ("GB", 1024)):
        if abs(amount) >= size:
            return f"{amount / size:.{1 if abs(amount) < 10 * size else 0}f} {unit}"
    return f"{amount:.0f} MB"


def duration(seconds: float) -> str:
    """Return seconds as people read them, such as "0.2 s", "25 min" or "48 h"."""
    for unit, size in (("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{_number(round(seconds / size, 1))} {unit}"
    return f"{_number(round(seconds, 1))} s"


def _label(name: str) -> str:
    if name in _LABELS:
        return _LABELS[name]
    # The unit stands beside the value.
    words = _spaced(name.removesuffix("_mb").removesuffix("_gb").removesuffix("_s"))
    return words[:1].upper() + words[1:]


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _in_words(name: str, value: object) -> str:
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int | float):
        return _measured(name, value)
    if isinstance(value, Mapping):
        return "\n".join(f"{_spaced(str(key))}: {_in_words(str(key), each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        if name == "scratch":
            return "\n".join(_scratch(value))
        parts = [_in_words(name, each) for each in value]
        return ("\n" if any("\n" in part for part in parts) else ", ").join(parts)
    return str(value)


def _measured(name: str, number: float) -> str:
    if not -_LARGEST < number < _LARGEST:
        return str(number)
    if name.endswith("_mb"):
        return amount_mb(number)
    if name.endswith("_gb"):
        return amount_mb(number * 1024)
    if name.endswith("_s") and not name.endswith("_per_s"):
        return duration(number)
    return _number(number)


def _number(number: float) -> str:
    """Return a number with as many digits as are worth reading: whole ones whole, others with two decimals."""
    return f"{number:d}" if isinstance(number, int) else f"{number:.2f}".rstrip("0").rstrip(".")


def _scratch(directories: Sequence[object]) -> Iterator[str]:
    """Yield each directory where jobs could run, with what is free there, or why they could not."""
    for one in _records(directories):
        variable, free, flaw = one.get("variable"), one.get("free_mb"), one.get("flaw")
        named = f" ({variable})" if variable else ""
        room = f"{_in_words('free_mb', free)} free" if free is not None else ""
        yield f"{one.get('path', '')}{named}: {flaw or room}"


def _records(told: object) -> Sequence[Mapping[str, object]]:
    return [one for one in told if isinstance(one, Mapping)] if isinstance(told, list) else []
