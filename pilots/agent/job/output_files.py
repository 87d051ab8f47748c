"""The contents of an output sandbox: what matches its patterns, and the names in the archive."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Optional

from wms.wire.archives import MAX_DEPTH, MAX_MEMBERS, MAX_PART_BYTES, MAX_PATH_BYTES, components

#: Files and directories that one search visits.
MAX_SEARCHED = 10 * MAX_MEMBERS
#: Escaped slash, for names that are joined from several parts.
_SLASH = "\\x2f"


def chosen(directory: Path, patterns: Sequence[str]) -> list[tuple[Path, str]]:
    """Return (path, name within the archive) of whatever matches a pattern, once, sorted by name.

    A directory, or a link to one inside of *directory*, stands for all that is in it, and an empty one for itself.
    What cannot be stored, such as a pipe or a link to nothing, is returned too, so that it can be named. Paths out of
    *directory* do not match. After MAX_SEARCHED files, directories are returned instead of being read.
    """
    files: dict[str, Path] = {}
    search = _Search(directory)
    for path, name in (match for pattern in patterns for match in search.matches(pattern)):
        if files.setdefault(name, path) != path:  # two files that differ only in what names may not contain
            files[f"{name.rpartition('/')[0]}/{_hashed(path.name, os.fsencode(path))}".lstrip("/")] = path
    return [(files[name], name) for name in sorted(files)]


#: Device and inode of a directory, and those of the directories that it is in.
_Chain = Optional[tuple[tuple[int, int], "_Chain"]]


class _Search:
    """A search of one job's directory, bounded in time: a payload may leave millions of files."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._real = directory, directory.resolve()
        self._left = MAX_SEARCHED

    def matches(self, pattern: str) -> Iterator[tuple[Path, str]]:
        """Yield (path, name within the archive) of the matches of a pattern."""
        if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
            return
        for top in self._tops(pattern):
            if self._left <= 0:
                yield self._directory, pattern
                return
            self._left -= 1
            for path in self._below(top):
                yield path, _safe_name(path.relative_to(self._directory))

    def _tops(self, pattern: str) -> Iterator[Path]:
        literal = self._directory / pattern
        with suppress(OSError, ValueError):  # not a valid file name
            if os.path.lexists(literal):
                yield literal  # a name may contain brackets
                return
        yield from self._matching(components(pattern))

    def _matching(self, parts: Sequence[str]) -> Iterator[Path]:
        """Yield the paths that match the parts of a pattern, one level each; ``**`` matches any number of levels.

        Each directory is searched once for each part: links to a parent directory would make the standard library's
        search endless.
        """
        seen: set[tuple[int, int, int]] = set()
        waiting = [(self._directory, 0)] if parts else []
        while waiting:
            directory, number = waiting.pop()
            with suppress(OSError, ValueError):  # removed, locked, too deep, or not a valid name
                status = directory.stat()
                if (key := (status.st_dev, status.st_ino, number)) in seen:
                    continue
                seen.add(key)
                with os.scandir(directory) as entries:
                    # Links are searched last, so that a file is found under its own name.
                    children = sorted(entries, key=lambda entry: not entry.is_symlink())
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
                    if is_last or (entry.is_symlink() and entry.is_dir() and not self._is_inside(entry.path)):
                        yield Path(entry.path)
                    elif entry.is_dir():
                        waiting.append((Path(entry.path), number + 1))

    def _below(self, top: Path) -> Iterator[Path]:
        """Yield *top*, or all files and empty directories in it."""
        waiting = [(top, self._chain_above(top))]
        while waiting:
            path, above = waiting.pop()
            try:
                identity = self._identity(path, above)
                if identity is None:
                    yield path
                    continue
                with os.scandir(path) as entries:
                    names = [entry.name for entry in islice(entries, self._left + 1)]
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError:  # locked, or too deep
                yield path
                continue
            if not names or len(names) > self._left:
                yield path
            waiting += [(path / name, (identity, above)) for name in names[: self._left]]
            self._left = max(0, self._left - len(names))

    def _identity(self, path: Path, above: _Chain) -> tuple[int, int] | None:
        """Return device and inode of a directory that is to be read; None: a file, or a link that is not followed."""
        status = path.lstat()
        is_link = stat.S_ISLNK(status.st_mode)
        if is_link and self._is_inside(path):
            status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            return None
        identity = status.st_dev, status.st_ino
        while is_link and above is not None:
            if above[0] == identity:
                return None  # a link to a directory that it is in
            above = above[1]
        return identity

    def _chain_above(self, path: Path) -> _Chain:
        chain: _Chain = None
        directory = self._directory
        for part in (".", *path.relative_to(self._directory).parts[:-1]):
            directory /= part
            with suppress(OSError):
                status = directory.stat()
                chain = ((status.st_dev, status.st_ino), chain)
        return chain

    def _is_inside(self, link: str | Path) -> bool:
        try:
            real = Path(link).resolve(strict=True)
        except (OSError, RuntimeError):
            return False
        return self._real in (real, *real.parents)


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
    return part if len(content) <= MAX_PART_BYTES else _hashed(part, content)


def _hashed(part: str, content: bytes) -> str:
    """Return the beginning of the part of a name, and a hash of *content*."""
    return f"{_printable(part).encode()[:200].decode('utf-8', 'ignore')}~{hashlib.sha256(content).hexdigest()[:16]}"
