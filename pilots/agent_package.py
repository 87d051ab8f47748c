"""The pilot agent as one file: a reproducible zipapp of ``pilots/agent`` and SHARED_MODULES."""

from functools import cache
from pathlib import Path, PurePosixPath

import pilots.agent
from wms.kernel.one_file_programs import OneFileProgram, one_file_program

#: Modules of the server that the agent imports too; their packages are empty in the zipapp. The agent's import contract
#: (pyproject.toml) allows no others.
SHARED_MODULES = ("wms.client.version", "wms.kernel.amounts", "wms.kernel.protocol")


@cache
def agent_package() -> OneFileProgram:
    """Return the program; built once in each process."""
    directory = Path(pilots.agent.__path__[0])
    root = directory.parents[1]
    shared = [root.joinpath(*name.split(".")).with_suffix(".py") for name in SHARED_MODULES]
    modules = {PurePosixPath(path.relative_to(root)): path.read_bytes() for path in [*directory.rglob("*.py"), *shared]}
    start = "from pilots.agent.__main__ import main\n\nsys.exit(main())"
    return one_file_program("agent.pyz", what="The pilot agent", modules=modules, start=start)
