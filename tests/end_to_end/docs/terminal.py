"""A shell at a terminal, at which commands are typed as a reader of the documentation types them."""

import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pexpect

from tests.pace import wait_for, within

_PROMPT: Final = "<next command> "
#: What the client asks: the words before the answer.
_QUESTIONS: Final = [r"Server \[[^\]]*\]: ", r"User: ", r"Password(?: \(again\))?: ", r"\[y/N\] "]
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]")
#: Characters of a line.
COLUMNS: Final = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A command that has ended: its exit code, and what stands at the terminal below it."""

    code: int
    output: str


class Terminal:
    """A bash with a terminal of its own.

    Args:
        directory: where it starts.
        environment: of its commands.
        password: typed where one is asked for.
    """

    def __init__(self, directory: Path, environment: Mapping[str, str], *, password: str) -> None:
        self._directory, self._password = directory, password
        self._shell: pexpect.spawn[str] = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile", "--noediting"],
            cwd=str(directory),
            env={**environment, "TERM": "xterm", "NO_COLOR": "1", "PS1": _PROMPT, "PS2": ""},
            dimensions=(40, COLUMNS),
            echo=False,
            encoding="utf-8",
        )
        self._until(_PROMPT, within_s=30)
        self._background: list[subprocess.Popen[bytes]] = []

    def run(self, command: str, *, shown: tuple[str, ...] = (), within_s: float) -> Ended:
        """Run a command to its end, and answer what it asks as *shown* has it.

        Args:
            command: of one line or several.
            shown: the output on the page, with the answers after the questions.
            within_s: seconds of an idle machine.
        """
        self._shell.sendline(command)
        output = ""
        while True:
            question = self._until("|".join([_PROMPT, *_QUESTIONS]), within_s=within_s)
            output += self._before
            if question == _PROMPT:
                break
            answer = self._answer(question, shown)
            self._shell.sendline(answer)
            # A password is not shown, but the end of its line is.
            output += question if question.startswith("Password") else f"{question}{answer}\n"
        self._shell.sendline("echo $?")
        self._until(_PROMPT, within_s=30)
        return Ended(code=int(self._before), output=as_seen(output))

    def start(self, command: str, *, until: str, within_s: float) -> str:
        """Run a command in the background until the end, and return its output when it has the words *until*."""
        state = self._directory / ".environment"
        self.run(f"env -0 > {state}", within_s=30)
        variables = dict(part.split("=", 1) for part in state.read_text().split("\0") if "=" in part)
        log = self._directory / f".output-{len(self._background)}"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=variables["PWD"],
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._background.append(process)
        wait_for(lambda: until in log.read_text() or process.poll() is not None, within_s, state=log.read_text)
        assert until in log.read_text(), log.read_text()
        return as_seen(log.read_text())

    def close(self) -> None:
        """Stop what runs in the background, the last first, as Ctrl-C does."""
        self._shell.close(force=True)
        for process in reversed(self._background):
            process.send_signal(signal.SIGINT)
            process.wait(timeout=within(120))

    def _until(self, pattern: str, *, within_s: float) -> str:
        """Wait for an output that the pattern matches, and return it."""
        self._shell.expect(pattern, timeout=within(within_s))
        return str(self._shell.after)

    @property
    def _before(self) -> str:
        return str(self._shell.before)

    def _answer(self, question: str, shown: tuple[str, ...]) -> str:
        if question.startswith("Password"):
            return self._password
        answers = [line.partition(question)[2] for line in shown if question in line]
        return answers[0] if answers else ""


def as_seen(output: str) -> str:
    """Return what stands at a terminal after an output: lines that were written over show their last text."""
    lines = _ESCAPES.sub("", output).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
