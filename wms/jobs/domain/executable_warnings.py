"""Findings about the program of a job: it cannot be found by its name, or its file cannot run as meant."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from posixpath import basename, splitext
from typing import Any, Final, NamedTuple

from wms.jobs.domain.data import lfns_of_sandbox
from wms.jobs.domain.fields import shown
from wms.jobs.domain.findings import Finding
from wms.wire.archives import ENDINGS
from wms.wire.executables import ELF, line_of_interpreter, program_of_env, system_of
from wms.wire.jdl_texts import local_path

#: One wrong letter in a name such as ``run.sh``.
_SIMILAR: Final = 0.8
#: Endings of scripts: hardly any program of a node has one.
_SCRIPT: Final = re.compile(r"[\w.+-]+\.(?:sh|bash|csh|zsh|py|pl|rb|R)")
#: Programs that run the file named by their first argument.
_INTERPRETER: Final = re.compile(r"(?:/(?:usr/)?(?:local/)?bin/)?(?:(?:ba|da|k|z)?sh|python[0-9.]*|perl|ruby|Rscript)")
_FIRST_WORD: Final = re.compile(r"\s*((?:\./)?[\w.+/-]+)(?=\s|\Z)")
#: Programs that read a script, without the version at their ends.
_INTERPRETERS: Final = ("sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh", "python", "perl", "ruby", "env")
#: Those that others are misspelt for: shorter names have too many neighbours.
_LONG_INTERPRETERS: Final = ("python",)
_VERSION: Final = re.compile(r"[0-9.]+\Z")
_SHELL: Final = re.compile(r"(?:ba|da|k|z|c|tc)?sh")
#: Directories of somebody's computer, not of nodes.
_PRIVATE: Final = ("/home/", "/Users/", "/root/", "/opt/homebrew/", "/opt/local/")


class SandboxFile(NamedTuple):
    """One file of an input sandbox."""

    name: str
    #: An archive is unpacked in the job's directory.
    is_archive: bool
    #: Of an archive, its files by their paths in it; None: they are not known, so it may contain any file.
    members: frozenset[str] | None = None


class JobProgram(NamedTuple):
    """The file that a description runs."""

    #: As the description names it, without ``./`` before it.
    name: str
    #: ``executable``, or ``arguments``: the executable is an interpreter.
    field: str
    #: Name of that interpreter; empty: the file is executed itself.
    interpreter: str = ""


def depends_on_files(description: Mapping[str, Any]) -> bool:
    """Return whether the findings about the program depend on the files of the input sandbox."""
    return bool(description["input_sandbox"]) and not program_of(description).name.startswith("/")


def program_of(description: Mapping[str, Any]) -> JobProgram:
    """Return the file that a description runs: the script that an interpreter gets first, else the executable."""
    executable = description["executable"]
    if script := script_in(executable, description.get("arguments", "")):
        return JobProgram(script.removeprefix("./"), "arguments", basename(executable))
    return JobProgram(executable.removeprefix("./"), "executable")


def script_in(executable: str, arguments: str) -> str:
    """Return the relative path of a script with which *arguments* begin, if *executable* would run it; else empty."""
    if not arguments or not _INTERPRETER.fullmatch(executable):
        return ""
    word = _FIRST_WORD.match(arguments)
    is_script = word is not None and not word[1].startswith(("-", "/")) and _SCRIPT.fullmatch(basename(word[1]))
    return word[1] if word is not None and is_script else ""


def program_findings(
    description: Mapping[str, Any], *, files: Iterable[SandboxFile], head: bytes | None = None
) -> Iterator[Finding]:
    """Yield the findings about the program of a job.

    Args:
        description: the description as JSON, of one job.
        files: the files of its input sandboxes.
        head: first bytes of the file of the program, if it is one of them; None: they are not known.
    """
    program, files = program_of(description), list(files)
    fetched = lfns_of_sandbox(description["input_sandbox"])
    names = {*(file.name for file in files), *map(basename, (*description["input_data"], *fetched))}
    for file in files:
        names |= file.members or frozenset()
    if program.name in names:
        if head:
            yield from _of_content(program, head, has_container=bool(description.get("container")))
        return
    may_have_any = any(file.is_archive and file.members is None for file in files)
    may_have_any |= any(lfn.endswith(ENDINGS) for lfn in fetched)
    if program.interpreter:
        if not may_have_any and "%" not in program.name:
            yield _missing_script(program, names)
    elif found := _of_name(description, names, may_have_any=may_have_any):
        yield found


# ---- by name ---------------------------------------------------------------------------------------------------------


def _of_name(description: Mapping[str, Any], names: Iterable[str], *, may_have_any: bool) -> Finding | None:
    executable: str = description["executable"]
    if found := _of_form(executable, may_have_blanks=may_have_any):
        return found
    if "%" in executable or executable.startswith("/") or may_have_any:
        return None
    near = _nearest(executable.removeprefix("./"), names)
    cure = f"Did you mean {shown(near)}?" if near else ""
    if "/" in executable:
        sentence = (
            f"The executable {shown(executable)} is a file of the job's directory, but neither the input sandbox nor "
            "the input data contains it; the job fails when it starts."
        )
        return Finding("executable", sentence, cure, surely_fails=True)
    if _SCRIPT.fullmatch(executable) and not _has_path_of_its_own(description):
        sentence = f"The executable {shown(executable)} is none of the files of the job, nor a program of nodes."
        cure = cure or "Put the file into the input sandbox, or correct the name."
        return Finding("executable", sentence, cure, surely_fails=True)
    if near:
        return Finding("executable", f"The executable {shown(executable)} is none of the files of the job.", cure)
    return None


def _has_path_of_its_own(description: Mapping[str, Any]) -> bool:
    """Return whether programs may be found elsewhere than in the directories of every node."""
    names_path = "PATH" in dict(description.get("environment") or ())
    return bool(description.get("container") or description.get("software") or names_path)


def _missing_script(program: JobProgram, names: Iterable[str]) -> Finding:
    near = _nearest(program.name, names)
    sentence = f"{program.interpreter} is to run {shown(program.name)}, which is none of the files of the job."
    cure = f"Did you mean {shown(near)}?" if near else "Put the file into the input sandbox, or correct the name."
    return Finding("arguments", sentence, cure, surely_fails=True)


def _of_form(executable: str, *, may_have_blanks: bool) -> Finding | None:
    # A placeholder may make another name of it.
    is_sure = "%" not in executable
    if (path := local_path(executable)) != executable:
        sentence = f"The executable {shown(executable)} is read as a path, not as an address: write {shown(path)}."
        return Finding("executable", sentence, surely_fails=is_sure)
    if executable.startswith("~") or "$" in executable:
        return Finding(
            "executable",
            f"The executable {shown(executable)} is run as written: no shell expands ~ or $.",
            'To have one do so, write Executable = "/bin/sh" and Arguments = "-c \'…\'".',
            surely_fails=is_sure and not may_have_blanks,
        )
    if any(map(str.isspace, executable)) and not may_have_blanks:
        sentence = f"The executable {shown(executable)} is one name with blanks in it: arguments belong into Arguments."
        return Finding("executable", sentence, surely_fails=is_sure and not executable.startswith("/"))
    return None


def _nearest(executable: str, names: Iterable[str]) -> str:
    """Return the name that differs only in letter case, or by about one letter before an equal ending; empty: none."""
    by_folded = {name.casefold(): name for name in names}
    ending = splitext(executable)[1].casefold()
    # Without an ending it is rather a program of the node: root beside root.C.
    alike = [name for name in by_folded if ending and splitext(name)[1] == ending]
    close = get_close_matches(executable.casefold(), alike, n=1, cutoff=_SIMILAR)
    return by_folded.get(executable.casefold()) or (by_folded[close[0]] if close else "")


# ---- by content ------------------------------------------------------------------------------------------------------


def _of_content(program: JobProgram, head: bytes, *, has_container: bool) -> Iterator[Finding]:
    name, interpreter = program.name, program.interpreter
    if not interpreter:
        interpreter = basename(program_of_env(head) or line_of_interpreter(head)[0])
        if found := _not_executable(name, head) or _of_interpreter(name, head, has_container=has_container):
            yield found
    if _SHELL.fullmatch(interpreter) and (line := _line_with_cr(head)):
        sentence = (
            f"Line {line} of {name} ends with a Windows line ending (CR), which {interpreter} takes for a letter."
        )
        cure = f"Save it with Unix line endings: dos2unix {name}"
        yield Finding(program.field, sentence, cure, file=name, line=line)


def _line_with_cr(head: bytes) -> int | None:
    *lines, _ = head.split(b"\n")
    return next((number for number, line in enumerate(lines, start=1) if line.endswith(b"\r")), None)


def _not_executable(name: str, head: bytes) -> Finding | None:
    if system := system_of(head):
        sentence = f"{name} is a program for {system}, which no node runs."
        return Finding("executable", sentence, "Build it for Linux.", file=name, surely_fails=True)
    if head.startswith((b"#!", ELF)) or not _is_text(head):
        return None
    line = "#!/usr/bin/env python3" if name.endswith(".py") else "#!/bin/bash"
    return Finding(
        "executable",
        f"{name} does not begin with #!, so no node can tell what runs it.",
        f"Write its interpreter into the first line, such as {line}",
        file=name,
        line=1,
        surely_fails=True,
    )


def _is_text(head: bytes) -> bool:
    # The last character may be cut.
    return b"\0" not in head and "\ufffd" not in head.decode(errors="replace")[:-1]


def _of_interpreter(name: str, head: bytes, *, has_container: bool) -> Finding | None:
    path, program = line_of_interpreter(head)[0], program_of_env(head)
    if not path:
        return None
    interpreter = program or path
    if near := _interpreter_like(basename(interpreter)):
        right = f"{interpreter.removesuffix(basename(interpreter))}{near}"
        sentence = f"The interpreter of {name}, {interpreter}, is on no node."
        return Finding("executable", sentence, f"Did you mean {right}?", file=name, line=1, surely_fails=True)
    cure = f"Write a path such as #!/bin/bash, or #!/usr/bin/env {basename(interpreter)}"
    if not path.startswith("/"):
        sentence = (
            f"The interpreter of {name}, {path}, is no absolute path, so it is looked for beside the job's files."
        )
        return Finding("executable", sentence, cure, file=name, line=1)
    if path.startswith(_PRIVATE) and not has_container:
        sentence = f"The interpreter of {name}, {path}, is probably on your computer only."
        return Finding("executable", sentence, cure, file=name, line=1)
    return None


def _interpreter_like(name: str) -> str:
    """Return the name of a known interpreter of which *name* is a misspelling, with its version; empty: it is none."""
    version = _VERSION.search(name)
    letters, digits = (name[: version.start()], version[0]) if version else (name, "")
    if letters in _INTERPRETERS:
        return ""
    swapped = [each for each in _INTERPRETERS if len(each) > 2 and sorted(each) == sorted(letters)]
    lacking = [each for each in _LONG_INTERPRETERS if letters in _with_a_letter_missing_or_doubled(each)]
    return f"{near[0]}{digits}" if (near := [*swapped, *lacking]) else ""


def _with_a_letter_missing_or_doubled(name: str) -> set[str]:
    return {f"{name[:at]}{middle}{name[at + 1 :]}" for at in range(len(name)) for middle in ("", 2 * name[at])}
