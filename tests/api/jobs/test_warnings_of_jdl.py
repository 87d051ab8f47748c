"""POST /api/v1/jobs/ with JDL as DIRAC's users write it: what is ignored is told, what is missing is refused."""

from uuid import uuid4

from rest_framework.test import APIClient

from wms.jobs.models import Job

JOBS = "/api/v1/jobs/"
LOG_LEVEL = "LogLevel is ignored: the pilot's log does not depend on the job."


def test_the_answer_names_what_is_ignored(alice: APIClient) -> None:
    jdl = 'Executable = "run"; LogLevel = "DEBUG"; Owner = "alice"; OwnerDN = "/DC=example/CN=alice";'
    answer = alice.post(JOBS, {"jdl": jdl}, format="json")
    assert answer.status_code == 201
    assert answer.json()["warnings"] == [
        LOG_LEVEL,
        "Owner and OwnerDN are ignored: the owner of a job is the user who submits it.",
    ]


def test_a_repeated_request_has_the_same_warnings(alice: APIClient) -> None:
    body = {"cfg": "Executable = run\nLogLevel = DEBUG", "request_id": str(uuid4())}
    first, second = (alice.post(JOBS, body, format="json").json() for _ in range(2))
    assert first == second
    assert first["warnings"] == [LOG_LEVEL]


def test_the_warning_of_a_list_names_its_jobs(alice: APIClient) -> None:
    jdl = {"jdl": 'Executable = "run"; LogLevel = "DEBUG"; Parameters = 2;'}
    answer = alice.post(JOBS, {"jobs": [{"executable": "run"}, jdl]}, format="json").json()
    assert answer["warnings"] == [f"Job {answer['jobs'][1]['id']} and 1 more: {LOG_LEVEL}"]


def test_a_file_that_was_not_uploaded_is_refused_with_how_to_upload_it(alice: APIClient) -> None:
    jdl = 'Executable = "run.sh"; InputSandbox = { "run.sh" };'
    answer = alice.post(JOBS, {"jdl": jdl}, format="json")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_description"
    (sentence,) = answer.json()["errors"]["input_sandbox"]
    assert '"run.sh" is a file of yours' in sentence
    assert "POST /api/v1/sandboxes/" in sentence
    assert not Job.objects.exists()
