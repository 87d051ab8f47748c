"""Reasons why the kernel does not execute a file, which its error numbers do not name."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
from contextlib import suppress
from pathlib import Path

from wms.wire.executables import ELF, HEAD_BYTES, Flaw, flaw_of_head, line_of_interpreter, program_of_env, system_of
from wms.wire.protocol import NOT_FOUND_EXIT_CODE

#: Bytes that hold the headers of an ELF file and the path of its loader.
_ELF_HEAD_BYTES = 4096
_PT_INTERP = 3
#: Names of machines as uname(2) has them, by the number in ELF files; of 21 those that are little-endian.
_MACHINES = {3: "i386", 8: "mips", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
#: Interpreters that are scripts themselves; the kernel follows as many.
_MOST_INTERPRETERS = 4


def found(name: str, *, search_path: str, directory: Path) -> Path | None:
    """Return the program that a payload in *directory* finds; None: none. A relative path begins there."""
    places = [str(directory / place) for place in search_path.split(":")]
    path = shutil.which(str(directory / name) if "/" in name else name, path=":".join(places))
    return None if path is None else Path(path)


def flaw_of(directory: Path, name: str, *, search_path: str | None) -> Flaw | None:
    """Return the flaw of a file of the job that would show only as an odd end, if at all; None: none is known.

    Args:
        directory: of the job.
        name: of the file there.
        search_path: PATH of the payload; None: that of a container, which is not known here.
    """
    head = _head_of(directory / name)
    if head is None:
        return None
    program = None if search_path is None else program_of_env(head)
    if program is not None and found(program, search_path=search_path or "", directory=directory) is None:
        return flaw_of_head(name, head) or Flaw(NOT_FOUND_EXIT_CODE, _not_there(program, name))
    return flaw_of_head(name, head)


def why_not_executed(error_number: int, path: Path, *, name: str, directory: Path) -> str:
    """Return why execve(2) failed, in one sentence.

    Args:
        error_number: of execve.
        path: of the file.
        name: of the file in the sentence.
        directory: in which the program would have started.
    """
    head = _head_of(path, _ELF_HEAD_BYTES)
    flaw = None if head is None else flaw_of_head(name, head)
    if flaw is not None:
        return flaw.sentence
    found = None if head is None else _fault_in(head, name, error_number=error_number, directory=directory)
    return found or f"The executable cannot be run: {os.strerror(error_number)}"


def _fault_in(head: bytes, name: str, *, error_number: int, directory: Path, depth: int = 0) -> str | None:
    """Return the fault of the file *name*, or of its interpreter; None: it is not known."""
    interpreter = line_of_interpreter(head)[0]
    if interpreter and depth < _MOST_INTERPRETERS:
        path = directory / interpreter
        if not path.exists():
            return _not_there(interpreter, name)
        if error_number == errno.EACCES and not (path.is_file() and os.access(path, os.X_OK)):
            return f"The interpreter of {name}, {interpreter}, may not be executed on the node"
        next_head = _head_of(path, _ELF_HEAD_BYTES) or b""
        return _fault_in(next_head, interpreter, error_number=error_number, directory=directory, depth=depth + 1)
    if error_number == errno.ENOEXEC:
        return f"Exec format error: {name}{_origin_of(head)}"
    if error_number == errno.ENOENT:
        loader = _loader_of(head)
        is_lacking = loader is not None and not Path(loader).exists()
        unseen = f"{name} is on the node, but payloads cannot reach it"
        return f"The loader of {name}, {loader}, is not on the node" if is_lacking else unseen
    return None


def _not_there(interpreter: str, name: str) -> str:
    return f"The interpreter of {name}, {interpreter}, is not on the node"


def _head_of(path: Path, most_bytes: int = HEAD_BYTES) -> bytes | None:
    """Return the first bytes of a file; None: it is not a file, or may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        return os.read(descriptor, most_bytes) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
    finally:
        os.close(descriptor)


def _origin_of(head: bytes) -> str:
    """Return, as the end of a sentence, for what a program was made that this node does not execute."""
    if system := system_of(head):
        return f" is for {system}"
    if not head.startswith(ELF) or len(head) < 20:
        return ""
    is_little = head[5] == 1
    number = int.from_bytes(head[18:20], "little" if is_little else "big")
    machine = "ppc64" if number == 21 and not is_little else _MACHINES.get(number, f"machine {number}")
    of_node = os.uname().machine
    return " is damaged or not complete" if machine == of_node else f" is for {machine}, the node is {of_node}"


def _loader_of(head: bytes) -> str | None:
    """Return the dynamic loader that an ELF file names."""
    if not head.startswith(ELF) or len(head) < 64:
        return None
    order, is_long = "<" if head[5] == 1 else ">", head[4] == 2
    (first,) = struct.unpack_from(f"{order}{'Q' if is_long else 'I'}", head, 32 if is_long else 28)
    size, count = struct.unpack_from(f"{order}HH", head, 54 if is_long else 42)
    with suppress(struct.error):  # they are beyond the bytes that were read
        for at in range(first, first + size * count, size or 1):
            (kind,) = struct.unpack_from(f"{order}I", head, at)
            if kind == _PT_INTERP:
                (offset,) = struct.unpack_from(f"{order}{'Q' if is_long else 'I'}", head, at + (8 if is_long else 4))
                return os.fsdecode(head[offset:].partition(b"\0")[0]) or None
    return None
