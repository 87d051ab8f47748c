"""The client as one file: a reproducible zipapp of ``wms/client``, as the package ``wms_client``."""

from functools import cache
from pathlib import Path, PurePosixPath

import wms.client
from wms.kernel.one_file_programs import OneFileProgram, one_file_program


@cache
def client_package() -> OneFileProgram:
    """Return the program; built once in each process."""
    directory = Path(wms.client.__path__[0])
    package = PurePosixPath("wms_client")
    modules = {package / path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*.py")}
    start = "from wms_client.__main__ import run\n\nrun()"
    return one_file_program("wms.pyz", what="The command line", modules=modules, start=start)
