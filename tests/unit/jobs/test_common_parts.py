"""Descriptions of one request, whose common part is parsed once: each is what it is by itself."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wms.jobs.domain.description import (
    CommonParts,
    DescriptionParts,
    InvalidDescriptionError,
    JobDescription,
    described,
    parse,
)
from wms.jobs.domain.placeholders import JobIds, substitute_job_id

COMMON = st.sampled_from(
    [
        {"executable": "a"},
        {"executable": "b", "sites": ["CERN"], "job_name": "first"},
        {"executable": "a", "environment": {"TEXT": "x" * 20_000}},
        {"executable": "a", "priority": 1},
        {"executable": "a", "priority": True},
        {"executable": "a", "requirements": {"Memory": 1}},
        {"executable": "a", "requirements": {"Memory": 1.0}},
        {"executable": "%j", "output_data": ["%j.root"]},
    ]
)
TEXTS = st.sampled_from(
    ["", "x", "e\N{COMBINING ACUTE ACCENT}", "a\nb", "%j", "100%%", "\x00", "\x01" * 9_000, "x" * 300]
)
OWN = st.dictionaries(
    st.sampled_from(["job_name", "arguments"]), st.one_of(TEXTS, st.lists(TEXTS, max_size=2), st.integers(0, 1))
)


def outcome_of(data: dict[str, Any], parts: CommonParts | None = None) -> JobDescription | dict[str, list[str]]:
    try:
        return parse(data) if parts is None else parts.parse(data).whole
    except InvalidDescriptionError as error:
        return dict(error.errors)


@given(jobs=st.lists(st.builds(lambda common, own: {**common, **own}, COMMON, OWN), max_size=8))
def test_a_job_beside_others_is_read_as_by_itself(jobs: list[dict[str, Any]]) -> None:
    parts = CommonParts()
    assert [outcome_of(job, parts) for job in jobs] == [outcome_of(job) for job in jobs]


def test_jobs_that_differ_in_name_and_arguments_have_one_common_part() -> None:
    parts = CommonParts()
    jobs = [parts.parse({"executable": "a", "job_name": f"job-{number}"}) for number in range(3)]
    assert len({id(job.common) for job in jobs}) == 1
    assert [job.whole.job_name for job in jobs] == ["job-0", "job-1", "job-2"]


@given(
    executable=st.sampled_from(["a", "%j", "%%"]), name=TEXTS, arguments=TEXTS, beside=TEXTS, parametric=st.booleans()
)
def test_the_id_of_a_job_is_put_into_the_parts_as_into_the_whole(
    executable: str, name: str, arguments: str, beside: str, parametric: bool
) -> None:
    common = JobDescription(executable=executable, job_name=beside, cpu_time_s=1)
    job, ids = DescriptionParts(common, name, arguments), JobIds()
    expected = substitute_job_id(job.whole, 42, parametric=parametric)
    assert ids.put(job, 42, parametric=parametric).whole == expected
    assert ids.put(described(job.whole), 42, parametric=parametric).whole == expected


def test_jobs_without_their_id_in_the_common_part_keep_it() -> None:
    common, ids = JobDescription(executable="printf", std_output="%s%%", cpu_time_s=1), JobIds()
    kept = [ids.put(DescriptionParts(common, "", f"-j %j {number}"), number, parametric=False) for number in (1, 2)]
    assert [job.common is common for job in kept] == [True, True]
    assert [job.arguments for job in kept] == ["-j 1 1", "-j 2 2"]
