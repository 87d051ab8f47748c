"""Random JDL, CFG, ClassAd and JSON: read, or refused with one sentence, in work bounded by the length of the text."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import pytest
from hypothesis import given, settings

from resources.domain.advertisements import of_classad
from resources.domain.classad import ClassAdError, classad_of, evaluate, parse_expression
from tests.cases import quick_cases
from tests.fuzz.conftest import EXAMPLES, LONG
from tests.fuzz.texts import (
    CFG_EXAMPLES,
    CFG_PARTS,
    CFGS,
    CLASSADS,
    JDL_EXAMPLES,
    JDL_PARTS,
    JSON_EXAMPLES,
    JSON_PARTS,
    JSONS,
    MAX_CHARACTERS,
    Family,
    changed,
)
from tests.fuzz.work import calls_of, refuse_far_too_long, refuse_long
from wms.jobs.domain.cfg import parse_cfg
from wms.jobs.domain.jdl import parse_jdl
from wms.jobs.domain.parametric import parse_all
from wms.kernel.errors import RejectedError
from wms.kernel.rest.strict_json import load_json

#: Functions called for a text of no length, among them the search for the nearest of all attributes.
MOST_CALLS: Final = 120_000
MOST_CALLS_OF_A_CHARACTER: Final = 12


def read_jdl(text: str) -> None:
    """Read the text as a submission does."""
    parse_all(parse_jdl(text).description)


def read_cfg(text: str) -> None:
    """Read the text as a submission does."""
    parse_all(parse_cfg(text).description)


def read_json(text: str) -> None:
    """Read the text as a request does."""
    load_json(text.encode(errors="surrogatepass"))


def compute(text: str) -> None:
    """Read and evaluate an expression of a site's throttle."""
    evaluate(parse_expression(text), my=classad_of({"a": 1, "b": ["x", "y"]}), target=classad_of({"Processors": 8}))


READERS: Final[Mapping[str, tuple[Callable[[str], object], Mapping[str, Family]]]] = {
    "JDL": (read_jdl, CLASSADS),
    "ClassAd": (of_classad, CLASSADS),
    "CFG": (read_cfg, CFGS),
    "JSON": (read_json, JSONS),
}


def tried(read: Callable[[str], object], text: str) -> None:
    """Read *text*, ignoring a refusal."""
    with suppress(RejectedError):
        read(text)


def refuse_crashes(read: Callable[[str], object], text: str) -> None:
    """Assert that *text* is read, or refused with a readable sentence, in work that its length bounds."""

    refusals: list[RejectedError] = []

    def attempt() -> None:
        try:
            read(text)
        except RejectedError as error:
            refusals.append(error)

    assert calls_of(attempt) <= MOST_CALLS + MOST_CALLS_OF_A_CHARACTER * len(text)
    for error in refusals:
        assert 10 < len(error.detail) < 1000, error.detail
        assert error.code.isascii()
        if isinstance(error, ClassAdError):
            assert 1 <= error.line <= text.count("\n") + 1
            assert 1 <= error.column <= len(text) + 1


@settings(settings.get_profile("fuzz"), max_examples=20 * EXAMPLES)
@given(changed(JDL_EXAMPLES, JDL_PARTS))
def test_any_jdl_is_read_or_refused(text: str) -> None:
    refuse_crashes(read_jdl, text)


@settings(settings.get_profile("fuzz"), max_examples=20 * EXAMPLES)
@given(changed(JDL_EXAMPLES, JDL_PARTS))
def test_any_classad_is_read_or_refused(text: str) -> None:
    refuse_crashes(of_classad, text)
    refuse_crashes(compute, text)


@settings(settings.get_profile("fuzz"), max_examples=20 * EXAMPLES)
@given(changed(CFG_EXAMPLES, CFG_PARTS))
def test_any_cfg_is_read_or_refused(text: str) -> None:
    refuse_crashes(read_cfg, text)


@settings(settings.get_profile("fuzz"), max_examples=20 * EXAMPLES)
@given(changed(JSON_EXAMPLES, JSON_PARTS))
def test_any_json_is_read_or_refused(text: str) -> None:
    refuse_crashes(read_json, text)


@pytest.mark.parametrize("kind", READERS)
def test_parsing_time_is_linear_in_the_text(kind: str, subtests: pytest.Subtests) -> None:
    read, families = READERS[kind]
    for name, family in families.items():
        with subtests.test(name):
            small, large = (family(size) for size in (4_000, 8_000))
            tried(read, small)  # what is done once is done
            calls = calls_of(partial(tried, read, small))

            assert calls_of(partial(tried, read, large)) <= 2.2 * calls + 1000


@pytest.mark.parametrize("kind", quick_cases(READERS, quick=1))
def test_64_kb_are_parsed_in_one_step(kind: str, subtests: pytest.Subtests) -> None:
    read, families = READERS[kind]
    for name, family in families.items():
        with subtests.test(name):
            text = family(MAX_CHARACTERS)
            attempt = partial(tried, read, text)

            assert calls_of(attempt) <= MOST_CALLS + MOST_CALLS_OF_A_CHARACTER * len(text)
            (refuse_long if LONG else refuse_far_too_long)(attempt)
