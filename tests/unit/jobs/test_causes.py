"""Causes of failures, from the last lines of payloads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.causes import LONGEST_LINE, cause_of


def line_of(std_error: str = "", std_output: str = "", minor: str | None = None) -> str | None:
    cause = cause_of(minor, std_error=std_error, std_output=std_output)
    return cause and cause.line


TRACEBACK = (
    'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    main()\nValueError: bad seed 917\n'
)


@pytest.mark.parametrize(
    ("std_error", "std_output", "line"),
    [
        (TRACEBACK, "event 1\nevent 2\n", "ValueError: bad seed 917"),
        ("", "event 1\nERROR: no such run 7\n", "ERROR: no such run 7"),
        ("warning: deprecated\n", "ERROR: no such run 7\n", "ERROR: no such run 7"),
        ("cannot open x.root\nhint: see the manual\n", "event 2\n", "cannot open x.root"),
        ("giving up\n", "event 2\n", "giving up"),
        ("", "event 2\n\n  \n", "event 2"),
        ("+ ./reco\n./reco: 3: Permission denied\n+ exit 1\n", "", "./reco: 3: Permission denied"),
        ("\x1b[31mfatal: no disk\x1b[0m\n-----\n", "", "fatal: no disk"),
        ("10 %\r20 %\rError: lost\r\n", "", "Error: lost"),
        ("a\u202eb\x00 failed", "", "a b  failed"),
        ("", "", None),
        ("---\n", "***\n", None),
    ],
)
def test_the_line_that_tells_most_is_the_cause(std_error: str, std_output: str, line: str | None) -> None:
    assert line_of(std_error, std_output) == line


@pytest.mark.parametrize(
    ("minor", "line"),
    [
        (None, "giving up"),
        ("Exited with code 3", "giving up"),
        ("Exited with code 3; the output sandbox is too large", "giving up"),
        ("Exited with code 137 after a process of the slot was killed because memory was short", None),
        ("Killed by signal 9 (SIGKILL)", None),
        ("Memory of 4,000 MB exceeded", None),
    ],
)
def test_a_reason_in_words_is_the_cause_itself(minor: str | None, line: str | None) -> None:
    assert line_of("giving up", minor=minor) == line


def test_a_signal_has_the_line_that_explains_it() -> None:
    text = "terminate called after throwing an exception: std::bad_alloc\n"
    assert line_of(text, minor="Killed by signal 6 (SIGABRT)") == text.strip()


def test_causes_that_differ_in_numbers_paths_and_times_are_one_kind() -> None:
    lines = [
        "2026-11-30 12:01:02 ERROR cannot open /data/run7/x.root on wn3.cern.ch",
        "2026-12-01 00:59:59 error cannot open /data/run812/y.root on wn17.cern.ch",
    ]
    one, other = (cause_of(None, std_error=line, std_output="") for line in lines)
    assert one is not None
    assert other is not None
    assert one.key == other.key
    third = cause_of(None, std_error="2026-12-01 ERROR cannot close /data/run812/y.root", std_output="")
    assert third is not None
    assert third.key != one.key


@given(st.text(max_size=5000), st.text(max_size=500))
def test_any_output_gives_one_printable_line(std_error: str, std_output: str) -> None:
    cause = cause_of(None, std_error=std_error, std_output=std_output)
    if cause is not None:
        assert cause.line.isprintable()
        assert cause.line.strip() == cause.line[:LONGEST_LINE].strip() != ""
