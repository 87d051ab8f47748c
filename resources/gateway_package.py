"""The gateway's program as one file that anybody can read: ``wms_advertise.py`` and the modules of the wire it uses."""

from functools import cache
from inspect import getsource

from resources.gateway import wms_advertise
from wms.wire import http, protocol

FILE_NAME = "wms_advertise.py"
_FUTURE = "from __future__ import annotations\n"
_LOADER = """
import sys
from types import ModuleType


def _add_module(name: str, source: str) -> None:
    \"\"\"Add a module of the package wms.wire, which the server packs into this file.\"\"\"
    module = sys.modules[name] = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    exec(compile(source, name, "exec"), module.__dict__)


_add_module("wms", "")
_add_module("wms.wire", "")
"""


@cache
def gateway_package() -> bytes:
    """Return the program; made once in each process."""
    head, _, program = getsource(wms_advertise).partition(_FUTURE)
    wire = (http, protocol)
    modules = "".join(f"_add_module({module.__name__!r}, r'''{getsource(module)}''')\n" for module in wire)
    return f"#!/usr/bin/env python3\n{head}{_FUTURE}{_LOADER}{modules}{program}".encode()
