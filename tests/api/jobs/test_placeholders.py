"""Placeholders of descriptions: the id of a job in every job, values and numbers in parametric ones (ADR 79)."""

import io
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from resources.models import OutputName
from taskqueues.models import TaskQueue
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.jobs.services import sandboxes

JOBS = "/api/v1/jobs/"
HOME = "LFN:/lhcb/user/a/alice"
JDL = f'Executable = "date"; Arguments = "+%s %Y-%%j 100%% %j"; OutputData = {{ "{HOME}/%j/r.txt" }};'
CFG = f'Executable = date\nArguments = "+%s %Y-%%j 100%% %j"\nOutputData = {HOME}/%j/r.txt'
JSON = {"executable": "date", "arguments": "+%s %Y-%%j 100%% %j", "output_data": [f"{HOME}/%j/r.txt"]}
WARNING = "%j is replaced by the id of the job, in arguments and output_data; for %j as it stands, write %%j."
Post = Callable[..., Any]


@pytest.fixture
def post(alice: APIClient) -> Post:
    """Return a function that submits a description, and returns the answer."""

    def post(body: Mapping[str, Any], path: str = JOBS) -> Any:
        return alice.post(path, body, format="json")

    return post


def described(answer: Any) -> list[tuple[int, Mapping[str, Any]]]:
    assert answer.status_code == 201, answer.content
    jobs = Job.objects.with_description().filter(pk__in=[job["id"] for job in answer.json()["jobs"]]).order_by("pk")
    return [(job.pk, job.description) for job in jobs]


def refusal(answer: Any, field: str) -> str:
    assert answer.status_code == 400, answer.content
    (sentence,) = answer.json()["errors"][field]
    assert not Job.objects.exists()
    return str(sentence)


@pytest.mark.parametrize("body", [{"jdl": JDL}, {"cfg": CFG}, JSON])
def test_the_id_is_replaced_in_a_job_that_is_not_parametric_and_nothing_else(
    post: Post, body: Mapping[str, Any]
) -> None:
    answer = post(body)
    [(job_id, description)] = described(answer)
    assert description["arguments"] == f"+%s %Y-%j 100%% {job_id}"
    assert description["output_data"] == [f"{HOME}/{job_id}/r.txt"]
    assert answer.json()["warnings"][0] == WARNING
    assert post(body, f"{JOBS}rehearsal/").json()["warnings"][0] == WARNING


def test_two_jobs_with_one_description_write_two_names(post: Post) -> None:
    answer = post({"jobs": [JSON, JSON, {"executable": "x"}]})
    assert [description["output_data"] for _, description in described(answer)][:2] == [
        [f"{HOME}/{job['id']}/r.txt"] for job in answer.json()["jobs"][:2]
    ]
    assert answer.json()["warnings"][0] == (f"Job {answer.json()['jobs'][0]['id']} and 1 more: {WARNING}")
    assert TaskQueue.objects.count() == 1
    again = post({"jobs": [JSON, {"jdl": JDL}]})
    assert again.json()["warnings"][0] == WARNING
    assert not OutputName.objects.exists()


def test_jobs_that_write_one_name_are_told_of_the_id(post: Post) -> None:
    body = {"executable": "x", "output_data": [f"{HOME}/r.txt"]}
    assert "or put %j into it" in refusal(post({"jobs": [body, body]}), "jobs.1.output_data")


def test_three_parametric_jobs_write_three_names(post: Post) -> None:
    jdl = f"Executable = x; Parameters = 3; OutputData = {HOME}/%j/r.txt;"
    jobs = described(post({"jdl": jdl}))
    assert [description["output_data"] for _, description in jobs] == [[f"{HOME}/{pk}/r.txt"] for pk, _ in jobs]
    assert len(jobs) == 3


def test_a_text_that_the_id_makes_too_long_is_refused(post: Post) -> None:
    body = {"executable": "x", "job_name": "x" * 250 + "%j"}
    assert "at most 255 characters" in refusal(post(body), "job_name")
    assert "at most 255" in refusal(post({"jobs": [{"executable": "x"}, body]}), "jobs.1.job_name")


def test_unknown_placeholders_in_names_of_files_are_told(post: Post) -> None:
    body = {"executable": "/bin/echo", "arguments": "%s", "std_output": "%n.out", "output_sandbox": ["_PARAM_.log"]}
    assert post(body).json()["warnings"] == [
        "%n in std_output is not replaced: the job is not parametric, so it is a part of the name.",
        "_PARAM_ in output_sandbox is not replaced: it is gLite's word for %s; write %s, and Parameters.",
    ]
    [told] = post({**body, "std_output": "%n.out", "parameters": {"count": 2}}).json()["warnings"]
    assert told == "_PARAM_ in output_sandbox is not replaced: it is gLite's word for %s; write %s."


@pytest.mark.parametrize(
    "body",
    [
        {"jdl": 'Executable = "x"; Site = "LCG.%(s)s"; OutputSE = %(se)s; CPUTime = %(t)s; Tags = gpu%n; '
                'Parameters = 2; Parameters.s = { "CERN.ch", "RAL.uk" }; Parameters.se = {A,B}; '
                'ParameterStart.t = 600; ParameterStep.t = 60000;'},
        {"cfg": "Executable = x\nSite = LCG.%(s)s\nOutputSE = %(se)s\nCPUTime = %(t)s\nTags = gpu%n\n"
                "Parameters = 2\nParameters.s = CERN.ch, RAL.uk\nParameters.se = A, B\n"
                "ParameterStart.t = 600\nParameterStep.t = 60000"},
        {"executable": "x", "sites": ["LCG.%(s)s"], "output_se": "%(se)s", "cpu_time_s": "%(t)s", "tags": ["gpu%n"],
         "parameters": {"s": {"values": ["CERN.ch", "RAL.uk"]}, "se": {"values": ["A", "B"]},
                        "t": {"count": 2, "start": 600, "step": 60000}}},
    ],
)  # fmt: skip
def test_parametric_jobs_have_requirements_of_their_own(
    post: Post, sample: SampleData, body: Mapping[str, Any]
) -> None:
    for name in ("A", "B"):
        factories.make_storage_element(name=name, vos=[sample.vo])
    jobs = [description for _, description in described(post(body))]
    assert [job["sites"] for job in jobs] == [["LCG.CERN.ch"], ["LCG.RAL.uk"]]
    assert [job["output_se"] for job in jobs] == ["A", "B"]
    assert [job["cpu_time_s"] for job in jobs] == [600, 60600]
    assert sorted(TaskQueue.objects.values_list("sites", "tags")) == [
        (["LCG.CERN.ch"], ["gpu0"]),
        (["LCG.RAL.uk"], ["gpu1"]),
    ]


def test_a_site_of_the_values_that_does_not_exist_is_refused(post: Post) -> None:
    body = {"executable": "x", "sites": ["LCG.%s"], "parameters": {"values": ["CERN.ch", "CERN.hc"]}}
    assert 'No site of the VO lhcb is called "LCG.CERN.hc"' in refusal(post(body), "sites")


@pytest.mark.parametrize(
    ("line", "field"),
    [("Site = LCG.%j.ch;", "sites"), ('OutputSE = "SE%j";', "output_se"), ("CPUTime = %j;", "cpu_time_s")],
)
@pytest.mark.parametrize("parameters", ["", "Parameters = 2;"])
def test_the_id_is_refused_where_it_would_make_a_task_queue_of_each_job(
    post: Post, line: str, field: str, parameters: str
) -> None:
    sentence = refusal(post({"jdl": f"Executable = x; {line} {parameters}"}), field)
    assert sentence.startswith(f"%j cannot be in {field}, which decides where the job waits")


def test_one_description_fills_a_bounded_number_of_task_queues(post: Post) -> None:
    body = {"executable": "x", "tags": ["t%n"], "parameters": {"count": 101}}
    assert refusal(post(body), "parameters").startswith("These jobs would wait in 101 task queues")
    assert refusal(post({"jobs": [body]}), "jobs.0.parameters")
    assert post({**body, "parameters": {"count": 100}}).status_code == 201
    # Times are rounded up to segments.
    times = {"executable": "x", "cpu_time_s": "1%n", "parameters": {"count": 200}}
    assert post(times).status_code == 201


def test_each_job_has_a_list_of_files_of_its_own(post: Post, sample: SampleData) -> None:
    element = factories.make_storage_element(vos=[sample.vo], sites=[sample.cern])
    for name in ("a", "b%", "c"):
        factories.make_replica(f"/lhcb/{name}", vo=sample.vo, storage_element=element)
    jdl = (
        "Executable = x; InputData = %(InputData)s; InputSandbox = %(InputSandbox)s; Parameters = 2; "
        "Parameters.InputData = {{/lhcb/a, LFN:/lhcb/b%},{/lhcb/c}}; Parameters.InputSandbox = {{LFN:/lhcb/c},{}};"
    )
    jobs = [description for _, description in described(post({"jdl": jdl}))]
    assert [job["input_data"] for job in jobs] == [["/lhcb/a", "/lhcb/b%"], ["/lhcb/c"]]
    assert [job["input_sandbox"] for job in jobs] == [["LFN:/lhcb/c"], []]


@pytest.mark.parametrize(
    "body",
    [
        {"jdl": "Executable = x; InputSandbox = {run_%s.sh, %(more)s}; Parameters = {a,b}; "
                "Parameters.more = {{m, n}, {m}};"},
        {"executable": "x", "input_sandbox": ["run_%s.sh", "%(more)s"],
         "parameters": {"": {"values": ["a", "b"]}, "more": {"values": [["m", "n"], ["m"]]}}},
    ],
)  # fmt: skip
def test_uploaded_files_are_known_by_the_names_that_parameters_make(
    post: Post, sample: SampleData, body: Mapping[str, Any]
) -> None:
    names = ("run_a.sh", "run_b.sh", "m", "n")
    files = {name: uploaded(name, owner=sample.alice) for name in names}
    jobs = [description["input_sandbox"] for _, description in described(post({**body, "files": files}))]
    assert jobs == [[files["run_a.sh"], files["m"], files["n"]], [files["run_b.sh"], files["m"]]]
    missing = {name: reference for name, reference in files.items() if name != "n"}
    assert '"n" is a file of yours' in post({**body, "files": missing}).json()["errors"]["input_sandbox"][0]


def uploaded(name: str, *, owner: User) -> str:
    content = io.BytesIO(name.encode())
    return f"sha256:{sandboxes.upload(content, file_name=name, owner=owner, now=timezone.now()).sandbox.digest}"


@pytest.mark.parametrize("files", [["a"], {"a": 1}, "a", {"a" * number: "b" for number in range(1001)}])
def test_files_are_names_with_references(post: Post, files: object) -> None:
    assert refusal(post({"executable": "x", "files": files}), "files")


def test_files_do_not_excuse_a_wrong_input_sandbox(post: Post) -> None:
    body = {"executable": "x", "input_sandbox": [{}], "files": {"a": "b"}}
    assert "must be a string" in refusal(post(body), "input_sandbox")
