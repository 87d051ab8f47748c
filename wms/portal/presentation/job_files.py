"""Presentation of the files of a job: its output, one file in place, and its input."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from matching.queries.explain.condition_texts import counted
from wms.jobs.domain.lifecycle import FINAL
from wms.jobs.models import InputSandbox, Job
from wms.jobs.services.sandbox_contents import Contents, StoredFile
from wms.jobs.services.sandboxes import reference_of
from wms.portal.presentation.job_tabs import Tab

#: Bytes of one file that the page shows: as much as anybody reads there; the rest is downloaded.
MOST_SHOWN_BYTES: Final = 256 * 1024
#: Part of a text that may be bytes that are not UTF-8; with more it is binary.
_MOST_DAMAGED: Final = 0.1
_STEPS: Final = ("B", "kB", "MB", "GB")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One file of the output."""

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
class InputRow:
    """One input sandbox."""

    name: str
    size: str
    is_archive: bool
    download_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesView:
    """The files of a job."""

    #: Why the output cannot be listed; empty: it can.
    problem: str
    rows: Sequence[FileRow]
    #: Such as "1,000 of 8,123 files".
    how_many: str
    #: None: no file is chosen.
    shown: ShownFile | None
    #: Why the chosen file is not shown; empty: it is, or none is chosen.
    not_shown: str
    inputs: Sequence[InputRow]


def files_view(
    job: Job,
    *,
    contents: Contents,
    problem: str,
    shown: ShownFile | None,
    not_shown: str,
    inputs: Sequence[InputSandbox],
) -> FilesView:
    """Return the files of *job*.

    Args:
        job: any.
        contents: the files of its output.
        problem: why there are none.
        shown: the chosen file.
        not_shown: why the chosen file is not shown.
        inputs: its input sandboxes, with their contents' rows.
    """
    listed = len(contents.files)
    how_many = f"{listed:,} of {contents.count:,} files" if listed < contents.count else counted(listed, "file")
    return FilesView(
        problem=problem,
        rows=[_row(job, file, shown=shown) for file in contents.files],
        how_many=how_many,
        shown=shown,
        not_shown=not_shown,
        inputs=[_input(job, row) for row in inputs],
    )


def shown_file(job: Job, *, file: StoredFile, start: bytes) -> ShownFile:
    """Return a file in place, of which *start* are the first bytes."""
    is_cut = len(start) < file.size_bytes
    text, is_binary = _text(start)
    return ShownFile(
        name=file.name,
        size=size_in_words(file.size_bytes),
        text="" if is_binary else text,
        is_binary=is_binary,
        shown=size_in_words(len(start)) if is_cut else "",
        download_url=_download(job, file),
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


def _row(job: Job, file: StoredFile, *, shown: ShownFile | None) -> FileRow:
    query = urlencode({"tab": Tab.FILES, "file": file.name})
    return FileRow(
        name=file.name,
        size="" if file.link_target else size_in_words(file.size_bytes),
        link_target=file.link_target,
        view_url="" if file.link_target else f"{reverse('portal:job', args=[job.pk])}?{query}",
        download_url="" if file.link_target else _download(job, file),
        is_shown=shown is not None and shown.name == file.name,
    )


def _download(job: Job, file: StoredFile) -> str:
    return reverse("portal:job-file", args=[job.pk, file.name])


def _input(job: Job, row: InputSandbox) -> InputRow:
    return InputRow(
        name=row.file_name,
        size=size_in_words(row.sandbox.size_bytes),
        is_archive=row.sandbox.is_archive,
        download_url=reverse("portal:job-input", args=[job.pk, reference_of(row.sandbox)]),
    )
