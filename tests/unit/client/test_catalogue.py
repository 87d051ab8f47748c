"""The catalogue of commands: help, near names, completion, and what a command imports."""

import subprocess
import sys
from pathlib import Path

import pytest

from wms.client.catalogue import ALIASES, ENTRIES, actions_below, parser_of
from wms.client.main import help_text, main
from wms.wire.version import __version__

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", [*ENTRIES, *ALIASES])
def test_every_command_has_help_with_a_sentence_for_each_argument(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: wms {name}")
    assert f"  {ALIASES.get(name, name)}" in help_text()
    parser = parser_of(name)
    for each in (parser, *actions_below(parser)):
        of_offers = name == "match-test"
        assert all(action.help for action in each._actions if not of_offers and not action.choices), name


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"wms {__version__}\n"
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == help_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lst"], 'wms: there is no command "lst". Do you mean list? `wms --help` lists the commands.'),
        (["qqqqqq"], 'wms: there is no command "qqqqqq". `wms --help` lists the commands.'),
        ([], "wms: name a command. `wms --help` lists the commands."),
        (
            ["admin", "ce", "--jsn"],
            "wms admin ce: there is no option --jsn. Do you mean --json? `wms admin ce --help` shows the arguments.",
        ),
        (
            ["list", "--stats", "x"],
            "wms list: there is no option --stats. Do you mean --status? `wms list --help` shows the arguments.",
        ),
        (["whoami", "x"], 'wms whoami: "x" is one argument too many. `wms whoami --help` shows the arguments.'),
        (["edit"], "wms edit: the following arguments are required: JOB. `wms edit --help` shows the arguments."),
        (["\x1b[31m"], 'wms: there is no command "\\x1b[31m". `wms --help` lists the commands.'),
    ],
)  # fmt: skip
def test_a_wrong_name_gets_the_nearest_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{sentence}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_names_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in (*ENTRIES, *ALIASES))
    assert ("--status" if shell != "fish" else "-l status") in script


def test_a_command_imports_only_its_own_module() -> None:
    """Of all modules that cost time: those of the other commands, and of log-ins."""
    code = (
        "import sys; sys.path.insert(0, '.'); from wms.client.main import main; main(['list', '--limit', '1']);"
        "print(*(name for name in sys.modules if name.startswith('wms.client.commands.') or name in"
        " {'urllib.request', 'getpass', 'tarfile', 'uuid', 'difflib', 'inspect', 'dataclasses'}))"
    )
    ran = subprocess.run(
        [sys.executable, "-S", "-c", code],
        cwd=ROOT,
        env={"WMS_SERVER_URL": "http://127.0.0.1:1", "WMS_TOKEN": "t"},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = {f"wms.client.commands.{name}" for name in ("jobs", "command", "arguments", "selection")}
    assert set(ran.stdout.split()) == expected
