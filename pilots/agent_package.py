"""The pilot agent as one file: a reproducible zipapp of ``pilots/agent``, built in memory."""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import pilots.agent

FILE_NAME = "agent.pyz"
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
        for name, content in _members():
            info = ZipInfo(name, date_time=_TIME)
            info.create_system, info.external_attr = _UNIX, _MODE << 16
            archive.writestr(info, content)
    content = packed.getvalue()
    return AgentPackage(content=content, sha256=hashlib.sha256(content).hexdigest())


def _members() -> Iterator[tuple[str, bytes]]:
    """Yield (name, content), sorted by name."""
    directory = Path(pilots.agent.__path__[0])
    yield "__main__.py", _MAIN
    yield "pilots/__init__.py", b""
    for path in sorted(directory.rglob("*.py"), key=Path.as_posix):
        yield f"pilots/agent/{path.relative_to(directory)}", path.read_bytes()
