"""The pilot agent as one file: a reproducible zipapp of ``pilots/agent`` and SHARED_MODULES, built in memory."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import pilots.agent

FILE_NAME = "agent.pyz"
#: Modules of the server that the agent imports too; their packages are empty in the zipapp. The agent's import contract
#: (pyproject.toml) allows no others.
SHARED_MODULES = ("wms.kernel.amounts", "wms.kernel.protocol")
_SHEBANG = b"#!/usr/bin/env python3\n"
#: Earliest time of a zip file: the current time would change the file and its SHA-256.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644
#: Valid in every version of Python, so that an old one prints a sentence and no traceback.
_MAIN = b"""\
import sys

if sys.version_info < (3, 9):
    sys.exit("The pilot agent needs Python 3.9 or newer; this is %d.%d." % sys.version_info[:2])

from pilots.agent.__main__ import main

sys.exit(main())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPackage:
    """The program that a pilot fetches and runs, with its checksum."""

    content: bytes = field(repr=False)
    #: Hexadecimal.
    sha256: str


@cache
def agent_package() -> AgentPackage:
    """Return the zipapp; built once in each process.

    Stored, not compressed: the compressed bytes depend on the version of zlib.
    """
    packed = io.BytesIO(_SHEBANG)
    packed.seek(0, io.SEEK_END)
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        for path, content in _members():
            info = ZipInfo(path.as_posix(), date_time=_TIME)
            info.create_system, info.external_attr = _UNIX, _MODE << 16
            archive.writestr(info, content)
    content = packed.getvalue()
    return AgentPackage(content=content, sha256=hashlib.sha256(content).hexdigest())


def _members() -> Iterator[tuple[Path, bytes]]:
    """Yield (path, content), sorted by path."""
    directory = Path(pilots.agent.__path__[0])
    root = directory.parents[1]
    modules = [root.joinpath(*name.split(".")).with_suffix(".py") for name in SHARED_MODULES]
    contents = {path.relative_to(root): path.read_bytes() for path in [*directory.rglob("*.py"), *modules]}
    packages = {package / "__init__.py": b"" for path in contents for package in path.parents[:-1]}
    yield from sorted({Path("__main__.py"): _MAIN, **packages, **contents}.items())
