"""Warnings of a submission, and that explain gives the same (ADR 32)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from hashlib import sha256
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from matching.services import submission
from resources.models import ComputingElement, Queue, ReportedPlatform, Site
from taskqueues.models import Limit
from tests import factories
from tests.api.matching.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, Sandbox, SandboxUpload
from wms.jobs.services.optimizers.arrival import MAX_WARNINGS

JOBS = "/api/v1/jobs/"


@pytest.fixture
def alice(sample: SampleData, client_of: Callable[[User], APIClient]) -> APIClient:
    Queue.objects.filter(pk=sample.queue.pk).update(parameters={"Memory": 2000}, memory_mb=4000, processors=8)
    other = factories.make_site(name="LCG.RAL.uk", vos=[sample.vo], parameters={"Memory": 16000})
    factories.make_queue(name="big", ce=factories.make_ce(name="ce02.ral.uk", site=other), memory_mb=600_000)
    return client_of(sample.alice)


def warnings(client: APIClient, body: Mapping[str, object]) -> list[str]:
    """Return the warnings of a submission, asserting that explain of its first job gives the same."""
    answer = client.post(JOBS, {"executable": "/bin/true", **body}, format="json")
    assert answer.status_code == 201, answer.content
    told = answer.json()
    said = client.get(f"/api/v1/jobs/{told['jobs'][0]['id']}/explain/").json()
    assert said["warnings"] == told["warnings"]
    found: list[str] = told["warnings"]
    if found and found[0].startswith("It "):
        assert found[0] == said["summary"]
    return found


def test_a_job_that_fits_is_not_warned_of(alice: APIClient) -> None:
    assert warnings(alice, {"requirements": {"Memory": 16000}, "sites": ["LCG.RAL.uk"], "priority": 1}) == []


def test_sites_without_a_queue_that_meets_the_requirements(alice: APIClient) -> None:
    (warning,) = warnings(alice, {"requirements": {"Memory": 16000}, "sites": ["LCG.CERN.ch"]})
    assert "none of the 2 queues that serve lhcb meets all its requirements together" in warning
    assert "it requires the site LCG.CERN.ch" in warning
    assert "it requires Memory = 16000" in warning


def test_processors_and_memory_that_no_slot_has_together_or_at_all(alice: APIClient) -> None:
    (together,) = warnings(alice, {"processors": 8, "memory_mb": 500_000})
    assert "together" in together
    (never,) = warnings(alice, {"processors": 64, "memory_mb": 500_000})
    assert "it requires 64 processors; queues offer 1 or 8" in never


def test_a_group_of_priority_0(alice: APIClient, sample: SampleData) -> None:
    sample.prod.priority = 0
    sample.prod.save()
    (warning,) = warnings(alice, {"group": "lhcb_prod"})
    assert "is never drawn" in warning
    assert "lhcb_prod has priority 0" in warning


def test_fitting_sites_that_are_all_banned(alice: APIClient) -> None:
    Site.objects.filter(name="LCG.RAL.uk").update(state="banned", state_reason="fire")
    assert warnings(alice, {}) == []
    (warning,) = warnings(alice, {"sites": ["LCG.RAL.uk"]})
    assert "accepts no jobs at present" in warning
    assert "fire" in warning
    Site.objects.filter(name="LCG.RAL.uk").update(state_until=timezone.now() - timedelta(seconds=1))
    assert warnings(alice, {"sites": ["LCG.RAL.uk"], "job_name": "later"}) == []


def test_a_vo_without_queues(alice: APIClient) -> None:
    for site in Site.objects.all():
        site.vos.set([factories.make_vo()])
    (warning,) = warnings(alice, {})
    assert warning == "It waits because no queue is configured at any site that serves lhcb."


def test_a_grid_middleware_that_no_computing_element_has_where_the_job_fits(alice: APIClient) -> None:
    ComputingElement.objects.filter(name="ce02.ral.uk").update(middleware="ARC")
    Site.objects.update(throttle_policy="matches", max_matches=0)
    (warning,) = warnings(alice, {"grid_middlewares": ["arc"], "sites": ["LCG.CERN.ch"]})
    assert warning == (
        "Pilots for it are sent only to computing elements of the grid middleware arc; the only queue that it fits is "
        "at none of these."
    )
    unknown, warning = warnings(alice, {"grid_middlewares": ["arc", "slurm"], "sites": ["LCG.CERN.ch"]})
    assert "of the grid middleware arc or slurm;" in warning
    assert 'No computing element has the grid middleware "slurm"' in unknown
    assert warnings(alice, {"grid_middlewares": ["arc"]}) == []
    assert warnings(alice, {"grid_middlewares": ["arc"], "requirements": {"Memory": 16000}}) == []
    assert warnings(alice, {"grid_middlewares": ["Arc", "local"], "sites": ["LCG.CERN.ch"]}) == []


def test_throttles_and_limits_cause_no_warning(alice: APIClient, sample: SampleData) -> None:
    Site.objects.update(throttle_policy="matches", max_matches=0)
    Limit.objects.create(vo=sample.vo, running=0)
    assert warnings(alice, {}) == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"priority": 0}, "Priority 0 has the weight 0.00001"),
        ({"executable": "./run.sh"}, 'The executable "./run.sh" is a file of the job\'s directory'),
        ({"executable": "bin/run.sh"}, "but neither the input sandbox nor the input data contains it"),
        (
            {"arguments": "$HOME *.txt > out.txt"},
            "a shell: the program gets $HOME, * and > as written. To have a shell",
        ),
        ({"executable": "/bin/cat", "arguments": "a && b"}, "the program gets && as written."),
        ({"job_type": "Usr"}, 'No queue or limit names the job type "Usr". Did you mean "User"?'),
        ({"job_type": "user"}, 'Did you mean "User"?'),
        ({"cpu_time_s": 10**7}, "cpu_time_s 10000000 is above the longest segment"),
        ({"grid_middlewares": ["ARX"]}, 'No computing element has the grid middleware "ARX" today'),
        ({"output_data": ["file"]}, "No site has a storage element for output_data today"),
    ],
)
def test_suspicious_descriptions_are_warned_of(body: dict[str, object], words: str, alice: APIClient) -> None:
    (warning,) = warnings(alice, body)
    assert words in warning


@pytest.mark.parametrize(
    "body",
    [
        {"executable": "run"},
        {"executable": "/cvmfs/bin/run.sh"},
        {"arguments": 'it\\\'s \'a b\' "c \'d" "\\"" e\\\\'},
        {"arguments": ["don't", 'say "']},
        {"priority": 10},
    ],
)
def test_valid_descriptions_are_not_warned_of(body: dict[str, object], alice: APIClient) -> None:
    assert warnings(alice, body) == []


def test_files_of_the_input_sandbox_may_be_executables(alice: APIClient, sample: SampleData) -> None:
    for name, is_archive, expected in (("run.sh", False, 0), ("other.sh", False, 1), ("all.tar.gz", True, 0)):
        digest = sha256(name.encode()).hexdigest()
        sandbox = Sandbox.objects.create(digest=digest, size_bytes=1, is_archive=is_archive, created_at=factories.NOW)
        SandboxUpload.objects.create(sandbox=sandbox, owner=sample.alice, file_name=name, uploaded_at=factories.NOW)
        body = {"executable": "./run.sh", "input_sandbox": [f"sha256:{digest}"]}
        assert len(warnings(alice, body)) == expected


def test_of_several_task_queues_the_jobs_are_named(alice: APIClient) -> None:
    jobs = [{"executable": "a", "tags": ["x"]}, {"executable": "b"}, *[{"executable": "c", "tags": ["y"]}] * 3]
    answer = alice.post(JOBS, {"jobs": jobs}, format="json").json()
    first, last = answer["jobs"][0]["id"], answer["jobs"][2]["id"]
    summary, *reasons = answer["warnings"]
    assert summary == (
        "In the present configuration no pilot gets 4 of the 5 waiting jobs of this submission; the reasons follow."
    )
    assert [reason.partition(":")[0] for reason in reasons] == [f"Job {first}", f"Job {last} and 2 more"]


def test_the_same_request_again_has_the_same_warnings(alice: APIClient) -> None:
    body = {"executable": "/bin/true", "processors": 64, "request_id": "123e4567-e89b-42d3-a456-426614174000"}
    first, second = (alice.post(JOBS, body, format="json").json() for _ in range(2))
    assert first == second
    assert first["warnings"]


def test_a_thousand_jobs_need_as_many_statements_as_one(alice: APIClient) -> None:
    def statements(jobs: int) -> int:
        wanted = [{"executable": "a", "tags": ["none"], "job_name": str(number)} for number in range(jobs)]
        with CaptureQueriesContext(connection) as captured:
            answer: Any = alice.post(JOBS, {"jobs": wanted}, format="json")
        assert len(answer.json()["warnings"]) == 1
        return len(captured)

    statements(1)
    assert statements(1000) <= statements(1) + 2
    assert Job.objects.count() == 1002


def test_platforms_that_no_node_of_the_queues_has(alice: APIClient) -> None:
    factories.make_platform(name="el9", runs=[])
    Queue.objects.update(platforms=["el9"])
    assert warnings(alice, {"platforms": ["el9"]}) == []
    for queue in Queue.objects.all():
        ReportedPlatform.objects.create(queue=queue, platform="deb12", seen_at=timezone.now())
    (warning,) = warnings(alice, {"platforms": ["el9"], "processors": 2})
    assert "it requires the platform el9" in warning


def test_the_comparison_of_many_kinds_of_jobs_is_bounded(alice: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MOST_COMPARED", 3)
    jobs = [{"executable": "a", "processors": 20 + number} for number in range(5)]
    told = alice.post(JOBS, {"jobs": jobs}, format="json").json()["warnings"]
    assert len(told) == 4  # the sum, and two kinds with two queues each
    assert told[-1] == (
        "3 more kinds of jobs, of 3 jobs in all, were not compared with the queues; "
        "explain gives the reasons for each job."
    )


def test_task_queues_beyond_the_warned_ones_are_counted(alice: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "MAX_WARNINGS", 2)
    jobs = [{"executable": "a", "processors": processors} for processors in (20, 21, 22, 23, 23, 24, 24)]
    answer = alice.post(JOBS, {"jobs": jobs}, format="json").json()
    told = answer["warnings"]
    assert "no pilot gets 4 of the 7 waiting jobs" in told[0]
    largest = (f"Job {answer['jobs'][number]['id']} and 1 more" for number in (3, 5))
    assert [warning.partition(":")[0] for warning in told[1:-1]] == list(largest)
    assert told[-1].startswith("3 more kinds of jobs, of 3 jobs in all, were not compared with the queues;")


def test_a_warning_about_some_of_the_jobs_names_them(alice: APIClient) -> None:
    jobs = [{"executable": "a"}, {"executable": "./b.sh"}, {"executable": "c", "priority": 0}, {"executable": "./b.sh"}]
    answer = alice.post(JOBS, {"jobs": jobs}, format="json").json()
    ids = [job["id"] for job in answer["jobs"]]
    assert [warning.partition(":")[0] for warning in answer["warnings"]] == [
        f"Job {ids[2]}",
        f"Job {ids[1]} and 1 more",
    ]
    (of_all,) = alice.post(JOBS, {"jobs": [jobs[1]] * 3}, format="json").json()["warnings"]
    assert of_all.startswith("The executable")


def test_warnings_beyond_the_first_are_counted(alice: APIClient) -> None:
    jobs: list[dict[str, object]] = [{"executable": f"./{number}.sh"} for number in range(MAX_WARNINGS + 7)]
    jobs.append({"executable": "a", "processors": 64})
    told = alice.post(JOBS, {"jobs": jobs}, format="json").json()["warnings"]
    assert len(told) == MAX_WARNINGS + 3
    assert told[MAX_WARNINGS] == "7 more warnings left out; explain warns of each job."
    assert f"no pilot gets 1 of the {len(jobs)} waiting jobs" in told[-2]
    assert "requires 64 processors" in told[-1]


def test_only_a_submission_that_is_kept_is_logged(
    sample: SampleData,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    def submit() -> list[str]:
        with caplog.at_level("INFO"), django_capture_on_commit_callbacks(execute=True):
            request = parse_submission({"executable": "/bin/true"})
            with suppress(OperationalError):
                submission.submit(request, owner=sample.alice, now=timezone.now())
        return [record.message for record in caplog.records if record.message == "job.submitted"]

    with monkeypatch.context() as patched:
        patched.setattr(submission, "_warnings", Mock(side_effect=OperationalError))
        assert submit() == []
    assert submit() == ["job.submitted"]
