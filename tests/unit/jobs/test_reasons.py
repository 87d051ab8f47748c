"""Reasons of failures without what differs from job to job."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.reasons import normalised


@pytest.mark.parametrize(
    ("reason", "text", "pattern"),
    [
        ("Exited with code 2", "Exited with code <number>", "Exited with code *"),
        ("Killed by signal -9", "Killed by signal <number>", "Killed by signal *"),
        ("cannot open /home/alice/x.root: gone", "cannot open <path>: gone", "cannot open *: gone"),
        ("./run.sh: not found", "<path>: not found", "*: not found"),
        ("wn12.cern.ch: no route to 10.2.3.4:22", "<host>: no route to <host>", "*: no route to *"),
        ("node-17 died", "node-<number> died", "node-* died"),
        ("Memory 2345.6 MB of 2000 MB", "Memory <number> MB of <number> MB", "Memory * MB of * MB"),
        ("silent for 30min", "silent for <number>min", "silent for *min"),
        ("job 8e0e8f0a-59b4-4a3e-9c1b-0d9f0c6c9a11 lost", "job <id> lost", "job * lost"),
        ("content abcdef0123456789 at 0xBEEF", "content <id> at <id>", "content * at *"),
        ("https://se.cern.ch/a?b=1 refused", "<address> refused", "* refused"),
        ("Input/output error", "Input/output error", "Input/output error"),
        ("No such file: run.sh", "No such file: run.sh", "No such file: run.sh"),
        ("  two \n lines ", "two lines", "*two * lines*"),
        ("", "", ""),
    ],
)
def test_variable_parts_of_reasons_are_replaced(reason: str, text: str, pattern: str) -> None:
    assert normalised(reason) == (text, pattern)


WORDS = st.sampled_from(["cannot open", "lost", "on", "with code", "Übertragung", "a/b", "x*y"])
VARIABLES = st.one_of(
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(str),
    st.uuids().map(str),
    st.ip_addresses(v=4).map(str),
    st.integers(1, 9999).map(lambda number: f"wn{number}.cern.ch"),
    st.integers(1, 9999).map(lambda number: f"/data/run{number}/file.root"),
)


@given(words=st.lists(WORDS, min_size=1, max_size=4), variables=st.data())
def test_reasons_that_differ_in_variables_only_are_one_kind(words: list[str], variables: st.DataObject) -> None:
    kinds = [st.integers(0, 10**6).map(str), st.uuids(version=4).map(_with_letters), st.ip_addresses(v=4).map(str)]
    chosen = [variables.draw(st.sampled_from(kinds)) for _ in words]
    one, other = (
        " ".join(f"{word} {variables.draw(kind)}" for word, kind in zip(words, chosen, strict=True)) for _ in range(2)
    )
    assert normalised(one) == normalised(other)


def _with_letters(value: UUID) -> str:
    return f"ab{str(value)[2:]}"


@given(parts=st.lists(WORDS | VARIABLES | st.text(max_size=12), max_size=6))
def test_the_pattern_matches_the_reason_and_no_ascii_digit_is_left(parts: list[str]) -> None:
    reason = " ".join(parts)
    text, pattern = normalised(reason)
    assert not re.search("[0-9]", text)
    pieces = ".*".join(map(re.escape, pattern.split("*")))
    # As the filter compares it: without blanks around it.
    assert re.fullmatch(pieces, reason, re.DOTALL)
    assert pattern == pattern.strip()
