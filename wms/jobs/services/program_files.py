"""Files of input sandboxes as far as submission looks at them: their names, and the first bytes of a job's program."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from wms.jobs.domain.executable_warnings import SandboxFile
from wms.jobs.models import Sandbox
from wms.jobs.services import sandbox_contents, sandbox_files
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.errors import WmsError
from wms.wire.executables import HEAD_BYTES

#: Size of an archive whose files are listed, which unpacks it once: some milliseconds.
MOST_ARCHIVE_BYTES: Final = 1024 * 1024
#: Archives of one request whose files are listed.
MOST_ARCHIVES: Final = 10


class ProgramFiles:
    """The files that the jobs of one request name; each archive is listed once."""

    def __init__(self) -> None:
        #: By the digest of the archive; None: its files are not known.
        self._members: dict[str, frozenset[str] | None] = {}
        #: By the digest of the archive and the name of its file.
        self._heads: dict[tuple[str, str], bytes | None] = {}

    def head_of_own(self, name: str, named_sandboxes: Sequence[NamedSandbox]) -> bytes | None:
        """Return the first bytes of the file *name*, which is no archive; None: there is none, or it is not known."""
        own = next((each for each in named_sandboxes if each.file_name == name and not each.sandbox.is_archive), None)
        if own is None:
            return None
        return sandbox_files.head_of(own.sandbox.digest) if own.sandbox.digest else own.coming_head

    def named(
        self, program: str, named_sandboxes: Sequence[NamedSandbox]
    ) -> tuple[Sequence[SandboxFile], bytes | None]:
        """Return the files of a job, and the first bytes of its program.

        Args:
            program: path of the program's file in the job's directory; empty: it is none of these files.
            named_sandboxes: of the job.
        """
        is_own = any(each.file_name == program and not each.sandbox.is_archive for each in named_sandboxes)
        files: list[SandboxFile] = []
        head = self.head_of_own(program, named_sandboxes) if is_own else None
        for each in named_sandboxes:
            archive = each.sandbox
            # Only a program that is not found otherwise is worth it.
            members = self._members_of(archive) if program and archive.is_archive and not is_own else None
            files.append(SandboxFile(each.file_name, archive.is_archive, members))
            # Of two archives with the file, the later one is unpacked later.
            if members and program in members:
                head = self._head_in(archive, program)
        return files, head

    def _members_of(self, archive: Sandbox) -> frozenset[str] | None:
        if archive.digest not in self._members:
            is_small = archive.digest and archive.size_bytes <= MOST_ARCHIVE_BYTES
            if not is_small or len(self._members) >= MOST_ARCHIVES:
                return None
            self._members[archive.digest] = self._listed(archive)
        return self._members[archive.digest]

    def _listed(self, archive: Sandbox) -> frozenset[str] | None:
        with suppress(WmsError):
            contents = sandbox_contents.contents_of(archive)
            # Links may lead anywhere.
            if contents.count == len(contents.files) and not any(file.link_target for file in contents.files):
                return frozenset(file.name for file in contents.files)
        return None

    def _head_in(self, archive: Sandbox, name: str) -> bytes | None:
        key = (archive.digest, name)
        if key not in self._heads:
            self._heads[key] = None
            with suppress(WmsError):
                file = sandbox_contents.file_named(archive, name=name)
                self._heads[key] = sandbox_contents.start_of(archive, file=file, most_bytes=HEAD_BYTES)
        return self._heads[key]
