"""Descriptions in YAML: as the body of a submission, at the command line and in the form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.domain.yaml_descriptions import body_of_yaml
from wms.jobs.models import Job
from wms.kernel.yaml_text import dump

DESCRIPTION = """\
# A scan of a hundred points.
executable: run.sh
arguments: --seed %(seed)s
cpu_time_s: 2h
memory_mb: 4GB
sites: [LCG.CERN.ch]
environment:
  MODE: "yes"
"""


def test_a_text_is_read_and_its_answer_submitted(alice: APIClient, sample: SampleData) -> None:
    read = alice.post("/api/v1/jobs/yaml/", {"yaml": DESCRIPTION}, format="json")
    assert read.status_code == 200
    assert read.json() == {
        "executable": "run.sh",
        "arguments": "--seed %(seed)s",
        "cpu_time_s": "2h",
        "memory_mb": "4GB",
        "sites": ["LCG.CERN.ch"],
        "environment": {"MODE": "yes"},
    }
    assert not Job.objects.exists()
    assert alice.post("/api/v1/jobs/", read.json(), format="json").status_code == 201
    assert Job.objects.with_description().get().description["cpu_time_s"] == 7200
    several = alice.post("/api/v1/jobs/yaml/", {"yaml": "- executable: a\n- {executable: b}\n"}, format="json")
    assert several.json() == {"jobs": [{"executable": "a"}, {"executable": "b"}]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("executable: [a", "Line 2: not valid YAML: "),
        ("executable: a\nexecutable: b", 'Line 2: "executable" is there twice.'),
        ("executable: a\nstrict: yes", 'Line 2: put "yes" in quotes if it is a text'),
        ("a: &x 1\nb: *x", "Line 1: anchors (&) and aliases (*) are not supported"),
        ("a: !!python/object/apply:os.system [x]", "Line 1: tags such as "),
        ("[" * 30, "Line 1: nested deeper than 20 levels."),
        ("a: 1\n---\nb: 2", "Line 2: the file holds more than one document"),
        ("just words", "Line 1: write fields, such as executable: run.sh, or a list of them."),
        ("a" * 1_000_001, "Line 1: the text has more than 1,000,000 characters; write it as JSON."),
        ("# nothing", "Line 1: write fields, such as executable: run.sh, or a list of them."),
    ],
)
def test_a_mistake_has_its_line(alice: APIClient, text: str, sentence: str) -> None:
    answer = alice.post("/api/v1/jobs/yaml/", {"yaml": text}, format="json")
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]["yaml"]
    assert error.startswith(sentence)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.text(st.characters(codec="utf-8", categories=["L", "N", "P"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abcdef_", min_size=1), _VALUES, min_size=1))
def test_what_is_written_is_read(values: dict[str, object]) -> None:
    assert body_of_yaml(dump(values)) == values


@given(st.text(max_size=200))
def test_any_text_is_a_body_or_refused_with_a_sentence(text: str) -> None:
    errors = {"yaml": ["Line 1: "]}
    try:
        body = body_of_yaml(text)
    except InvalidDescriptionError as error:
        body, errors = {}, dict(error.errors)
    assert isinstance(body, dict)
    assert errors["yaml"][0].startswith("Line ")
