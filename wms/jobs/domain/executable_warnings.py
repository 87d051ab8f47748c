"""Warnings about executables that cannot work: what no program of the node, and no file of the job, is named like."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from posixpath import basename, splitext
from typing import Any, Final, NamedTuple

from wms.jobs.domain.data import lfns_of_sandbox
from wms.jobs.domain.fields import shown
from wms.wire.archives import ENDINGS
from wms.wire.jdl_texts import local_path

#: One wrong letter in a name such as ``run.sh``.
_SIMILAR: Final = 0.8


class SandboxFile(NamedTuple):
    """One file of an input sandbox."""

    name: str
    #: An archive is unpacked in the job's directory, so it may contain any file.
    is_archive: bool


def depends_on_files(description: Mapping[str, Any]) -> bool:
    """Return whether the warning about the executable depends on the files of the input sandbox."""
    return bool(description["input_sandbox"]) and not description["executable"].startswith("/")


def executable_warning(description: Mapping[str, Any], *, files: Iterable[SandboxFile]) -> str:
    """Return the sentence on an executable that cannot work; empty: it can."""
    executable: str = description["executable"]
    files = list(files)
    fetched = lfns_of_sandbox(description["input_sandbox"])
    names = {*(file.name for file in files), *map(basename, (*description["input_data"], *fetched))}
    is_known = executable.removeprefix("./") in names
    has_archive = any(file.is_archive for file in files) or any(lfn.endswith(ENDINGS) for lfn in fetched)
    if is_known:
        return ""
    if sentence := _sentence_on_form(executable, may_have_blanks=has_archive):
        return sentence
    if "%" in executable or executable.startswith("/") or has_archive:
        return ""
    if "/" in executable:
        return (
            f"The executable {shown(executable)} is a file of the job's directory, but neither the input sandbox nor "
            "the input data contains it; the job fails when it starts."
        )
    near = _nearest(executable, names)
    return f'The executable {shown(executable)} is none of the files of the job. Did you mean "{near}"?' if near else ""


def _sentence_on_form(executable: str, *, may_have_blanks: bool) -> str:
    if (path := local_path(executable)) != executable:
        return f"The executable {shown(executable)} is read as a path, not as an address: write {shown(path)}."
    if executable.startswith("~") or "$" in executable:
        return (
            f"The executable {shown(executable)} is run as written: no shell expands ~ or $. To have one do so, write "
            'Executable = "/bin/sh" and Arguments = "-c \'…\'".'
        )
    if any(map(str.isspace, executable)) and not may_have_blanks:
        return f"The executable {shown(executable)} is one name with blanks in it: arguments belong into Arguments."
    return ""


def _nearest(executable: str, names: Iterable[str]) -> str:
    """Return the name that differs only in letter case, or by about one letter before an equal ending; empty: none."""
    by_folded = {name.casefold(): name for name in names}
    ending = splitext(executable)[1].casefold()
    # Without an ending it is rather a program of the node: root beside root.C.
    alike = [name for name in by_folded if ending and splitext(name)[1] == ending]
    close = get_close_matches(executable.casefold(), alike, n=1, cutoff=_SIMILAR)
    return by_folded.get(executable.casefold()) or (by_folded[close[0]] if close else "")
