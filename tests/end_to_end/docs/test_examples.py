"""Each example of the documentation is run as a reader runs it: its commands, its files, its descriptions of jobs."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.benchmarks.catalogue import MEASURES
from tests.end_to_end.docs.fences import PROJECT, Command, Fence, differs, fences_of
from tests.end_to_end.docs.system import PASSWORD, running_system
from tests.end_to_end.docs.terminal import Terminal
from tests.end_to_end.installed import ENVIRONMENT
from tests.end_to_end.stack.running import READY_WITHIN_S, free_port
from tests.programs import needed

#: The server of the pages for physicists and managers, which runs already; and the one that a page itself starts.
SERVER: Final = "https://wms.example.org"
OWN_SERVER: Final = "localhost:8000"
#: A command that runs until the page ends.
STARTS: Final = re.compile(r"wms-server (up|demo)\b")
#: {a command, as a regular expression: why this test does not run it}.
NOT_RUN: Final[Mapping[str, str]] = {
    r"pip install uv": "tests have no package index",
    r"uv run( --no-dev)? manage\.py demo.*": "tests/smoke runs it",
    r"uv sync .*": "tests have no package index",
    r"(FUZZ_EXAMPLES=\d+ |WMS_TESTS_NODE=\S+ )?uv run( --all-groups)? pytest( .*)?": "this is a part of it",
    r"uv run( --group slow)? python -m tests\.(benchmarks|screenshots) .*": "tests/end_to_end runs small ones",
    r"uv run python -m tests\.chaos.*": "tests/chaos runs a short one",
    r"uv run --all-groups python -m tests\.branches": "it reads what a run of the tests has stored",
    r"\.ci/(run|lowest).*": "it runs this test",
    r"uv run --group slow mkdocs serve": "test_site.py builds the site",
    r"uv run (ruff|pre-commit) .*": "it needs the repository; .ci/run runs ruff",
    r"(npm|npx) .*": "tests have no package index",
    r"WMS_EMBEDDED=1 uv run manage\.py spectacular .*": "tests/api/contract makes the document",
}
#: Seconds of an idle machine for one command.
COMMAND_S: Final = 180.0
PAGES: Final = sorted([*PROJECT.glob("docs/*.md"), *PROJECT.glob("*.md"), PROJECT / "wms" / "client" / "README.md"])
WITH_EXAMPLES: Final = [page for page in PAGES if "```" in page.read_text(encoding="utf-8")]


class Reader:
    """Somebody who follows a page from its top to its bottom.

    Args:
        directory: where the files of the page are written.
        terminal: where its commands are typed.
        addresses: {address on the page: real one}.
        own_port: of a server that the page starts.
    """

    def __init__(self, directory: Path, terminal: Terminal, addresses: Mapping[str, str], *, own_port: int) -> None:
        self._directory, self._terminal = directory, terminal
        self._addresses, self._own_port = addresses, own_port

    def follow(self, fence: Fence) -> None:
        """Do what a block says."""
        if fence.title:
            self._write(fence)
        elif fence.language == "console":
            commands = fence.commands
            for command in commands:
                self._run(fence, command, code=fence.exit_code if command is commands[-1] else 0)
        else:
            _CHECKS[fence.language](self, fence)

    def _write(self, fence: Fence) -> None:
        path = self._directory / fence.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._real(fence.content), encoding="utf-8")
        if fence.language in {"sh", "bash"}:
            path.chmod(0o755)

    def _run(self, fence: Fence, command: Command, *, code: int) -> None:
        if _is_not_run(command):
            return
        text = self._real(command.text)
        if STARTS.match(text):
            port = "" if "--port" in text else f" --port {self._own_port}"
            output = self._terminal.start(f"{text}{port}", until="Ctrl-C stops", within_s=READY_WITHIN_S)
        else:
            ended = self._terminal.run(text, shown=command.shown, within_s=COMMAND_S)
            assert ended.code == code, f"{fence.place}: `{command.text}` ends with {ended.code}:\n{ended.output}"
            output = ended.output
        if command.shown:
            assert not (how := differs(command.shown, self._as_shown(output))), f"{fence.place}: {command.text}\n{how}"

    def script(self, fence: Fence) -> None:
        (self._directory / ".script.py").write_text(self._real(fence.content), encoding="utf-8")
        self._must("python3 .script.py", fence)

    def description(self, fence: Fence) -> None:
        """A description of jobs, which the server would take."""
        name = f".description.{fence.language}"
        (self._directory / name).write_text(self._real(fence.content), encoding="utf-8")
        self._must(f"wms submit {name} --dry-run", fence)

    def configuration(self, fence: Fence) -> None:
        """A configuration file, which the server would take."""
        (self._directory / ".wms.yaml").write_text(self._real(fence.content), encoding="utf-8")
        self._must("wms-server configure .wms.yaml --dry-run", fence)

    def _must(self, command: str, fence: Fence) -> None:
        ended = self._terminal.run(command, within_s=COMMAND_S)
        assert ended.code == 0, f"{fence.place}:\n{ended.output}"

    def _real(self, text: str) -> str:
        for shown, real in self._addresses.items():
            text = text.replace(shown, real)
        return text

    def _as_shown(self, text: str) -> str:
        for shown, real in self._addresses.items():
            text = text.replace(real, shown)
        return text


_CHECKS: Final[Mapping[str, Callable[[Reader, Fence], None]]] = {
    "python": Reader.script,
    "jdl": Reader.description,
    "cfg": Reader.description,
    "json": Reader.description,
    "yaml": Reader.configuration,
    # Shown only: formulas, output, drawings of characters.
    "text": lambda _reader, _fence: None,
}


@pytest.fixture(scope="module")
def configured(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a system that was configured, had no jobs, and was stopped."""
    with running_system(installed, tmp_path_factory.mktemp("configured") / "system") as system:
        return system.data


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_documented_examples_work(
    page: Path, installed: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    needed("curl")
    fences, port = list(fences_of(page)), free_port()
    (directory := tmp_path / "reader").mkdir()
    addresses = {OWN_SERVER: f"localhost:{port}", "--port 8000": f"--port {port}"}
    with ExitStack() as stack:
        variables = _of_a_reader(installed, directory)
        if _needs_a_server(fences):
            configured = request.getfixturevalue("configured")
            server = stack.enter_context(running_system(installed, tmp_path / "system", data=configured))
            addresses[SERVER] = server.url
            variables["WMS_DATA_DIR"] = str(server.data)
            if not any("wms login" in fence.content for fence in fences):
                variables |= {"WMS_SERVER_URL": server.url, "WMS_TOKEN": server.token_of("alice")}
        terminal = Terminal(directory, variables, password=PASSWORD)
        stack.callback(terminal.close)
        reader = Reader(directory, terminal, addresses, own_port=port)
        for fence in fences:
            reader.follow(fence)


def test_the_blocks_of_all_pages_can_be_run() -> None:
    """They are fenced, are of known languages, and name only files of the repository that are there."""
    fences = [fence for page in PAGES for fence in fences_of(page)]
    assert {fence.language for fence in fences if not fence.title} <= {"console", *_CHECKS}
    consoles = [fence for fence in fences if fence.language == "console"]
    not_run = [command.text for fence in consoles for command in fence.commands if _is_not_run(command)]
    named = {name for text in not_run for name in re.findall(r"tests/[\w/]+(?:\.py)?", text)}
    assert [name for name in named if not (PROJECT / name).exists()] == []
    benchmarks = {text.split("tests.benchmarks ")[1].split()[0] for text in not_run if "tests.benchmarks " in text}
    assert benchmarks <= {*MEASURES, "list"}
    unused = [pattern for pattern in NOT_RUN if not any(re.fullmatch(pattern, text) for text in not_run)]
    assert unused == []


def _is_not_run(command: Command) -> bool:
    # Without the words beside it.
    text = re.sub(r" +# .*", "", command.text)
    return any(re.fullmatch(pattern, text) for pattern in NOT_RUN)


def _needs_a_server(fences: Sequence[Fence]) -> bool:
    """Return whether a page speaks to a server that it does not start."""
    if any(STARTS.match(command.text) for fence in fences if fence.language == "console" for command in fence.commands):
        return False
    described = {"jdl", "cfg", "json", "yaml"}
    return any(SERVER in fence.content or (fence.language in described and not fence.title) for fence in fences)


def _of_a_reader(programs: Path, directory: Path) -> dict[str, str]:
    """Return the environment of somebody who has both wheels, and can install them without a network."""
    return {
        **ENVIRONMENT,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(directory),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(programs.parents[1] / "dist"),
        "UV_NO_INDEX": "1",
        "UV_FIND_LINKS": str(programs.parents[1] / "dist"),
    }
