"""The cost of one submission: the most expensive descriptions are bounded, and so are the rows that they create."""

import json
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.fuzz.texts import CLASSADS
from tests.fuzz.work import calls_of
from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.parsing_budget import MAX_WRONG_DESCRIPTIONS, InvalidSubmissionError
from wms.jobs.domain.request import parse_submission
from wms.kernel.errors import RejectedError
from wms.kernel.rest.strict_json import InvalidJSONError, load_json

#: Wrong only at its end.
WRONG_JDL = CLASSADS["a list of strings"](8_000).removesuffix("};")


def refused(work: Callable[[], object]) -> None:
    with suppress(RejectedError):
        work()


def test_a_hundred_wrong_descriptions_cost_as_much_as_ten() -> None:
    ten, hundred = ({"jobs": [{"jdl": WRONG_JDL}] * count} for count in (10, 100))
    calls_of_ten = calls_of(lambda: refused(lambda: parse_submission(ten)))

    assert calls_of(lambda: refused(lambda: parse_submission(hundred))) <= 1.1 * calls_of_ten


def test_the_answer_says_how_many_descriptions_were_not_read() -> None:
    with pytest.raises(InvalidDescriptionError) as caught:
        parse_submission({"jobs": [{"executable": "a"}, *[{"jdl": "Executable = ;"}] * 99]})
    assert caught.value.errors["jobs"] == ["Too many errors: the last 89 descriptions were not checked."]
    assert len(caught.value.errors) == MAX_WRONG_DESCRIPTIONS + 1


def test_all_wrong_descriptions_are_named_while_they_are_few() -> None:
    with pytest.raises(InvalidDescriptionError) as caught:
        parse_submission({"jobs": [{}] * MAX_WRONG_DESCRIPTIONS})
    assert "jobs" not in caught.value.errors


def test_ten_megabytes_of_jdl_are_not_read() -> None:
    body = {"jobs": [{"jdl": 'Executable = "a"; Arguments = "%s";' % ("x" * 30_000)}] * 330}

    with pytest.raises(InvalidSubmissionError, match="at most 4 MB of JDL and CFG"):
        parse_submission(body)
    assert calls_of(lambda: refused(lambda: parse_submission(body))) < 5000


def test_jobs_of_wrong_parametric_descriptions_count() -> None:
    # Only the last job of each is wrong: its executable is empty.
    wrong = {"executable": "%s", "parameters": {"values": ["a"] * 4_999 + [""]}}

    with pytest.raises(InvalidSubmissionError, match="more than 10000 jobs"):
        parse_submission({"jobs": [wrong] * 3})


def test_text_of_all_parametric_descriptions_counts() -> None:
    long = {"executable": "a", "arguments": "%s" * 30, "parameters": {"values": ["x" * 1000] * 500}}

    with pytest.raises(InvalidDescriptionError, match="more than 64 MB of text"):
        parse_submission({"jobs": [long] * 5})


def test_a_line_of_blanks_takes_linear_time() -> None:
    # A search that starts again at each blank took 15 seconds for these 64 kB.
    with pytest.raises(RejectedError, match="at most 255 characters"):
        parse_cfg(f"a{' ' * 64_000}b")


def test_error_positions_take_linear_time() -> None:
    deep: object = [*[0] * 25_000, "\0"]
    for _ in range(90):
        deep = {"x" * 64: deep}
    body = json.dumps(deep).encode()

    tracemalloc.start()
    try:
        with pytest.raises(InvalidJSONError, match="NUL") as caught:
            load_json(body)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 100 * len(body)
    assert [place.rpartition(".")[2] for place in caught.value.errors] == ["25000"]
