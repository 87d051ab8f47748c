"""What has to be done on the host of a batch system: a program of its own, sent there as text for each request.

The request comes as JSON on standard input, the answer goes as JSON to standard output; it needs Python 3.9, as pilots
do, and nothing else. A request is ``{"do": name, …}`` with the arguments of the function of that name below.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def write(directory: str, files: dict[str, str]) -> str:
    """Make the directory, for its owner alone, and the files in it: {relative path: content}; return its real path."""
    top = Path(directory).expanduser().resolve()
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.unfinished")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(content)
        unfinished.rename(path)
    return str(top)


def remove(paths: list[str]) -> None:
    """Remove files and directories, whatever is in them; one that is not there is no mistake."""
    for path in (Path(each).expanduser() for each in paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def tail(path: str, size: int) -> str:
    """Return the last *size* bytes of a file as text; nothing when there is none."""
    try:
        with Path(path).expanduser().open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return ""


if __name__ == "__main__":
    DO: dict[str, Callable[..., object]] = {"write": write, "remove": remove, "tail": tail}
    request = json.load(sys.stdin)
    json.dump(DO[request.pop("do")](**request), sys.stdout)
