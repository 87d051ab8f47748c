"""Advice of explain: changes of a job that would let it fit more queues, evaluated by the conditions of the match."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from resources.domain.enums import RequirementKind, ResourceState
from resources.models import Queue, Site
from tests import factories
from tests.api.matching.conftest import SampleData
from tests.api.matching.test_explain import explained, of_alice, submitted
from tests.cases import quick_cases


def advice_on(client: APIClient, sample: SampleData, **description: Any) -> list[str]:
    advice: list[str] = explained(client, of_alice(sample, **description))["advice"]
    return advice


def fitting(client: APIClient, sample: SampleData, **description: Any) -> int:
    return sum(queue["fits"] for queue in explained(client, of_alice(sample, **description))["queues"])


CERN = "it would fit 1 queue: LCG.CERN.ch."


@pytest.mark.parametrize(
    ("description", "queue", "changed", "words"),
    quick_cases(
        [
            ({"memory_mb": 8000}, {}, {"memory_mb": 4000}, "With 4000 MB of memory instead of 8000 MB"),
            ({"memory_mb": 8000}, {"memory_mb": 0}, {"memory_mb": 0}, "Without a requirement of memory"),
            ({"processors": 8}, {"processors": 4}, {"processors": 4}, "With 4 processors instead of 8"),
            ({"gpus": 1}, {}, {"gpus": 0}, "Without a requirement of GPUs"),
            (
                {"wall_time_s": 129_600},
                {"wall_time_s": 86_400},
                {"wall_time_s": 86_400},
                "With 24 h of wall-clock time instead of 36 h",
            ),
            ({"tags": ["gpu", "ssd"]}, {"tags": ["ssd"]}, {"tags": ["ssd"]}, "Without the tag gpu"),
            ({"banned_sites": ["LCG.CERN.ch"]}, {}, {"banned_sites": []}, "Without LCG.CERN.ch among its banned sites"),
            (
                {"sites": ["LCG.PIC.es"]},
                {},
                {"sites": ["LCG.PIC.es", "LCG.CERN.ch"]},
                "With LCG.CERN.ch among its sites",
            ),
            (
                {"grid_ces": ["arc"]},
                {},
                {"grid_ces": ["arc", "ce01.cern.ch"]},
                "With the computing element ce01.cern.ch as an alternative",
            ),
            (
                {"platforms": ["el9"]},
                {"platforms": ["el8"]},
                {"platforms": ["el8", "el9"]},
                "With the platform el8 as an alternative",
            ),
            ({}, {"tags": ["gpu"], "required_tags": ["gpu"]}, {"tags": ["gpu"]}, "With the tag gpu"),
            (
                {"setup": "LHCb-Devel"},
                {"setup": "LHCb-Production"},
                {"setup": "LHCb-Production"},
                "With the setup LHCb-Production instead of LHCb-Devel",
            ),
            ({"container": "docker://a"}, {}, {"container": ""}, "Without a container"),
        ],
        quick=5,
    ),
)
def test_a_job_changed_as_advised_fits_the_queue(
    sample: SampleData,
    alice: APIClient,
    description: dict[str, Any],
    queue: dict[str, Any],
    changed: dict[str, Any],
    words: str,
) -> None:
    Queue.objects.update(**queue)
    advice = advice_on(alice, sample, **description)
    assert fitting(alice, sample, **description) == 0
    assert advice[0] == f"{words} {CERN}"
    assert fitting(alice, sample, **{**description, **changed}) == 1


def test_the_cpu_time_advised_is_a_segment_that_the_queue_offers(
    sample: SampleData, alice: APIClient, settings: Any
) -> None:
    settings.WMS_CPU_SEGMENTS_S = [3600, 36_000, 360_000]
    Queue.objects.update(cpu_time_s=50_000)
    assert advice_on(alice, sample, cpu_time_s=86_400) == [f"With a CPU time of 10 h instead of 24 h {CERN}"]
    assert fitting(alice, sample, cpu_time_s=36_000) == 1


def test_a_rounded_amount_is_advised_as_it_counts(sample: SampleData, alice: APIClient, settings: Any) -> None:
    settings.WMS_MEMORY_STEP_MB = 500
    Queue.objects.update(memory_mb=1900)
    # 1600 to 1900 MB would count as 2000 MB.
    assert advice_on(alice, sample, memory_mb=2600) == [f"With 1500 MB of memory instead of 2600 MB {CERN}"]
    assert fitting(alice, sample, memory_mb=1600) == 0
    assert fitting(alice, sample, memory_mb=1500) == 1


def test_the_smallest_change_and_the_one_that_admits_all_are_named_most_first(
    sample: SampleData, alice: APIClient
) -> None:
    ral = factories.make_ce(name="arc", site=factories.make_site(name="LCG.RAL.uk", vos=[sample.vo]))
    factories.make_queue(ce=ral, name="small", memory_mb=2000)
    factories.make_queue(ce=ral, name="large", memory_mb=16_000)
    assert advice_on(alice, sample, memory_mb=8000) == [
        "With 2000 MB of memory instead of 8000 MB it would fit 2 queues more: LCG.CERN.ch, LCG.RAL.uk.",
        "With 4000 MB of memory instead of 8000 MB it would fit 1 queue more: LCG.CERN.ch.",
    ]


def test_a_queue_excluded_by_two_conditions_is_not_gained_by_one_change(sample: SampleData, alice: APIClient) -> None:
    factories.make_queue(ce=sample.queue.ce, name="tagged", memory_mb=4000, processors=1, job_types=["Other"])
    advice = advice_on(alice, sample, memory_mb=8000)
    assert advice == [f"With 4000 MB of memory instead of 8000 MB {CERN}"]


def test_if_no_single_change_helps_all_changes_for_the_nearest_queue_are_named(
    sample: SampleData, alice: APIClient
) -> None:
    factories.make_queue(ce=sample.queue.ce, name="far", memory_mb=1000, tags=[])
    assert advice_on(alice, sample, memory_mb=8000, processors=8, tags=["gpu"]) == [
        (
            "No single change is enough; LCG.CERN.ch/ce01.cern.ch/far would fit without the tag gpu, and with 1 "
            "processor instead of 8, and with 1000 MB of memory instead of 8000 MB."
        )
    ]
    # The type of a job is never changed: it says what the job is.
    Queue.objects.update(job_types=["Other"])
    assert advice_on(alice, sample, memory_mb=8000) == []


def test_advice_names_queues_that_a_change_would_exclude(sample: SampleData, alice: APIClient) -> None:
    factories.make_queue(ce=sample.queue.ce, name="gpu", tags=["gpu"], required_tags=["gpu"])
    assert advice_on(alice, sample) == [
        "With the tag gpu it would fit 1 queue more: LCG.CERN.ch; 1 of those that it fits now would no longer fit."
    ]


def test_queues_that_are_closed_are_counted_apart(sample: SampleData, alice: APIClient) -> None:
    Site.objects.update(state=ResourceState.BANNED)
    assert advice_on(alice, sample, memory_mb=8000) == [
        (
            "With 4000 MB of memory instead of 8000 MB it would fit 1 queue: LCG.CERN.ch; 1 of them accepts no jobs at "
            "present."
        )
    ]


def test_a_requirement_is_lowered_or_left_out(sample: SampleData, alice: APIClient) -> None:
    factories.make_requirement_definition(name="memory", kind=RequirementKind.CAPACITY, unit="MB")
    Queue.objects.update(parameters={"Memory": 4000, "CPUModel": "Xeon"})
    factories.make_queue(ce=sample.queue.ce, name="other", parameters={"Memory": 9000, "CPUModel": "Epyc"})

    asked = {"Memory": 8000, "CPUModel": "Xeon"}
    said = explained(alice, submitted(alice, requirements=asked))
    assert said["advice"] == [
        "With Memory = 4000 MB instead of 8000 MB it would fit 1 queue: LCG.CERN.ch.",
        "Without the requirement Memory it would fit 1 queue: LCG.CERN.ch.",
        "Without the requirement CPUModel it would fit 1 queue: LCG.CERN.ch.",
    ]
    for changed in ({"Memory": 4000, "CPUModel": "Xeon"}, {"CPUModel": "Xeon"}, {"Memory": 8000}):
        assert sum(queue["fits"] for queue in explained(alice, submitted(alice, requirements=changed))["queues"]) == 1


def test_input_data_need_replicas_not_other_sites(sample: SampleData, alice: APIClient) -> None:
    pic = factories.make_site(name="LCG.PIC.es", vos=[sample.vo])
    element = factories.make_storage_element(name="PIC-DST", sites=[pic], vos=[sample.vo])
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=element)
    job = submitted(alice, input_data=["/lhcb/a"])
    assert explained(alice, job)["advice"] == [f"With replicas of its input data at LCG.CERN.ch {CERN}"]


def test_a_job_that_fits_everywhere_or_is_never_drawn_gets_no_advice(sample: SampleData, alice: APIClient) -> None:
    assert advice_on(alice, sample) == []
    sample.prod.priority = 0.0
    sample.prod.save()
    assert advice_on(alice, sample, memory_mb=8000) == []
