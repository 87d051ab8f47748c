"""The report of a pilot on its node, as readable text: amounts with units, and lists.

The report is untrusted: names may be missing and values of another type.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from wms.kernel.time_texts import duration

#: Keys that pages show elsewhere: the node check, and the flaws that jobs reported.
_SHOWN_ELSEWHERE: Final = frozenset({"ok", "checks", "flaws", "batch_id"})
#: {property: label}, in the order of a page; other properties follow in alphabetical order.
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
        "proxy": "Proxy to the server",
        "user": "Unix user id",
        "kernel": "Kernel",
        "glibc": "C library",
        "python": "Python",
        "agent": "Agent",
        "protocol": "Protocol",
    }
)
_WORDS: Final = MappingProxyType({True: "yes", False: "no", None: ""})
#: A larger number is no memory or time.
_LARGEST: Final = 1e15


class NodeProperty(NamedTuple):
    """One property of a node, or of a batch request; the value is empty if it has none."""

    label: str
    value: str


class CheckedItem(NamedTuple):
    """One item of the node check."""

    name: str
    fit: bool
    detail: str


class MissingItem(NamedTuple):
    """Something that a job did not find on the node."""

    name: str
    detail: str
    #: When it was reported, by the server's clock; empty: not known.
    at: str


def properties(report: Mapping[str, object]) -> Sequence[NodeProperty]:
    """Return the properties of a node, in the order of a page."""
    labelled = [name for name in _LABELS if name in report]
    others = sorted(report.keys() - _LABELS.keys() - _SHOWN_ELSEWHERE)
    return [NodeProperty(_label(name), _in_words(name, report[name])) for name in (*labelled, *others)]


def asked(slot: Mapping[str, object]) -> Sequence[NodeProperty]:
    """Return what a batch request requires; 0 and an empty list require nothing."""
    return properties({name: value for name, value in slot.items() if value})


def checks(report: Mapping[str, object]) -> Sequence[CheckedItem]:
    """Return the items of the node check, made before the first job (PIL §2.1), in the pilot's order."""
    return [
        CheckedItem(_spaced(str(item.get("name", ""))), item.get("ok") is True, str(item.get("detail", "")))
        for item in _records(report.get("checks"))
    ]


def missed(report: Mapping[str, object]) -> Sequence[MissingItem]:
    """Return what jobs did not find on the node, the latest last."""
    return [
        MissingItem(
            str(item.get("name", "")), str(item.get("detail", "")), str(item.get("at", ""))[:19].replace("T", " ")
        )
        for item in _records(report.get("flaws"))
    ]


def amount_mb(amount: float) -> str:
    """Return megabytes as readable text, such as "500 MB" or "76 GB"."""
    for unit, size in (("TB", 1024**2), ("GB", 1024)):
        if abs(amount) >= size:
            return f"{amount / size:.{1 if abs(amount) < 10 * size else 0}f} {unit}"
    return f"{amount:.0f} MB"


def _label(name: str) -> str:
    if name in _LABELS:
        return _LABELS[name]
    # The unit is shown with the value.
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
    """Return a number without superfluous digits: whole ones whole, others with two decimals."""
    return f"{number:d}" if isinstance(number, int) else f"{number:.2f}".rstrip("0").rstrip(".")


def _scratch(directories: Sequence[object]) -> Iterator[str]:
    """Yield each scratch directory with its free space, or why jobs cannot use it."""
    for record in _records(directories):
        variable, free, flaw = record.get("variable"), record.get("free_mb"), record.get("flaw")
        named = f" ({variable})" if variable else ""
        room = f"{_in_words('free_mb', free)} free" if free is not None else ""
        yield f"{record.get('path', '')}{named}: {flaw or room}"


def _records(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
