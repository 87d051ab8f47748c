"""Presentation of the files of a job: its output, its inputs, what archives among them hold, and one file in place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from wms.jobs.domain.lifecycle import FINAL
from wms.jobs.models import InputSandbox, Job
from wms.jobs.services.sandbox_contents import Contents, StoredFile
from wms.jobs.services.sandboxes import reference_of
from wms.kernel.names import counted
from wms.portal.presentation.job_tabs import Tab

#: Bytes of one file that the page shows: as much as anybody reads there; the rest is downloaded.
MOST_SHOWN_BYTES: Final = 256 * 1024
#: Part of a text that may be bytes that are not UTF-8; with more it is binary.
_MOST_DAMAGED: Final = 0.1
_STEPS: Final = ("B", "kB", "MB", "GB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A stored archive of a job, as addresses name it: its output, or one of its inputs."""

    job_id: int
    #: Of the output, or of the input for the payload.
    name: str
    #: Of an input, in the REST interface; empty: the output.
    input_reference: str = ""

    @property
    def list_url(self) -> str:
        """Address of the tab with the list of its files."""
        return self._tab()

    @property
    def whole_url(self) -> str:
        """Address of its download."""
        if self.input_reference:
            return reverse("portal:job-input", args=[self.job_id, self.input_reference])
        return reverse("job-output", args=[self.job_id])

    def view_url(self, file_name: str) -> str:
        """Return the address of the tab with one of its files in place."""
        return self._tab(file=file_name)

    def download_url(self, file_name: str) -> str:
        """Return the address of the download of one of its files."""
        if self.input_reference:
            return reverse("portal:job-input-file", args=[self.job_id, self.input_reference, file_name])
        return reverse("portal:job-file", args=[self.job_id, file_name])

    def _tab(self, **further: str) -> str:
        chosen = {"input": self.input_reference} if self.input_reference else {}
        query = urlencode({"tab": Tab.FILES, **chosen, **further})
        return f"{reverse('portal:job', args=[self.job_id])}?{query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file of an archive."""

    name: str
    size: str
    #: Of a link, where it leads; empty: a file.
    link_target: str
    #: Address of this tab with the file in place, and of its download; empty: a link, which has no data.
    view_url: str
    download_url: str
    is_shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """One file in place."""

    name: str
    size: str
    #: Empty if it is binary or empty.
    text: str
    is_binary: bool
    #: Bytes shown of a longer file, such as "256 kB"; empty: all.
    shown: str
    download_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveView:
    """The files of an archive, and one of them in place."""

    name: str
    #: Why it cannot be listed; empty: it can.
    problem: str
    rows: Sequence[FileRow] = ()
    #: Such as "1,000 of 8,123 files".
    how_many: str = ""
    #: None: no file is chosen.
    shown: ShownFile | None = None
    #: Why the chosen file is not shown; empty: it is, or none is chosen.
    not_shown: str = ""
    #: Addresses of the list without a file in place, and of the download of the archive.
    list_url: str = ""
    whole_url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRow:
    """One input sandbox."""

    name: str
    size: str
    #: Address of this tab with its files; empty: it is no archive.
    list_url: str
    download_url: str
    is_shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesView:
    """The files of a job."""

    output: ArchiveView
    inputs: Sequence[InputRow]
    #: The input that is browsed; None: none.
    input: ArchiveView | None


def output_of(job: Job) -> Archive:
    """Return the output of *job*."""
    return Archive(job_id=job.pk, name="the output")


def input_of(row: InputSandbox) -> Archive:
    """Return an input of a job, which is an archive."""
    return Archive(job_id=row.job_id, name=row.file_name, input_reference=reference_of(row.sandbox))


def files_view(*, output: ArchiveView, inputs: Sequence[InputSandbox], browsed: ArchiveView | None) -> FilesView:
    """Return the files of a job.

    Args:
        output: its output.
        inputs: its input sandboxes, with their contents' rows.
        browsed: the input whose files are listed.
    """
    address = "" if browsed is None else browsed.list_url
    return FilesView(output=output, inputs=[_input(row, address) for row in inputs], input=browsed)


def archive_view(archive: Archive, *, contents: Contents, shown: ShownFile | None, not_shown: str) -> ArchiveView:
    """Return the files of an archive.

    Args:
        archive: any.
        contents: its files.
        shown: the chosen file.
        not_shown: why the chosen file is not shown.
    """
    listed = len(contents.files)
    return ArchiveView(
        name=archive.name,
        problem="",
        rows=[_row(archive, file, shown=shown) for file in contents.files],
        how_many=f"{listed:,} of {contents.count:,} files" if listed < contents.count else counted(listed, "file"),
        shown=shown,
        not_shown=not_shown,
        list_url=archive.list_url,
        whole_url=archive.whole_url,
    )


def shown_file(archive: Archive, *, file: StoredFile, start: bytes) -> ShownFile:
    """Return a file in place, of which *start* are the first bytes."""
    is_cut = len(start) < file.size_bytes
    text, is_binary = _text(start)
    return ShownFile(
        name=file.name,
        size=size_in_words(file.size_bytes),
        text="" if is_binary else text,
        is_binary=is_binary,
        shown=size_in_words(len(start)) if is_cut else "",
        download_url=archive.download_url(file.name),
    )


def no_output(job: Job) -> str:
    """Return why a job without output has none."""
    if job.status in FINAL:
        return "The job stored no output. The last lines that it wrote are in Output and Errors."
    return "The job has stored no output yet; its pilot does when the payload has ended."


def size_in_words(size_bytes: int) -> str:
    """Return a size with a unit that leaves at most three digits before the point, such as "1.5 kB"."""
    size, step = float(size_bytes), 0
    while size >= 1000 and step < len(_STEPS) - 1:
        size, step = size / 1000, step + 1
    return f"{size:,.0f} {_STEPS[step]}" if step == 0 or size >= 100 else f"{size:.1f} {_STEPS[step]}"


def _text(start: bytes) -> tuple[str, bool]:
    """Return bytes as text, and whether they are binary instead."""
    if b"\0" in start:
        return "", True
    text = start.decode("utf-8", errors="replace")
    return text, text.count("\N{REPLACEMENT CHARACTER}") > _MOST_DAMAGED * len(text) + 1


def _row(archive: Archive, file: StoredFile, *, shown: ShownFile | None) -> FileRow:
    return FileRow(
        name=file.name,
        size="" if file.link_target else size_in_words(file.size_bytes),
        link_target=file.link_target,
        view_url="" if file.link_target else archive.view_url(file.name),
        download_url="" if file.link_target else archive.download_url(file.name),
        is_shown=shown is not None and shown.name == file.name,
    )


def _input(row: InputSandbox, browsed_url: str) -> InputRow:
    archive = input_of(row)
    return InputRow(
        name=row.file_name,
        size=size_in_words(row.sandbox.size_bytes),
        list_url=archive.list_url if row.sandbox.is_archive else "",
        download_url=archive.whole_url,
        is_shown=archive.list_url == browsed_url,
    )
