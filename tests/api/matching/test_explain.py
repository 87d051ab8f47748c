"""GET /api/v1/jobs/{id}/explain/: reasons why a job waits, by the same conditions as the match."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from resources.domain.enums import PilotType, RequirementKind, ResourceState
from resources.models import ComputingElement, Queue, Site
from taskqueues.models import QueuedJob
from taskqueues.services import priorities
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_preview import NAMES
from wms.accounts.models import VO, Membership, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job


def explained(client: APIClient, job: Job, **query: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/jobs/{job.pk}/explain/", query)
    assert answer.status_code == 200, answer.content
    said: dict[str, Any] = answer.json()
    return said


def of_alice(sample: SampleData, **description: Any) -> Job:
    return factories.make_job(group=sample.prod, owner=sample.alice, **description)


def submitted(client: APIClient, **description: Any) -> Job:
    """Return a job whose requirements the current configuration meets."""
    answer = client.post("/api/v1/jobs/", {"executable": "run.sh", **description}, format="json")
    assert answer.status_code == 201, answer.content
    return Job.objects.get(pk=answer.json()["jobs"][0]["id"])


def condition(said: dict[str, Any], name: str) -> tuple[int, int, str]:
    found = next(each for each in said["conditions"] if each["name"] == name)
    return found["passed_queues"], found["failed_queues"], found["detail"]


# ---- What it says ----------------------------------------------------------------------------------------------------


def test_a_fitting_job_has_a_rank_and_an_expected_share(sample: SampleData, alice: APIClient) -> None:
    other = factories.make_group(vo=sample.vo, priority=3000.0, shares_jobs=True)
    job = of_alice(sample)
    factories.make_job(group=other)
    factories.make_job(group=factories.make_group())  # another VO does not compete
    priorities.recalculate()
    said = explained(alice, job)
    assert set(said) == {
        *("job_id", "status", "summary", "task_queue", "priority_rank", "expected_share", "conditions", "queues"),
        "start_s",
        "limits",
        "advice",
        "warnings",
    }
    assert (said["job_id"], said["status"], said["priority_rank"], said["limits"]) == (job.pk, "Waiting", 2, [])
    assert said["task_queue"] == alice.get(f"/api/v1/jobs/{job.pk}/").json()["task_queue"]
    assert said["expected_share"] == pytest.approx(0.25)
    assert said["queues"] == [
        {"site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid", "fits": True, "reasons": []}
    ]
    assert said["summary"] == (
        "In line at 1 queue, behind 1 task queue of lhcb, with 25 % of the priorities of its CPU segment; "
        "1 of 1 pilot there has no job and asks for one soon."
    )


def test_longer_jobs_come_first_and_do_not_take_part_in_the_share(sample: SampleData, alice: APIClient) -> None:
    job = of_alice(sample, cpu_time_s=500)
    of_alice(sample, cpu_time_s=5000)
    said = explained(alice, job)
    assert said["expected_share"] == 1.0
    assert (
        " 100 % of the priorities of its CPU segment; 1 task queue of longer jobs comes first where it fits too; "
    ) in said["summary"]
    sample.vo.any_segment_fraction = 0.1
    sample.vo.save()
    of_alice(sample, cpu_time_s=50_000)
    assert "; 2 task queues of longer jobs mostly come first where they fit too; " in explained(alice, job)["summary"]


def test_conditions_are_listed_in_their_order(sample: SampleData, alice: APIClient) -> None:
    ce = sample.queue.ce
    factories.make_queue(name="big", ce=ce, processors=8, memory_mb=500)
    factories.make_queue(name="gpu", ce=ce, processors=4, required_tags=["gpu"], job_types=["MCSimulation"])
    said = explained(alice, of_alice(sample, processors=8, memory_mb=1200, cpu_time_s=300))
    assert [each["name"] for each in said["conditions"]] == NAMES
    assert {name: condition(said, name)[:2] for name in NAMES if condition(said, name)[1]} == {
        "required_tags": (2, 1),
        "job_type": (2, 1),
        "processors": (1, 2),
        "memory": (2, 1),
    }
    assert condition(said, "processors")[2] == "requires 8 processors; queues offer 1, 4 or 8"
    assert condition(said, "memory")[2] == (
        "requires 1200 MB of memory, which counts as 1500 MB; queues offer 500 MB or 4000 MB"
    )
    assert condition(said, "cpu_time")[2] == (
        "requires 300 s of CPU time per core, which counts as 500 s; queues offer 300000 s"
    )
    assert condition(said, "required_tags")[2] == "requires no tag; some queues accept only jobs that require gpu"
    assert said["summary"] == (
        "It waits because none of the 3 queues that serve lhcb meets all its requirements together: 2 do not fit "
        "because it requires 8 processors, 1 does not fit because it requires 1200 MB of memory, which counts as "
        "1500 MB."
    )


def test_a_queue_that_does_not_fit_lists_every_reason_nearest_queues_first(
    sample: SampleData, alice: APIClient
) -> None:
    ral = factories.make_site(name="LCG.RAL.uk", vos=[sample.vo], state=ResourceState.BANNED)
    Site.objects.filter(pk=ral.pk).update(state_reason="cooling")
    ce = factories.make_ce(name="arc", site=ral)
    factories.make_queue(name="long", ce=ce, processors=4, tags=["gpu"], platforms=["el8"])
    factories.make_queue(name="a", ce=sample.queue.ce, processors=4, tags=["gpu", "ssd"])
    job = of_alice(
        sample,
        processors=4,
        tags=["gpu"],
        platforms=["el9"],
        sites=["LCG.CERN.ch", "LCG.PIC.es"],
        grid_ces=["ce01.cern.ch"],
    )
    said = explained(alice, job)
    assert [(q["site"], q["queue"], q["fits"], q["reasons"]) for q in said["queues"]] == [
        ("LCG.CERN.ch", "a", True, []),
        (
            *("LCG.CERN.ch", "grid", False),
            ["requires the tag gpu; this queue offers none", "requires 4 processors; this queue offers 1"],
        ),
        (
            *("LCG.RAL.uk", "long", False),
            [
                "site LCG.RAL.uk is banned: cooling",
                "requires the sites LCG.CERN.ch, LCG.PIC.es; this queue is at LCG.RAL.uk",
                "requires the computing element ce01.cern.ch; this queue belongs to arc",
                "requires the platform el9; this queue runs el8",
            ],
        ),
    ]
    assert condition(said, "site") == (
        *(2, 1),
        "requires the sites LCG.CERN.ch, LCG.PIC.es; 1 of 3 queues accept no jobs at present",
    )


@pytest.mark.parametrize(
    ("description", "queue", "reason"),
    [
        (
            {"setup": "LHCb-Devel"},
            {"setup": "LHCb-Production"},
            "requires the setup LHCb-Devel; the pilots that directors send here have LHCb-Production",
        ),
        (
            {"cpu_time_s": 86_400},
            {"cpu_time_s": 90_000},
            "requires 86400 s of CPU time per core, which counts as 300000 s; this queue offers 90000 s",
        ),
        ({"banned_sites": ["LCG.CERN.ch"]}, {}, "bans the site LCG.CERN.ch; this queue is at LCG.CERN.ch"),
        ({}, {"required_tags": ["gpu"]}, "requires no tag; this queue accepts only jobs that require gpu"),
        ({}, {"job_types": ["A", "B"]}, "is of the type User; this queue accepts only A, B"),
        ({"memory_mb": 1000}, {"memory_mb": 0}, "requires 1000 MB of memory; this queue offers 0 MB"),
        (
            {"wall_time_s": 4000},
            {"wall_time_s": 3600},
            "requires 4000 s of wall-clock time, which counts as 4200 s; this queue offers 3600 s",
        ),
        ({"gpus": 2}, {"gpus": 1}, "requires 2 GPUs; this queue offers 1"),
        ({"disk_mb": 1000}, {}, "requires 1000 MB of disk space; this queue offers 0 MB"),
        ({"container": "docker://a"}, {}, 'runs in the container "docker://a"; this queue runs none'),
        (
            {"submit_pools": ["a" * 8]},
            {},
            "requires the submit pool aaaaaaaa; this queue does not provide that",
        ),
    ],
)
def test_a_reason_names_the_requirement_and_the_offer(
    sample: SampleData, alice: APIClient, description: dict[str, Any], queue: dict[str, Any], reason: str
) -> None:
    Queue.objects.update(**{name: value for name, value in queue.items() if name != "required_tags"})
    if "required_tags" in queue:
        Queue.objects.update(tags=["gpu"], required_tags=["gpu"])
    (only,) = explained(alice, of_alice(sample, **description))["queues"]
    assert (only["fits"], only["reasons"]) == (False, [reason])


def test_the_headline_names_requirements_that_no_queue_offers(sample: SampleData, alice: APIClient) -> None:
    said = explained(alice, of_alice(sample, processors=8, tags=["gpu"]))
    assert said["summary"] == (
        "It waits because no queue that serves lhcb fits it: it requires the tag gpu; queues offer none, and it "
        "requires 8 processors; queues offer 1."
    )


def test_each_requirement_counts_excluded_queues_and_each_queue_lists_its_lacks(
    sample: SampleData, alice: APIClient
) -> None:
    factories.make_requirement_definition(name="memory", kind=RequirementKind.CAPACITY, unit="MB")
    Queue.objects.update(parameters={"Memory": 4000, "CPUModel": "Xeon"})
    only = Queue.objects.get()
    factories.make_queue(ce=only.ce, name="small", parameters={"Memory": 1000, "CPUModel": "Xeon"})
    factories.make_queue(ce=only.ce, name="silent")
    said = explained(alice, submitted(alice, requirements={"Memory": 2000, "CPUModel": ["Xeon", "Epyc"]}))
    required = "requires Memory = 2000 MB and CPUModel = Xeon or Epyc"
    assert condition(said, "submit_pool") == (
        *(1, 2),
        f"{required}; CPUModel holds back 1 queue and Memory holds back 2 queues",
    )
    reasons = {queue["queue"]: queue["reasons"] for queue in said["queues"]}
    nothing_said = "CPUModel: not described there, Epyc or Xeon required; Memory: not described there, 2000 MB required"
    assert reasons == {
        only.name: [],
        "small": [f"{required}; this queue lacks: Memory: 1000 MB there, 2000 MB required"],
        "silent": [f"{required}; this queue lacks: {nothing_said}"],
    }


def test_a_queue_that_changed_a_moment_ago_counts_from_the_next_refresh_on(
    sample: SampleData, alice: APIClient
) -> None:
    Queue.objects.update(parameters={"Memory": 1000})
    job = submitted(alice, requirements={"Memory": 2000})
    Queue.objects.update(parameters={"Memory": 4000})
    (reason,) = explained(alice, job)["queues"][0]["reasons"]
    assert reason.endswith("this queue has changed, and counts from the next refresh of the submit pools on")


def test_requirements_that_no_queue_meets_are_named(sample: SampleData, alice: APIClient) -> None:
    Queue.objects.update(parameters={"Memory": 4000})
    for required, fits in ((4000, True), (8000, False)):
        job = submitted(alice, requirements={"Memory": required})
        said = explained(alice, job)
        assert said["queues"][0]["fits"] is fits
    assert said["queues"][0]["reasons"] == [
        "requires Memory = 8000; this queue lacks: Memory: 4000 there, 8000 required"
    ]
    assert said["summary"] == ("It waits because no queue that serves lhcb provides what it requires: Memory = 8000.")


def test_only_banned_queues_fit(sample: SampleData, alice: APIClient) -> None:
    Site.objects.update(state=ResourceState.BANNED, state_reason="cooling.", state_until="2999-01-01T00:00Z")
    job = of_alice(sample)
    said = explained(alice, job)
    assert said["summary"] == (
        "It waits because the only queue that it fits accepts no jobs at present: site LCG.CERN.ch is banned until "
        "2999-01-01 00:00 UTC: cooling."
    )
    factories.make_queue(ce=sample.queue.ce)
    assert explained(alice, job)["summary"].startswith(
        "It waits because the 2 queues that it fits accept no jobs at present: site LCG.CERN.ch is banned until"
    )
    Site.objects.update(state=ResourceState.ACTIVE)
    ComputingElement.objects.update(state=ResourceState.DRAINING, state_reason="upgrade")
    assert explained(alice, job)["queues"][0]["reasons"] == ["computing element ce01.cern.ch is draining: upgrade"]


def test_matching_for_the_vo_is_paused(sample: SampleData, alice: APIClient) -> None:
    VO.objects.update(paused_until="2999-01-01T00:00Z", pause_reason="Storage is full.")
    factories.make_queue(ce=sample.queue.ce)
    assert explained(alice, of_alice(sample))["summary"] == (
        "It waits because the 2 queues that it fits accept no jobs at present: matching for lhcb is paused until "
        "2999-01-01 00:00 UTC: Storage is full."
    )


def test_no_queue_is_configured(sample: SampleData, alice: APIClient) -> None:
    job = of_alice(sample)
    sample.pilot.delete()
    Site.objects.all().delete()
    said = explained(alice, job)
    assert said["summary"] == "It waits because no queue is configured at any site that serves lhcb."
    assert condition(said, "processors") == (0, 0, "requires 1 processor")


def test_a_group_of_priority_zero_is_never_drawn(sample: SampleData, alice: APIClient) -> None:
    sample.prod.priority = 0.0
    sample.prod.save()
    said = explained(alice, of_alice(sample))
    assert "is never drawn, because its group lhcb_prod has priority 0" in said["summary"]
    assert (said["expected_share"], said["priority_rank"]) == (0.0, None)


def test_a_job_that_no_queue_fits_has_the_expected_share_zero(sample: SampleData, alice: APIClient) -> None:
    possible, impossible = of_alice(sample), of_alice(sample, processors=8)
    priorities.recalculate()
    said = explained(alice, impossible)
    assert (said["expected_share"], said["priority_rank"]) == (0.0, None)
    assert "%" not in said["summary"]
    # What no queue can run is not counted in the share of others.
    said = explained(alice, possible)
    assert (said["expected_share"], said["priority_rank"]) == (1.0, 1)
    # A queue that is closed for a while does not make it impossible: its part is what it gets when that opens.
    Site.objects.update(state=ResourceState.BANNED)
    assert (explained(alice, possible)["expected_share"], explained(alice, impossible)["expected_share"]) == (1.0, 0.0)
    Site.objects.update(state=ResourceState.ACTIVE)
    Queue.objects.update(processors=8)
    said = explained(alice, impossible)
    assert (said["expected_share"], said["priority_rank"]) == (0.5, 1)


def test_a_suspended_owner_is_named_as_the_cause(sample: SampleData, client_of: ClientOf) -> None:
    job = of_alice(sample)
    sample.alice.is_active = False
    sample.alice.save()
    said = explained(client_of(sample.bob), job)
    assert said["summary"].startswith("It waits because its owner alice is suspended")
    assert condition(said, "owner_group")[:2] == (0, 1)
    assert said["queues"][0]["reasons"] == ["belongs to alice in the group lhcb_prod; suspended users get no pilot"]


def test_an_owner_who_left_the_group_is_named_as_the_cause(
    sample: SampleData, client_of: ClientOf, alice: APIClient
) -> None:
    job = of_alice(sample)
    membership = Membership.objects.get(user=sample.alice, group=sample.prod)
    membership.delete()
    priorities.recalculate()
    said = explained(alice, job)  # it is still Alice's
    left = (
        "alice is no longer a member of lhcb_prod, and only jobs of members are matched: rejoin the group (a manager "
        "of lhcb can add alice), or submit the job again in another group"
    )
    assert said["summary"] == f"It waits because {left}."
    assert condition(said, "owner_group") == (
        *(0, 1),
        "belongs to alice in the group lhcb_prod, of which alice is no longer a member",
    )
    assert (said["expected_share"], said["priority_rank"]) == (0.0, None)
    User.objects.filter(pk=sample.alice.pk).update(is_active=False)
    assert explained(client_of(sample.bob), job)["summary"] == (
        "It waits because its owner alice is suspended: no pilot gets the jobs of a suspended user; and because "
        f"{left}."
    )
    User.objects.filter(pk=sample.alice.pk).update(is_active=True)
    Membership.objects.create(user=sample.alice, group=sample.prod)
    priorities.recalculate()
    alice = client_of(sample.alice)  # with a new token: those of before ended with the suspension
    assert explained(alice, job)["summary"].startswith("Next in line at 1 queue; ")
    assert alice.post(f"/api/v1/jobs/{job.pk}/kill/").status_code == 200


def test_a_former_member_may_still_see_kill_and_delete_the_job(sample: SampleData, alice: APIClient) -> None:
    job = of_alice(sample)
    Membership.objects.filter(user=sample.alice).delete()
    assert alice.get(f"/api/v1/jobs/{job.pk}/").json()["status"] == "Waiting"
    assert [queue["owner"] for queue in alice.get("/api/v1/task-queues/").json()["results"]] == ["alice"]
    for action in ("kill", "delete"):
        assert alice.post(f"/api/v1/jobs/{job.pk}/{action}/").status_code == 200


def test_of_a_job_that_does_not_wait_only_the_state_is_explained(sample: SampleData, alice: APIClient) -> None:
    job = factories.make_job(group=sample.prod, owner=sample.alice, status=JobStatus.FAILED, site=sample.queue.ce.site)
    Job.objects.update(minor_status="why")
    assert explained(alice, job) == {
        "job_id": job.pk,
        "status": "Failed",
        "summary": "It has Failed at LCG.CERN.ch (why); reschedule it to let it wait again.",
        "task_queue": None,
        "priority_rank": None,
        "expected_share": None,
        "start_s": None,
        "conditions": [],
        "queues": [],
        "limits": [],
        "advice": [],
        "warnings": [],
    }


def test_a_job_that_was_just_matched_is_explained_so(sample: SampleData, alice: APIClient) -> None:
    job = of_alice(sample)
    QueuedJob.objects.all().delete()
    said = explained(alice, job)
    assert (said["summary"], said["queues"]) == ("It has just left its task queue; repeat the request.", [])


def test_a_job_for_private_pilots_is_compared_with_those_of_its_owner(sample: SampleData, alice: APIClient) -> None:
    ce = factories.make_ce(name="zz", site=sample.queue.ce.site, pilot_types=[PilotType.GENERIC])
    factories.make_queue(name="generic", ce=ce)
    said = explained(alice, of_alice(sample, pilot_types=["private"]))
    assert [(q["queue"], q["reasons"]) for q in said["queues"]] == [
        ("grid", []),
        ("generic", ["requires the pilot type private; this queue accepts generic pilots"]),
    ]


# ---- For whom --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actor", "status"),
    [("alice", 200), ("bob", 200), ("charlie", 404), ("mallory", 200), ("olga", 200), ("pilot", 403)],
)
def test_access_rights_of_the_endpoint(sample: SampleData, client_of: ClientOf, actor: str, status: int) -> None:
    job = of_alice(sample)
    assert client_of(getattr(sample, actor)).get(f"/api/v1/jobs/{job.pk}/explain/").status_code == status


def test_anonymous_callers_are_refused(sample: SampleData) -> None:
    assert APIClient().get(f"/api/v1/jobs/{of_alice(sample).pk}/explain/").status_code == 401
