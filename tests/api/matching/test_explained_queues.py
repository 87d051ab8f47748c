"""Queues that explain lists, and that they fit exactly where a match would succeed."""

from datetime import timedelta
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from resources.domain.enums import ResourceState
from resources.models import Queue, ReportedPlatform
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import condition, explained, of_alice, submitted
from wms.jobs.domain.lifecycle import JobStatus
from wms.kernel.db import database_now
from wms.kernel.memo import forget_brief_results


def test_a_site_narrows_the_queues_and_nothing_else(sample: SampleData, alice: APIClient) -> None:
    ral = factories.make_site(name="LCG.RAL.uk")
    factories.make_queue(ce=factories.make_ce(site=ral))
    factories.make_queue(ce=factories.make_ce(site=factories.make_site(vos=[factories.make_vo()])))  # not of this VO
    job = of_alice(sample)
    everywhere, there = explained(alice, job), explained(alice, job, site="LCG.RAL.uk")
    assert [queue["site"] for queue in everywhere["queues"]] == ["LCG.CERN.ch", "LCG.RAL.uk"]
    assert [queue["site"] for queue in there["queues"]] == ["LCG.RAL.uk"]
    assert {**there, "queues": []} == {**everywhere, "queues": []}


def test_a_queue_whose_nodes_lack_its_platforms_does_not_fit(sample: SampleData, alice: APIClient) -> None:
    Queue.objects.update(platforms=["el9"])
    job = of_alice(sample, platforms=["el9"])
    assert explained(alice, job)["queues"][0]["fits"]
    report = ReportedPlatform.objects.create(queue=sample.queue, platform="deb12", seen_at=database_now())
    (queue,) = explained(alice, job)["queues"]
    assert queue["reasons"] == ["requires the platform el9; nodes of this queue (configured: el9) report deb12"]
    Queue.objects.update(platforms=[])
    (queue,) = explained(alice, job)["queues"]
    assert queue["reasons"] == ["requires the platform el9; this queue runs deb12; nodes of this queue report deb12"]
    ReportedPlatform.objects.create(queue=sample.queue, platform="el9", seen_at=database_now())
    assert explained(alice, job)["queues"][0]["fits"]
    ReportedPlatform.objects.exclude(pk=report.pk).delete()
    ReportedPlatform.objects.update(seen_at=database_now() - timedelta(days=2))
    assert explained(alice, job)["queues"][0]["fits"]


@pytest.mark.parametrize("status", [JobStatus.WAITING, JobStatus.DONE])
@pytest.mark.parametrize(
    ("query", "field", "nearest"),
    [({"site": "LCG.CERM.ch"}, "site", '"LCG.CERN.ch"'), ({"sites": "LCG.CERN.ch"}, "sites", '"site"')],
)
def test_unknown_names_are_refused_with_the_nearest_name(
    sample: SampleData, alice: APIClient, query: dict[str, str], field: str, nearest: str, status: JobStatus
) -> None:
    job = of_alice(sample, status=status)
    answer = alice.get(f"/api/v1/jobs/{job.pk}/explain/", query)
    assert answer.status_code == 400
    assert nearest in answer.json()["errors"][field][0]


def test_many_queues_need_no_more_queries_and_two_hundred_are_listed(sample: SampleData, alice: APIClient) -> None:
    Queue.objects.update(parameters={"Memory": 4000}, platforms=["el9"])
    job = submitted(alice, requirements={"Memory": 4000})
    with CaptureQueriesContext(connection) as few:
        explained(alice, job)
    for number in range(250):
        ce = sample.queue.ce if number % 2 else factories.make_ce(site=factories.make_site(vos=[sample.vo]))
        factories.make_queue(ce=ce, platforms=["el9"], processors=number + 1)
    forget_brief_results()
    with CaptureQueriesContext(connection) as many:
        said = explained(alice, job)
    assert len(many) == len(few)
    assert len(said["queues"]) == 200
    assert said["queues"][0]["fits"]
    assert sum(condition(said, "submit_pool")[:2]) == 251


# ---- The same as the match -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 8])
def test_explain_and_preview_agree_on_each_queue(
    sample: SampleData, alice: APIClient, client_of: ClientOf, seed: int
) -> None:
    chance, mallory = Random(seed), client_of(sample.mallory)
    names = ["A", "B", "C"]

    def some(most: int = 2) -> list[str]:
        return sorted(chance.sample(names, chance.randint(0, most)))

    for number in range(6):
        state = chance.choice([ResourceState.ACTIVE, ResourceState.ACTIVE, ResourceState.BANNED])
        site = factories.make_site(name=f"site{number}", vos=[sample.vo], state=state)
        for _ in range(3):
            factories.make_queue(
                ce=factories.make_ce(site=site),
                cpu_time_s=chance.choice([400, 5000, 300_000]),
                platforms=["A", *some()],
                processors=chance.choice([1, 4]),
                memory_mb=chance.choice([0, 2000]),
                wall_time_s=chance.choice([None, None, 3600]),
                gpus=chance.choice([0, 1]),
                disk_mb=chance.choice([0, 5000]),
                container=chance.choice([False, True]),
                job_types=chance.choice([[], [], ["User"], ["Other"]]),
                tags=names,
                required_tags=chance.choice([[], [], [], ["A"]]),
                parameters=chance.choice([{}, {"Memory": 4000}]),
            )
    queues = list(Queue.objects.select_related("ce__site"))
    fits = 0
    for number in range(6):
        sites = chance.sample([f"site{n}" for n in range(6)], 3)
        job = submitted(
            alice,
            cpu_time_s=chance.choice([500, 5000]),
            platforms=some(1),
            sites=sites if number % 3 == 0 else [],
            banned_sites=sites if number % 3 == 1 else [],
            grid_ces=[queue.ce.name for queue in chance.sample(queues, 12)] if number % 4 == 0 else [],
            tags=chance.choice([["A"], ["A"], []]),
            processors=chance.choice([1, 1, 2]),
            memory_mb=chance.choice([0, 0, 1000]),
            wall_time_s=chance.choice([0, 0, 7200]),
            gpus=chance.choice([0, 0, 0, 1]),
            disk_mb=chance.choice([0, 0, 2000]),
            container=chance.choice(["", "", "", "image.sif"]),
            requirements=chance.choice([{}, {"Memory": 1000}]),
        )
        said = explained(alice, job)
        fit_at = {(each["site"], each["ce"], each["queue"]): each["fits"] for each in said["queues"]}
        assert len(fit_at) == len(queues)
        for queue in queues:
            place = (queue.ce.site.name, queue.ce.name, queue.name)
            offer = {
                **{name: getattr(queue, name) for name in ("cpu_time_s", "processors", "memory_mb", "tags")},
                **{name: getattr(queue, name) for name in ("gpus", "disk_mb", "container")},
                "required_tags": queue.required_tags,
            }
            answer = mallory.post(
                "/api/v1/matches/preview/",
                {**dict(zip(("site", "ce", "queue"), place, strict=True)), **offer},
                format="json",
            )
            previewed = {each["id"] for each in answer.json()["task_queues"]}
            assert fit_at[place] is (said["task_queue"] in previewed), (place, job.description)
            fits += fit_at[place]
    assert 5 < fits < 75


def test_required_tags_and_job_types_of_queues_are_shown(alice: APIClient, sample: SampleData) -> None:
    Queue.objects.update(processors=1)
    factories.make_queue(name="gpu", ce=sample.queue.ce, processors=8, tags=["GPU"], required_tags=["GPU"])
    told = explained(alice, of_alice(sample, processors=8))["summary"]
    assert "1 does not fit because it requires no tag; some queues accept only jobs that require GPU" in told
