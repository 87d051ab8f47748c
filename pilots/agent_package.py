"""The pilot agent as one file: a reproducible zipapp of ``pilots/agent`` and ``wms/wire``."""

from functools import cache

import pilots.agent
import wms.wire
from wms.kernel.one_file_programs import OneFileProgram, modules_of, one_file_program


@cache
def agent_package() -> OneFileProgram:
    """Return the program; built once in each process."""
    modules = {**modules_of(pilots.agent), **modules_of(wms.wire)}
    start = "from pilots.agent.__main__ import main\n\nsys.exit(main())"
    return one_file_program("agent.pyz", what="The pilot agent", modules=modules, start=start)
