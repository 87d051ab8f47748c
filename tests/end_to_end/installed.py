"""Both distributions: built from their sources' archives, and installed together into a bare environment."""

import os
import subprocess
import sys
from pathlib import Path

from tests.pace import within
from tests.programs import needed
from wms.wire.version import __version__

ROOT = Path(__file__).resolve().parents[2]
#: Without what names the repository, or settings of the tests.
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("WMS_", "DJANGO_", "PYTHON", "VIRTUAL_ENV", "COV", "PYTEST"))
}


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, as a user outside of the repository, and return its output."""
    ended = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=within(300), check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def install(directory: Path) -> Path:
    """Return the directory of the programs of an environment with both wheels; the wheels are in ``dist``."""
    needed("uv")
    for project in (ROOT, ROOT / "wms" / "client"):
        # The wheel is built from the archive of the sources.
        run("uv", "build", "-q", project, "-o", directory / "dist", cwd=ROOT)
    assert {path.name for path in (directory / "dist").glob("wms*")} == {
        f"wms_{part}-{__version__}{end}" for part in ("client", "server") for end in (".tar.gz", "-py3-none-any.whl")
    }
    run("uv", "venv", "-q", "--python", sys.executable, directory / "venv", cwd=directory)
    # The packages of the tests' environment, and no other place from which they could come.
    here = Path(sys.prefix) / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    there = directory / "venv" / here.relative_to(sys.prefix)
    (there / "tests_environment.pth").write_text(f"{here}\n")
    wheels = sorted((directory / "dist").glob("*.whl"))
    run("uv", "pip", "install", "-q", "--no-deps", "--python", directory / "venv", *wheels, cwd=directory)
    pip = directory / "venv" / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {directory}/venv/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    return pip.parent
