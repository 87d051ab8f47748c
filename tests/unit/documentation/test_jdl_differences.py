"""The table of what DIRAC does and what is done here: it has the differences that users meet."""

import pytest

from docs.generators.dirac_table import EXAMPLES, here


@pytest.mark.parametrize(
    ("jdl", "words"),
    [
        ("JobName = my first job;", '`job_name: "my first job"`.'),
        ("Colour = blue;", "Refused: There is no attribute `Colour`."),
        ("MaxRAM = 4;", "DIRAC 9 counts gigabytes"),
        ('Arguments = "$HOME *.txt > out.txt";', "the program gets $HOME, * and > as written"),
    ],
)
def test_what_is_done_here_is_computed_from_the_example(jdl: str, words: str) -> None:
    assert jdl in [example.jdl for example in EXAMPLES]
    assert words in here(jdl)
