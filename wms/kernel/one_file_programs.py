"""Programs of one file (zipapps), built in memory, that anybody downloads and runs."""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import ModuleType
from zipfile import ZIP_STORED, ZipFile, ZipInfo

#: Of the programs; an older Python is told so.
OLDEST_PYTHON = (3, 9)
_SHEBANG = b"#!/usr/bin/env python3\n"
#: Earliest time of a zip file: the current time would change the file and its SHA-256.
_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o100644
#: Valid in every version of Python, so that an old one prints a sentence and no traceback.
_MAIN = """\
import sys

if sys.version_info < {oldest}:
    sys.exit("{what} needs Python {named} or newer; this is %d.%d." % sys.version_info[:2])

{start}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneFileProgram:
    """A program of one file, with its checksum."""

    #: Of the file.
    name: str
    content: bytes = field(repr=False)
    #: Hexadecimal.
    sha256: str


def modules_of(package: ModuleType, *, named: str = "") -> dict[PurePosixPath, bytes]:
    """Return {path in a program: content} of a package and those below it.

    Args:
        package: the package.
        named: its name in the program; empty: the same.
    """
    directory = Path(package.__path__[0])
    top = PurePosixPath(*(named or package.__name__).split("."))
    return {top / file.relative_to(directory).as_posix(): file.read_bytes() for file in directory.rglob("*.py")}


def one_file_program(name: str, *, what: str, modules: Mapping[PurePosixPath, bytes], start: str) -> OneFileProgram:
    """Return a program; the same modules give the same bytes.

    Stored, not compressed: the compressed bytes depend on the version of zlib.

    Args:
        name: of the file.
        what: the program in a sentence, such as "The pilot agent".
        modules: {path: content}; empty packages around them are added.
        start: statements that run it.
    """
    main = _MAIN.format(what=what, oldest=OLDEST_PYTHON, named=".".join(map(str, OLDEST_PYTHON)), start=start)
    packages = {package / "__init__.py": b"" for path in modules for package in path.parents[:-1]}
    members = {PurePosixPath("__main__.py"): main.encode(), **packages, **modules}
    packed = io.BytesIO(_SHEBANG)
    packed.seek(0, io.SEEK_END)
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        for path, content in sorted(members.items()):
            info = ZipInfo(str(path), date_time=_TIME)
            info.create_system, info.external_attr = _UNIX, _MODE << 16
            archive.writestr(info, content)
    content = packed.getvalue()
    return OneFileProgram(name=name, content=content, sha256=hashlib.sha256(content).hexdigest())
