"""The rules for chunks of a log: new parts, omitted parts, and the lines that mark gaps."""

from hypothesis import given
from hypothesis import strategies as st

from pilots.domain.logs import (
    HEAD_LENGTH,
    LONGEST_LINE,
    MOST_FOUND,
    TAIL_LENGTH,
    LogPart,
    find,
    joined,
    left_out_of,
    new_part_of,
    newest_of,
    shortened,
)


@given(st.text(max_size=200), st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=30))
def test_any_repeated_and_overlapping_chunks_give_the_text_as_far_as_it_was_sent(
    text: str, spans: list[tuple[int, int]]
) -> None:
    received, parts = 0, []
    for wanted, length in spans:
        start = min(wanted, received)  # a pilot goes on where the server is, or before
        new = new_part_of(LogPart(offset=start, text=text[start : start + length]), received=received)
        if new is not None:
            parts.append(new)
            received = new.end
    assert joined(parts) == text[:received]


def test_an_empty_chunk_is_never_new_wherever_it_is() -> None:
    assert new_part_of(LogPart(offset=0, text=""), received=0) is None
    assert new_part_of(LogPart(offset=10, text=""), received=5) is None


def test_a_gap_is_a_line_of_its_own() -> None:
    parts = [LogPart(offset=0, text="half"), LogPart(offset=10, text="rest\n"), LogPart(offset=16, text="end\n")]
    assert joined(parts) == ("half\n[… 6 characters left out …]\nrest\n[… 1 character left out …]\nend\n")
    assert joined([]) == ""


def test_a_short_log_is_shown_completely() -> None:
    assert not left_out_of(0)
    assert not left_out_of(HEAD_LENGTH + TAIL_LENGTH)
    assert list(left_out_of(HEAD_LENGTH + TAIL_LENGTH + 2)) == [HEAD_LENGTH, HEAD_LENGTH + 1]


@given(st.text(alphabet="ab\n", max_size=300), st.integers(4, 100))
def test_a_shortened_text_keeps_both_ends_and_says_how_much_is_missing(text: str, most: int) -> None:
    short = shortened(text, most=most)
    if len(text) <= most:
        assert short == text
    else:
        assert short.startswith(text[: most // 4])
        assert short.endswith(text[-(most - most // 4) :])
        assert f"[… {len(text) - most:,} character" in short


def test_the_newest_lines_are_whole() -> None:
    assert newest_of("one\ntwo\nthree\n", most=14, received=14) == "one\ntwo\nthree\n"
    assert newest_of("one\ntwo\nthree\n", most=8, received=14) == "[… 8 characters left out …]\nthree\n"
    assert newest_of("two\nthree\n", most=8, received=1014) == "[… 1,008 characters left out …]\nthree\n"
    assert newest_of("x" * 100, most=10, received=100) == "[… 90 characters left out …]\n" + "x" * 10
    assert newest_of("x" * 100 + "\n", most=10, received=101) == "[… 91 characters left out …]\n" + "x" * 9 + "\n"


def test_lines_are_found_as_text_in_any_letter_case_with_the_lines_around_them() -> None:
    found = find("one\ntwo\nthree\nCVMFS (is) gone\nfive\nsix\nseven\ncvmfs is not\n", "cvmfs (IS)")
    assert found.matches == 1
    assert [(line.number, line.text, line.is_match) for line in found.lines] == [
        (2, "two", False),
        (3, "three", False),
        (4, "CVMFS (is) gone", True),
        (5, "five", False),
        (6, "six", False),
    ]
    assert find("one\n", ".").matches == 0


def test_the_first_lines_found_are_shown_and_all_are_counted() -> None:
    found = find("x\n" * (MOST_FOUND + 50), "x")
    assert (found.matches, found.has_more) == (MOST_FOUND + 50, True)
    assert len(found.lines) == MOST_FOUND + 2


def test_of_a_long_line_the_part_with_the_words_is_shown() -> None:
    (line,) = find("a" * 10_000 + "needle" + "b" * 10_000, "needle").lines
    assert "needle" in line.text
    assert len(line.text) == LONGEST_LINE + 2
