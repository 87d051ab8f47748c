"""Completion: the scripts of `wms completion`, in the shells themselves."""

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pace import within
from tests.programs import needed
from wms.client.main import main

#: The end of the command line of zsh, and where its candidates are written: all of them are inserted into the line.
_ZSH = """
candidates() { _main_complete; compstate[insert]=all; }
zle -C candidates complete-word candidates
zle-line-init() { BUFFER=$LINE; CURSOR=$#BUFFER; zle candidates; print -r -- "$BUFFER" > candidates; exit; }
zle -N zle-line-init
"""


class Example(NamedTuple):
    """A command line whose last word is completed, and the candidates for it."""

    line: str
    candidates: tuple[str, ...] = ()


EXAMPLES = (
    Example("wms su", ("submissions", "submit")),
    Example("wms stat", ("status",)),
    Example("wms kill --sub", ("--submission",)),
    Example("wms status --j", ("--json",)),
    Example("wms files p", ("put",)),
    Example("wms files ", ("get", "list", "put", "rm")),
    Example("wms files list --sto", ("--storage-element",)),
    Example("wms files list --sta"),  # an option of `wms list`
    Example("wms admin p", ("parameters", "pause", "pilots", "priority")),
    Example("wms admin s", ("shares", "site-admin", "site-failures", "site-token", "suspend")),
    Example("wms admin ban --f", ("--for",)),
    Example("wms admin downtime --f", ("--for", "--from")),
    Example("wms admin pilots ", ("drain", "kill", "list")),
    Example("wms admin pilots drain --st", ("--status",)),
    Example("wms admin pilots drain --status A", ("Aborted",)),
    Example("wms admin configuration a", ("apply",)),
    Example("wms admin throttle LCG.CERN.ch --policy c", ("custom",)),
    Example("wms admin site-token LCG.CERN.ch --make ", ("advertise", "register")),
    Example("wms accounting --by s", ("site",)),
    Example("wms admin accounting --by c", ("country",)),
    Example("wms completion z", ("zsh",)),
    Example("wms list --status R", ("Received", "Rescheduled", "Running")),
    Example("wms pilots --status A", ("Aborted",)),
    Example("wms submit fi", ("first.jdl", "five.jdl")),
    Example("wms files put fi", ("first.jdl", "five.jdl")),
    Example("wms files get --directory res", ("results/",)),
)


def in_bash(line: str, script: Path) -> Sequence[str]:
    """Return the candidates of bash; without any, it completes names of files by itself (`-o default`)."""
    words = " ".join(f"'{word}'" for word in line.split(" "))
    completing = f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _wms"
    of_files = '[ $# -gt 0 ] || set -- $(compgen -f -- "${COMP_WORDS[-1]}")'
    showing = (
        f'set -- "${{COMPREPLY[@]}}"; {of_files}; for each; do [ -d "$each" ] && each="$each/"; echo "$each"; done'
    )
    return run(["bash", "-c", f"source {script}; {completing}; {showing}; true"], script.parent)


def in_zsh(line: str, script: Path) -> Sequence[str]:
    """Return the candidates of an interactive zsh, at a terminal of its own."""
    directory = script.parent
    (directory / ".zshrc").write_text(f"source {script.name}{_ZSH}")
    variables = {**os.environ, "ZDOTDIR": str(directory), "TERM": "xterm", "LINE": line}
    (directory / "candidates").unlink(missing_ok=True)  # of the line before
    ours, its = os.openpty()
    with subprocess.Popen(["zsh", "-d", "-i"], cwd=directory, env=variables, stdin=its, stdout=its, stderr=its) as zsh:
        os.close(its)
        with suppress(OSError):  # the terminal is closed
            while os.read(ours, 65536):
                pass
        zsh.wait(within(30))
    os.close(ours)
    before = line.rpartition(" ")[0]
    inserted = (directory / "candidates").read_text().removeprefix(before).split()
    return [] if inserted == line.split()[-1:] else inserted


def in_fish(line: str, script: Path) -> Sequence[str]:
    """Return the candidates of fish."""
    shown = run(["fish", "--no-config", "-c", f"source {script}; complete -C '{line}'"], script.parent)
    return [candidate.partition("\t")[0] for candidate in shown]


def run(command: Sequence[str], directory: Path) -> Sequence[str]:
    """Return the lines that a command prints."""
    environment = {**os.environ, "HOME": str(directory)}
    ran = subprocess.run(command, cwd=directory, env=environment, text=True, check=True, capture_output=True)
    return ran.stdout.splitlines()


SHELLS: dict[str, Callable[[str, Path], Sequence[str]]] = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    """Return the name of a shell that is installed."""
    name: str = request.param
    needed(name)
    return name


@pytest.fixture
def script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Return the script of the shell, in a directory with some files."""
    assert main(["completion", shell]) == 0
    path = tmp_path / "completion"
    path.write_text(capsys.readouterr().out)
    for name in ("first.jdl", "five.jdl"):
        (tmp_path / name).touch()
    (tmp_path / "results").mkdir()
    return path


def test_the_shell_completes(shell: str, script: Path, subtests: pytest.Subtests) -> None:
    for example in EXAMPLES:
        with subtests.test(example.line):
            assert sorted(SHELLS[shell](example.line, script)) == sorted(example.candidates)
