"""The client as one file: a reproducible zipapp of ``wms/client`` and ``wms/wire``, as the package ``wms_client``."""

from functools import cache

import wms.client
import wms.wire
from wms.kernel.one_file_programs import OneFileProgram, modules_of, one_file_program


@cache
def client_package() -> OneFileProgram:
    """Return the program; built once in each process."""
    modules = {**modules_of(wms.client, named="wms_client"), **modules_of(wms.wire, named="wms_client.wire")}
    start = "from wms_client.__main__ import run\n\nrun()"
    return one_file_program("wms.pyz", what="The command line", modules=modules, start=start)
