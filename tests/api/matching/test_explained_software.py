"""Explain and preview of jobs that need published software (ADR 34)."""

import pytest

from resources.models import Queue
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import condition, explained, of_alice


@pytest.fixture
def other(sample: SampleData) -> Queue:
    return factories.make_queue(ce=Queue.objects.get().ce, name="other")


def test_explain_names_the_software_that_a_queue_does_not_publish(
    sample: SampleData, client_of: ClientOf, other: Queue
) -> None:
    Queue.objects.exclude(pk=other.pk).update(tags=["geant4", "root6"])
    said = explained(client_of(sample.alice), of_alice(sample, software=["root6", "/opt/tool", "geant4"]))
    assert {queue["queue"]: queue["reasons"] for queue in said["queues"]} == {
        "grid": [],
        "other": ["needs software geant4, root6, which this queue does not publish"],
    }
    assert condition(said, "software") == (
        *(1, 1),
        "needs software /opt/tool, geant4, root6; only some queues publish geant4, root6",
    )


def test_explain_says_when_no_queue_publishes_all_of_it(sample: SampleData, client_of: ClientOf, other: Queue) -> None:
    Queue.objects.exclude(pk=other.pk).update(tags=["geant4"])
    Queue.objects.filter(pk=other.pk).update(tags=["root6"])
    said = explained(client_of(sample.alice), of_alice(sample, software=["root6", "geant4"]))
    assert said["summary"] == (
        "It waits because no queue that serves lhcb fits it: "
        "it needs software geant4, root6; only some queues publish geant4, root6."
    )


def test_explain_names_software_that_is_not_compared(sample: SampleData, client_of: ClientOf) -> None:
    said = explained(client_of(sample.alice), of_alice(sample, software=["/opt/tool"]))
    assert condition(said, "software") == (1, 0, "needs software /opt/tool")
    said = explained(client_of(sample.alice), of_alice(sample))
    assert condition(said, "software") == (1, 0, "needs no software that queues publish")


def test_a_preview_compares_what_the_named_queue_publishes(
    sample: SampleData, client_of: ClientOf, other: Queue
) -> None:
    Queue.objects.exclude(pk=other.pk).update(tags=["root6"])
    of_alice(sample, software=["root6"])

    def left(**place: str) -> int:
        offer = {"vo": sample.vo.name, "cpu_time_s": 300_000, "tags": ["root6"], **place}
        answer = client_of(sample.mallory).post("/api/v1/matches/preview/", offer, format="json")
        assert answer.status_code == 200, answer.content
        return len(answer.json()["task_queues"])

    assert [left(queue="grid"), left(queue="other"), left()] == [1, 0, 1]
