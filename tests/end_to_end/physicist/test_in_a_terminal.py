"""A physicist's day in a real terminal: log in, submit 500 jobs, watch them, read failures, retry, download."""

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.docs.system import PASSWORD
from tests.end_to_end.installed import ENVIRONMENT
from tests.end_to_end.physicist.conftest import InstalledClient
from tests.pace import wait_for, within
from tests.programs import directory_of_payloads, needed

JOBS = 500
#: Seeds that need the calibration: 7, 57, 107 and so on.
FAILING = len(range(7, JOBS + 1, 50))
WIDTH, HEIGHT = 120, 30
#: Of one answer, and of all jobs, on the idle reference machine.
ANSWER_S, JOBS_S = 60, 400
PROMPT = "$ "

SCRIPT = """\
#!/bin/sh
echo "seed $1"
if [ $(($1 % 50)) -eq 7 ] && [ ! -e "$2/calibration" ]; then
    echo "no calibration for seed $1" >&2
    exit 3
fi
echo $(($1 * $1)) > result.txt
"""
DESCRIPTION = f"""\
JobName        = "scan-%n";
Executable     = "scan.sh";
Arguments      = "%s {{shared}}";
InputSandbox   = {{{{ "scan.sh" }}}};
OutputSandbox  = {{{{ "std.out", "result.txt" }}}};
CPUTime        = 600;
Parameters     = {JOBS};
ParameterStart = 1;
ParameterStep  = 1;
"""


class Terminal:
    """A shell in tmux.

    Args:
        socket: of a tmux server of its own.
        home: directory of the user.
        programs: directory that is first on the path.
    """

    def __init__(self, socket: Path, *, home: Path, programs: Path) -> None:
        self._tmux = ["tmux", "-u", "-f", "/dev/null", "-S", str(socket)]
        variables = {"HOME": str(home), "PS1": PROMPT, "LC_ALL": "C.UTF-8", "PATH": f"{programs}:/usr/bin:/bin"}
        shell = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in variables.items())])
        self._run(
            *("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "-c", str(home)),
            f'{shell} TERM="$TERM" bash --norc --noprofile',
        )
        self.wait_until(lambda screen: screen[-1] == PROMPT.strip(), ANSWER_S)

    def _run(self, *arguments: str) -> str:
        return subprocess.run(
            [*self._tmux, *arguments],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
            timeout=within(30),
        ).stdout

    def close(self) -> None:
        self._run("kill-server")

    @property
    def screen(self) -> list[str]:
        """The lines, without those at the end that are empty."""
        return self._run("capture-pane", "-p").rstrip("\n").splitlines() or [""]

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)
        self._run("send-keys", "Enter")

    def wait_until(self, is_there: Callable[[list[str]], object], within_s: float) -> list[str]:
        """Return the first screen for which the condition holds."""
        seen: list[list[str]] = []

        def found() -> bool:
            seen.append(self.screen)
            return bool(is_there(seen[-1]))

        wait_for(found, within_s, every_s=0.2, state=lambda: "\n".join(seen[-1]))
        return seen[-1]

    def answer(self, command: str, within_s: float = ANSWER_S) -> list[str]:
        """Clear the screen, run a command, and return the lines below it when it has ended."""
        self._run("send-keys", "-R")
        self._run("clear-history")
        self.type(f"clear; {command}")
        screen = self.wait_until(lambda screen: screen[-1] == PROMPT.strip() and len(screen) > 1, within_s)
        return screen[:-1]


@pytest.fixture
def shared() -> Iterator[Path]:
    with directory_of_payloads() as made:
        yield made


@pytest.fixture
def terminal(client: InstalledClient, directory: Path, shared: Path) -> Iterator[Terminal]:
    needed("tmux")
    home = directory / "home"
    home.mkdir()
    (home / "scan.sh").write_text(SCRIPT)
    (home / "scan.jdl").write_text(DESCRIPTION.format(shared=shared))
    made = Terminal(directory / "tmux", home=home, programs=client.programs)
    yield made
    made.close()


def log_in(terminal: Terminal, server: str) -> None:
    terminal.type(f"wms login --server {server} --user alice")
    terminal.wait_until(lambda screen: screen[-1] == "Password:", ANSWER_S)
    terminal.type(PASSWORD)
    screen = terminal.wait_until(lambda screen: screen[-1] == PROMPT.strip(), ANSWER_S)
    assert any(line.startswith(f"Logged in at {server} as alice until ") for line in screen)
    assert PASSWORD not in "".join(screen)


def watch(terminal: Terminal, submission: str) -> set[int]:
    """Watch a submission until it has ended; return the numbers of ended jobs that were seen on the way."""
    numbers = set()
    frame = re.compile(rf"\d\d:\d\d:\d\d  Submission {submission}  scan-\*\n[█▒░]+ (\d+)/{JOBS}  .+\n\n *ID  STATUS ")

    def is_over(screen: list[str]) -> bool:
        found = frame.match("\n".join(screen))
        if found is None:
            return screen[-1] == PROMPT.strip()
        # As many jobs as fit: all lines but heading, bar, two empty ones, the table's heading, and the help.
        assert len(screen) == HEIGHT, screen
        assert [re.search(r" scan-\d+ ", line) is not None for line in screen[4:-2]] == [True] * (HEIGHT - 6)
        assert screen[-1] == "q ends the view; it ends by itself when all jobs have ended."
        numbers.add(int(found[1]))
        return False

    terminal.type(f"clear; wms watch {submission}")
    terminal.wait_until(lambda screen: frame.match("\n".join(screen)), ANSWER_S)
    terminal.wait_until(is_over, JOBS_S)
    return numbers


def test_five_hundred_jobs_from_the_log_in_to_their_output(
    terminal: Terminal, server: str, shared: Path, directory: Path
) -> None:
    log_in(terminal, server)

    told, followed = terminal.answer("wms submit scan.jdl")
    found = re.fullmatch(rf"{JOBS} jobs are submitted, 1 to {JOBS}, as submission ([0-9a-f-]{{36}})\.", told)
    assert found, told
    submission = found[1]
    assert followed == f"Follow them with `wms watch {submission}`."

    numbers = watch(terminal, submission)
    assert len(numbers) > 3
    assert max(numbers) <= JOBS
    # The view has left the screen as it was; the last bar stays.
    assert re.fullmatch(rf"█+ {JOBS}/{JOBS}  {JOBS - FAILING} Done  {FAILING} Failed", terminal.screen[-2])

    heading, row, advice = terminal.answer(f"wms failures --submission {submission}")
    assert heading.split() == ["JOBS", "EXIT", "CAUSE", "REASON", "PLACES", "EXAMPLE"]
    jobs, exit_code, cause, reason, places, example = re.split(" {2,}", row.strip())
    assert (jobs, exit_code, places) == (str(FAILING), "3", f"LCG.CERN.ch ({FAILING})")
    assert re.fullmatch("[0-9a-f]{10}", cause)
    assert reason == f"no calibration for seed {example}"
    assert advice == "`wms logs JOB --stderr` shows the last lines of an example."
    assert terminal.answer(f"wms logs {example} --stderr") == [f"no calibration for seed {example}"]

    (shared / "calibration").touch()
    terminal.type(f"clear; wms reschedule --submission {submission} status:failed")
    terminal.wait_until(lambda screen: screen[-1] == f"Reschedule {FAILING} jobs? [y/N]", ANSWER_S)
    terminal.type("y")
    screen = terminal.wait_until(lambda screen: screen[-1] == PROMPT.strip(), ANSWER_S)
    assert screen[-2] == f"{FAILING} jobs rescheduled, 0 refused."
    watch(terminal, submission)
    assert re.fullmatch(rf"█+ {JOBS}/{JOBS}  {JOBS} Done", terminal.screen[-2])

    last = terminal.answer(f"wms output --submission {submission} --directory results", JOBS_S)[-1]
    assert last.split() == [str(JOBS), f"results/{JOBS}"]
    results = directory / "home" / "results"
    assert {path.name for path in results.iterdir()} == {str(number) for number in range(1, JOBS + 1)}
    assert all(
        (results / str(number) / "result.txt").read_text() == f"{number * number}\n" for number in range(1, JOBS + 1)
    )
    (again, *_) = terminal.answer(f"wms output --submission {submission} --directory results")
    assert again == "Nothing was fetched."
