"""The benchmarks by name; the function ``run`` of the module of that name runs each."""

from collections.abc import Mapping
from types import MappingProxyType

#: {name: what it measures}.
MEASURES: Mapping[str, str] = MappingProxyType(
    {
        "match": "matches in process, each with its commit, one after another",
        "dirac": "the same beside DIRAC 9.1 on MariaDB, in turns (installs both in a temporary directory)",
        "http": "POST /api/matches/ by many pilots at once, for a while",
        "contention": "the same on a single task queue",
    }
)
