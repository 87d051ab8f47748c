"""Options of a CE of type htcondor, and the lines of the submit description made from them."""

from pathlib import Path

import pytest

from pilots.backends.htcondor import HTCondorBackend
from pilots.backends.htcondor_options import HTCondorOptions, parse_options, quoted
from pilots.backends.interface import BackendError, BatchRequest, CEDescription


def describe(options: dict[str, object], **slot: object) -> list[str]:
    """Return the lines of the submit description of two pilots."""
    parsed = parse_options(options)
    wanted = BatchRequest(**{"queue": "long", **slot})  # type: ignore[arg-type]
    return parsed.description_for(wanted, place="CERN/ce01", directory="/home/a b$c", stamps=["s1", "s2"]).split("\n")


def line_of(lines: list[str], name: str) -> str:
    (line,) = (line for line in lines if line.startswith(f"{name} = "))
    return line.removeprefix(f"{name} = ")


def test_without_options_all_have_their_defaults() -> None:
    assert parse_options({}) == HTCondorOptions(
        directory="wms-pilots",
        python="python3",
        requirements="",
        attributes={},
        features={},
        max_pending=10,
        max_idle_s=300,
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"requirement": "true"}, 'has no option requirement; .*Did you mean "requirements"'),
        ({"requirements": "true\n+Owner = root"}, "The option requirements must be a text in one line"),
        ({"requirements": 7}, "The option requirements must be a text"),
        ({"requirements": "true \\"}, "The option requirements must be a ClassAd expression in one line"),
        ({"max_pending": -1}, "The option max_pending must be a whole number, at least 0; it is -1"),
        ({"max_pending": True}, "The option max_pending must be a whole number"),
        ({"attributes": ["A"]}, "The option attributes must be a record"),
        ({"attributes": {"A B": "1"}}, "letters, digits and _; 'A B' is not one"),
        ({"attributes": {"wmsSTAMP": "1"}}, "wmsSTAMP in the option attributes is not allowed"),
        ({"attributes": {"A": "1\nqueue"}}, "A in the option attributes must be a ClassAd expression in one line"),
        ({"features": {"el9": 9}}, "el9 in the option features must be a ClassAd expression in one line; it is 9"),
        ({"features": {"el9": " "}}, "el9 in the option features must be a ClassAd expression"),
        ({"directory": ""}, "The option directory must be a text"),
    ],
)
def test_an_option_that_is_wrong_is_refused_with_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(BackendError, match=sentence):
        HTCondorBackend(
            CEDescription(site="CERN", ce="ce01", options=options, directory=Path("/nowhere"), server_url="http://here")
        )


def test_nothing_is_expanded_in_what_was_configured() -> None:
    lines = describe({"requirements": 'Name != "$(x)"', "attributes": {"Group": '"$$(y)"'}})

    assert line_of(lines, "initialdir") == "/home/a b$(DOLLAR)c/$(wms_stamp)"
    assert '(Name != "$(DOLLAR)(x)")' in line_of(lines, "requirements")
    assert line_of(lines, "+Group") == '"$(DOLLAR)$(DOLLAR)(y)"'


def test_a_slot_that_says_nothing_asks_for_nothing_but_cores() -> None:
    lines = describe({})

    assert line_of(lines, "request_cpus") == "1"
    assert [line for line in lines if line.startswith(("request_memory", "request_disk", "request_gpus", "+Max"))] == []
    assert line_of(lines, "requirements") == "(isUndefined(MY.NumJobStarts) || MY.NumJobStarts < 1)"
    assert "time()" not in line_of(lines, "periodic_remove")


def test_platforms_are_alternatives_and_tags_all_needed_and_what_is_no_feature_here_is_left_out() -> None:
    features = {"el8": "A", "el9": "B", "same": "B", "gpu": "C || D"}

    requirements = line_of(
        describe({"features": features}, platforms=("el8", "el9", "same", "other"), tags=("gpu", "fast")),
        "requirements",
    )

    assert requirements.endswith(" && ((A) || (B)) && (C || D)")


def test_each_pilot_is_a_line_of_the_queue() -> None:
    assert describe({})[-5:] == ["queue wms_stamp from (", "s1", "s2", ")", ""]


def test_a_quote_in_a_text_does_not_end_it() -> None:
    assert quoted('a "b" c') == '"a \\"b\\" c"'
