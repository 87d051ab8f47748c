"""Signs in arguments that a shell would act on: the payload gets them as they stand, and a warning says so."""

import pytest

from wms.jobs.domain.shell_signs import shell_signs


@pytest.mark.parametrize(
    ("arguments", "signs"),
    [
        ("$HOME *.txt > out.txt", ["$HOME", "*", ">"]),
        ("$MYVARIABLE", ["$MYVARIABLE"]),
        ("a | b; c & d && e || f", ["|", ";", "&"]),
        ("a 2>&1", [">", "&"]),
        ("a >> b < c", [">>", "<"]),
        ("${A} $(date) $1", ["${", "$(", "$1"]),
        ("`date` ~/a b~ ?.txt", ["`", "~", "?"]),
        ("data[0-9].txt", ["["]),
        ('"$HOME" "*" "a > b" "`date`"', ["$HOME", "`"]),
        ("'$HOME' '*' \\$HOME \\> \"\\$HOME\"", []),
        ("$A $A $A", ["$A"]),
        ("100% -n 5 --x=y a:b,c @d (e) !f #g {h} 5$ ^i", []),
        ('"it\'s $HOME"', ["$HOME"]),
        ("it's $HOME", ["$HOME"]),
        ("", []),
    ],
)
def test_signs_outside_of_quotes_are_found(arguments: str, signs: list[str]) -> None:
    assert shell_signs("/bin/echo", arguments) == signs


@pytest.mark.parametrize("executable", ["/bin/sh", "bash", "/usr/bin/python3.11"])
def test_an_interpreter_that_gets_a_command_reads_its_signs(executable: str) -> None:
    assert shell_signs(executable, "-c 'echo $HOME' > a") == []
    assert shell_signs(executable, "-ec ls *.txt") == []
    assert shell_signs(executable, "run.sh $HOME") == ["$HOME"]


def test_long_arguments_are_read_in_linear_time() -> None:
    for text in ("'" * 32_000, '"\\' * 16_000, "$" * 32_000, "*" * 32_000, "\\" * 32_000, '"$' * 16_000, "& " * 16_000):
        assert len(shell_signs("x", text)) <= 3
