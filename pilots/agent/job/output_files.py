"""The files of an output sandbox: those that match its patterns, and their names in the archive."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pilots.agent.job import user_helper
from wms.wire.archives import MAX_DEPTH, MAX_MEMBERS, MAX_PART_BYTES, MAX_PATH_BYTES, components

#: Escaped slash, for names that are joined from several parts.
_SLASH = "\\x2f"


def chosen(directory: Path, patterns: Sequence[str]) -> list[tuple[Path, str]]:
    """Return (path, name within the archive) of each file that matches a pattern, once, sorted by name.

    A directory stands for all files in it. Paths out of *directory* do not match. The search ends at more files than an
    archive may have.
    """
    files: dict[str, Path] = {}
    for file in _all_files(directory, patterns):
        files[_safe_name(file.relative_to(directory))] = file
        if len(files) > MAX_MEMBERS:
            break
    return [(files[name], name) for name in sorted(files)]


def _all_files(directory: Path, patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            continue
        for path in _matches(directory, pattern):
            yield from _files(path)


def _matches(directory: Path, pattern: str) -> Iterator[Path]:
    literal = directory / pattern
    with suppress(OSError, ValueError):  # not a valid file name
        if literal.exists():
            yield literal  # a name may contain brackets
            return
    yield from _matching(directory, components(pattern))


def _matching(top: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths that match the parts of a pattern, one level each; ``**`` matches any number of levels.

    Each directory is searched once for each part: links to a parent directory would make the standard library's search
    endless.
    """
    seen: set[tuple[int, int, int]] = set()
    waiting = [(top, 0)] if parts else []
    while waiting:
        directory, number = waiting.pop()
        with suppress(OSError, ValueError):  # removed, locked, too deep, or not a valid name
            status = directory.stat()
            if (key := (status.st_dev, status.st_ino, number)) in seen:
                continue
            seen.add(key)
            with os.scandir(directory) as entries:
                children = list(entries)
            part, is_last = parts[number], number == len(parts) - 1
            if part == "**" and is_last:
                yield directory  # with all files in it
                continue
            if part == "**":
                waiting += [(Path(entry.path), number) for entry in children if entry.is_dir(follow_symlinks=False)]
                waiting.append((directory, number + 1))
                continue
            for entry in children:
                if not fnmatch.fnmatchcase(entry.name, part):
                    continue
                if is_last:
                    yield Path(entry.path)
                elif entry.is_dir():
                    waiting.append((Path(entry.path), number + 1))


def _files(path: Path) -> Iterator[Path]:
    """Yield *path* or all files in it, except those whose paths are too long."""
    top = str(path)
    for name, status in user_helper.walk([top]):
        if not stat.S_ISDIR(status.st_mode) and name.startswith(top):
            yield Path(name)


def _safe_name(relative: Path) -> str:
    """Return a name within the limits of the server: UTF-8, without control characters, neither deep nor long."""
    parts = [_printable(part) for part in relative.parts]
    if len(parts) > MAX_DEPTH:
        parts = [*parts[: MAX_DEPTH - 1], _SLASH.join(parts[MAX_DEPTH - 1 :])]
    name = "/".join(map(_shortened, parts))
    return name if len(name.encode()) <= MAX_PATH_BYTES else _shortened(_SLASH.join(parts))


def _printable(part: str) -> str:
    text = part.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def _shortened(part: str) -> str:
    """Return the part of a name; a long one is replaced by its beginning and a hash."""
    content = part.encode()
    if len(content) <= MAX_PART_BYTES:
        return part
    return f"{content[:200].decode('utf-8', 'ignore')}~{hashlib.sha256(content).hexdigest()[:16]}"
