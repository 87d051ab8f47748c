"""Rules for archives and file names that may be put on a worker node."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from wms.kernel.errors import RejectedError, TooLargeError
from wms.kernel.names import is_one_line
from wms.wire.archives import (
    MAX_DEPTH,
    MAX_PART_BYTES,
    MAX_PATH_BYTES,
    Member,
    MemberKind,
    components,
    may_lead_out,
)

SETUID = 0o4000
SETGID = 0o2000


class UnsafeArchiveError(RejectedError):
    """A member could touch something outside of the job's directory, or is not an ordinary file."""

    code = "unsafe_archive"


class SandboxTooLargeError(TooLargeError):
    """The content, or its unpacked size, is larger than allowed."""

    code = "sandbox_too_large"


def flaw_of_name(name: str) -> str | None:
    """Return the flaw of *name* as a file name, to follow the words "the name"; None: no flaw."""
    if name in {"", ".", ".."}:
        return "is empty" if not name else "is that of a directory"
    if "/" in name:
        return "has a slash in it"
    if not is_one_line(name):
        return "has a control character or a byte that is not UTF-8 in it"
    if len(name.encode()) > MAX_PART_BYTES:
        return f"is longer than {MAX_PART_BYTES} bytes"
    return None


def check_members(members: Iterable[Member], *, max_members: int, max_unpacked_bytes: int) -> None:
    """Accept an archive whose *members*, in their order, can be unpacked safely.

    Members are read one by one up to the first bad one, so a bomb is never unpacked. The rest is safe by induction: no
    member lies behind a link, so the directory of each link is a real one; a link's target climbs first, never above
    the top, and then only descends; so every link leads to a place inside.

    Raises:
        UnsafeArchiveError: a bad member, named in the sentence.
        SandboxTooLargeError: too many members or bytes.
    """
    earlier = _EarlierMembers()
    unpacked_bytes = 0
    for number, member in enumerate(members, start=1):
        if number > max_members:
            raise SandboxTooLargeError(f"The archive has more than {max_members} members.")
        if member.size_bytes < 0:
            _refuse(member.name, "has a negative size")
        unpacked_bytes += member.size_bytes
        if unpacked_bytes > max_unpacked_bytes:
            raise SandboxTooLargeError(f"The archive unpacks to more than {max_unpacked_bytes} bytes.")
        _check(member, earlier)


@dataclass(slots=True)
class _EarlierMembers:
    """Paths of the members so far, by kind."""

    files: set[tuple[str, ...]] = field(default_factory=set)
    directories: set[tuple[str, ...]] = field(default_factory=set)
    links: set[tuple[str, ...]] = field(default_factory=set)

    def add(self, path: tuple[str, ...], kind: MemberKind) -> None:
        """Add the member and its parent directories."""
        if path[:-1] not in self.directories:
            self.directories.update(path[:length] for length in range(len(path)))
        if kind is MemberKind.DIRECTORY:
            self.directories.add(path)
        elif kind is MemberKind.SYMLINK:
            self.links.add(path)
        else:
            self.files.add(path)


def _check(member: Member, earlier: _EarlierMembers) -> None:
    path = _path_of(member)
    if member.kind is MemberKind.SPECIAL:
        _refuse(member.name, "is neither a file nor a directory nor a link")
    forbidden_bits = SETUID if member.kind is MemberKind.DIRECTORY else SETUID | SETGID
    if member.mode & forbidden_bits and member.kind is not MemberKind.SYMLINK:
        _refuse(member.name, "has a set-user-id or set-group-id bit")
    # A known directory is not a link or a file, and neither are its parents.
    if path[:-1] not in earlier.directories:
        for length in range(1, len(path)):
            if path[:length] in earlier.links or path[:length] in earlier.files:
                _refuse(member.name, "is below a member that is not a directory")
    if path in (earlier.files if member.kind is MemberKind.DIRECTORY else earlier.directories):
        _refuse(member.name, "is a directory and something else")
    if path in earlier.links:
        _refuse(member.name, "occurs again after a link of that name")
    if member.kind in {MemberKind.SYMLINK, MemberKind.HARD_LINK}:
        _check_link(member, path, earlier)
    earlier.add(path, member.kind)


def _check_link(member: Member, path: tuple[str, ...], earlier: _EarlierMembers) -> None:
    if path in earlier.files:
        _refuse(member.name, "is a link with the name of an earlier file")
    target = member.link_target
    # NB: an absolute target is absolute on the machine that unpacks.
    if not target or target.startswith("/") or "\0" in target:
        _refuse(member.name, "is a link that leads out of the archive")
    if len(target.encode(errors="surrogateescape")) >= MAX_PATH_BYTES:
        _refuse(member.name, f"is a link to a path of {MAX_PATH_BYTES} bytes or more")
    if member.kind is MemberKind.HARD_LINK:
        if components(target) not in earlier.files:
            _refuse(member.name, "is a hard link, but not to an earlier file of the archive")
        return
    if may_lead_out(components(target), depth=len(path) - 1):
        _refuse(member.name, "is a link that leads, or may lead, out of the archive")


def _path_of(member: Member) -> tuple[str, ...]:
    """Return the components of the member's name, from the top downwards; () is the top itself."""
    if member.name.startswith("/"):
        _refuse(member.name, "has an absolute path")
    path = components(member.name)
    if ".." in path:
        _refuse(member.name, 'has ".." in its path')
    if not path and member.kind is not MemberKind.DIRECTORY:
        _refuse(member.name, "has no name")
    if member.kind is not MemberKind.DIRECTORY and member.name.rpartition("/")[2] in {"", "."}:
        _refuse(member.name, "has the name of a directory but is not one")
    for component in path:
        if flaw := flaw_of_name(component):
            _refuse(member.name, f"is named so that a part {flaw}")
    if len(path) > MAX_DEPTH or len(member.name.encode()) > MAX_PATH_BYTES:
        _refuse(member.name, f"has a path of more than {MAX_DEPTH} levels or {MAX_PATH_BYTES} bytes")
    return path


def _refuse(name: str, flaw: str) -> NoReturn:
    shown = repr(name[:200])[1:-1]  # escapes control characters and bytes that are not UTF-8
    raise UnsafeArchiveError(f'The member "{shown}" {flaw}. Leave it out and pack again.')
