"""A server whose pilots run jobs, and the client alone, installed from its wheel."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.docs.system import running_system
from tests.end_to_end.installed import run
from tests.programs import directory_of_agents


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledClient:
    """A bare virtual environment with the client.

    Args:
        programs: directory of `wms` and `python`.
        packages: directory of the package `wms_client`.
    """

    programs: Path
    packages: Path


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Yield a directory that the accounts of payloads can enter."""
    with directory_of_agents() as made:
        yield made


@pytest.fixture(scope="module")
def client(installed: Path, directory: Path) -> InstalledClient:
    """Return the client, installed by its name and without the index, as from the index of a VO."""
    run(sys.executable, "-m", "venv", directory / "venv", cwd=directory)
    programs, wheels = directory / "venv" / "bin", installed.parents[1] / "dist"
    run(programs / "pip", "install", "-q", "--no-index", "--find-links", wheels, "wms-client", cwd=directory)
    (package,) = (directory / "venv").glob("lib/python*/site-packages/wms_client")
    return InstalledClient(programs=programs, packages=package.parent)


@pytest.fixture(scope="module")
def server(installed: Path, directory: Path) -> Iterator[str]:
    """Yield the address of the system of the documentation."""
    with running_system(installed, directory / "system") as system:
        yield system.url
