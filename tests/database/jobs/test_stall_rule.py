"""The stall rule of a job: accepted within the bounds of its VO; pilots get it from job, queue, VO or server."""

from contextlib import nullcontext

import pytest
from django.core.exceptions import ValidationError
from pytest_django import Settings

from pilots.queries import configuration_of
from tests.database.jobs.conftest import SampleData
from tests.factories import NOW, make_pilot, make_queue, make_vo
from wms.jobs.domain.description import InvalidDescriptionError
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("asked_s", [60, 86400])
def test_a_job_may_choose_a_window_that_its_vo_allows(sample: SampleData, asked_s: int) -> None:
    (job,) = sample.submit(stalled_s=asked_s, stalled_cpu_fraction=0.5).jobs
    description = Job.objects.get(pk=job.id).description
    assert (description["stalled_s"], description["stalled_cpu_fraction"]) == (asked_s, 0.5)


@pytest.mark.parametrize(
    ("asked_s", "said"),
    [
        (86401, "at most 86400, not 86401."),
        (0, "at most 86400, not 0, which is no limit."),
    ],
)
def test_a_longer_window_than_its_vo_allows_is_refused(sample: SampleData, asked_s: int, said: str) -> None:
    with pytest.raises(InvalidDescriptionError) as refused:
        sample.submit(stalled_s=asked_s)
    assert refused.value.errors["stalled_s"] == [f"The VO {sample.group.vo} allows a stalled_s of {said}"]


@pytest.mark.parametrize(("allowed_s", "asked_s", "accepted"), [(0, 0, True), (0, 10**6, True), (3600, 7200, False)])
def test_the_vo_decides_how_long_a_window_may_be(
    sample: SampleData, allowed_s: int, asked_s: int, accepted: bool
) -> None:
    vo = sample.group.vo
    vo.max_stalled_s = allowed_s
    vo.save()
    if accepted:
        assert sample.submit(stalled_s=asked_s).jobs
    else:
        with pytest.raises(InvalidDescriptionError, match="at most 3600"):
            sample.submit(stalled_s=asked_s)


@pytest.mark.parametrize(
    ("of_vo", "of_queue", "expected"),
    [
        ({}, {}, (1800, 0.05, 86400)),
        ({"stalled_s": 600, "stalled_cpu_fraction": 0.1, "max_stalled_s": 900}, {}, (600, 0.1, 900)),
        ({"stalled_s": 600}, {"stalled_s": 0}, (0, 0.05, 86400)),
        ({"stalled_s": 0}, {"stalled_s": 7200, "stalled_cpu_fraction": 0.0}, (7200, 0.0, 86400)),
        ({"max_stalled_s": 900}, {"max_stalled_s": 600}, (1800, 0.05, 600)),
        # A queue cannot allow more than its VO.
        ({"max_stalled_s": 900}, {"max_stalled_s": 1000}, (1800, 0.05, 900)),
        ({"max_stalled_s": 900}, {"max_stalled_s": 0}, (1800, 0.05, 900)),
        ({"max_stalled_s": 0}, {"max_stalled_s": 1000}, (1800, 0.05, 1000)),
        ({"max_stalled_s": 0}, {}, (1800, 0.05, 0)),
    ],
)
def test_the_stall_rule_comes_from_queue_vo_or_server(
    of_vo: dict[str, float], of_queue: dict[str, float], expected: tuple[int, float, int]
) -> None:
    queue, vo = make_queue(), make_vo()
    for level, said in ((queue, of_queue), (vo, of_vo)):
        for name, value in said.items():
            setattr(level, name, value)
        level.save()
    pilot = make_pilot(queue=queue, vo=vo)
    told = configuration_of(pilot, server_time=NOW).watchdog
    assert (told.stalled_s, told.stalled_cpu_fraction, told.max_stalled_s) == expected


def test_without_queue_and_vo_rules_the_server_stall_rule_applies(settings: Settings) -> None:
    settings.WMS_MAX_STALLED_S = 7200
    vo = make_vo()
    vo.stalled_s = 300
    vo.save()
    told = configuration_of(make_pilot(vo=vo), server_time=NOW).watchdog
    assert (told.stalled_s, told.max_stalled_s) == (300, 7200)


@pytest.mark.parametrize("field", ["stalled_s", "max_stalled_s"])
@pytest.mark.parametrize(
    ("seconds", "is_valid"), [(0, True), (1, False), (59, False), (60, True), (366 * 86400 + 1, False)]
)
def test_queues_and_vos_set_no_window_in_which_a_payload_cannot_begin(field: str, seconds: int, is_valid: bool) -> None:
    for row in (make_vo(), make_queue()):
        setattr(row, field, seconds)
        with nullcontext() if is_valid else pytest.raises(ValidationError, match="Use 0, or 60 to 31622400 seconds"):
            row.full_clean()
