"""The query of a director: an expression over the attributes of a task queue."""

import pytest

from pilots.domain.director_query import flaw_of, query_of
from resources.domain.classad import ClassAd, classad_of
from resources.domain.throttle_conditions import JOB_ATTRIBUTES


def task_queue() -> ClassAd:
    return classad_of({"GPUs": 1, "VO": "lhcb", "Tags": ["a", "b"], "CPUTime": 5000})


@pytest.mark.parametrize(
    ("requirements", "accepts", "names"),
    [
        ("GPUs > 0", True, ("GPUs",)),
        ("TARGET.gpus > 1", False, ("GPUs",)),
        ('vo == "lhcb" && member("b", Tags)', True, ("Tags", "VO")),
        ('ifThenElse(GPUs > 0, CPUTime <= 5000, regexp("^cms", VO))', True, ("CPUTime", "GPUs", "VO")),
        ("time() == 7", True, ()),
        ("GPUs", False, ("GPUs",)),
        ("Memory > 1", False, ("Memory",)),
        ("MY.GPUs > 0", False, ()),
        ("Color is undefined", True, ()),
        ("GPUs >", False, ()),
    ],
)
def test_a_query_is_true_or_the_task_queue_is_not_served(
    requirements: str, accepts: bool, names: tuple[str, ...]
) -> None:
    query = query_of(requirements)
    assert query.accepts(task_queue(), now=7) is accepts
    assert query.names == names


def test_a_query_that_takes_too_long_serves_nothing() -> None:
    assert not query_of(" && ".join(["member(1, Tags) is false"] * 900)).accepts(
        classad_of({"Tags": ["x"] * 10_000}), now=0
    )


@pytest.mark.parametrize(
    ("requirements", "flaw"),
    [
        ("GPUs > 0 && time() > 0", ""),
        ("target.VO == setup", ""),
        ("GPUs >", "not a ClassAd expression: Line 1, column 7: A value is expected here, not the end of the text."),
        ("TARGET.CPUTme < 1", 'a task queue has no attribute "CPUTme". Did you mean "CPUTime"?'),
        ("Color > 1", f'a task queue has no attribute "Color". There are {", ".join(JOB_ATTRIBUTES)}.'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_query_is_one_sentence(requirements: str, flaw: str) -> None:
    assert flaw_of(requirements) == flaw
