"""Jobs of dirac-jobexec: a script that runs the steps takes the place of jobDescription.xml at submission (ADR 80)."""

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.domain import fields
from wms.jobs.models import InputSandbox, Job, Sandbox, SandboxUpload
from wms.jobs.services import sandboxes, workflows

JOBS, REHEARSAL = "/api/v1/jobs/", "/api/v1/jobs/rehearsal/"
WORKFLOWS = Path(__file__).parents[2] / "unit" / "jobs" / "workflows"
ONE = (WORKFLOWS / "one_step.xml").read_bytes()
NAME = "jobDescription.xml"
JOB = {"executable": "dirac-jobexec", "arguments": f"{NAME} -o LogLevel=INFO"}


def uploaded(client: APIClient, content: bytes = ONE, *, name: str = NAME) -> str:
    answer = client.post("/api/v1/sandboxes/", {"file": SimpleUploadedFile(name, content)}, format="multipart")
    assert answer.status_code == 201, answer.content
    reference: str = answer.json()["sandbox"]
    return reference


def packed(**files: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def accepted(client: APIClient, body: Mapping[str, Any], address: str = JOBS) -> Any:
    answer = client.post(address, body, format="json")
    assert answer.status_code == (201 if address == JOBS else 200), answer.content
    return answer.json()


def refused(client: APIClient, address: str, body: Mapping[str, Any], *, status: int = 400) -> Any:
    answer = client.post(address, body, format="json")
    assert answer.status_code == status, answer.content
    assert not Job.objects.exists()
    return answer.json()["errors"]


def script_of(job: Job) -> str:
    row = job.input_sandboxes.select_related("sandbox").get(file_name__startswith="dirac-jobexec")
    with sandboxes.open_content(row.sandbox) as content:
        return bytes(content.read()).decode()


def test_a_script_joins_the_input_sandbox_and_is_the_executable(sample: SampleData, alice: APIClient) -> None:
    reference = uploaded(alice)
    answer = accepted(alice, JOB | {"input_sandbox": [reference], "output_sandbox": ["Script1_CodeOutput.log"]})
    assert answer["warnings"] == []
    job = Job.objects.get()
    script = job.input_sandboxes.select_related("sandbox").get(file_name__startswith="dirac-jobexec")
    assert job.description == job.description | {
        "executable": f"./dirac-jobexec-{script.sandbox.digest[:8]}.sh",
        "arguments": "",
        "input_sandbox": [reference, f"sha256:{script.sandbox.digest}"],
        "output_sandbox": ["Script1_CodeOutput.log"],
    }
    assert "jobexec_step 1 ./Script1_CodeOutput.log /bin/echo hello 'two words'\n" in script_of(job)
    # Of the owner, like any file: a copy of the job names it again.
    assert SandboxUpload.objects.get(sandbox=script.sandbox).owner == sample.alice
    accepted(alice, {**job.description, "job_name": "copy"})
    assert Sandbox.objects.count() == 2


def test_jobs_of_a_sequence_share_the_script_and_have_their_own_arguments(sample: SampleData, alice: APIClient) -> None:
    files = [uploaded(alice, (WORKFLOWS / "three_steps.xml").read_bytes()), uploaded(alice, b"x", name="scan.py")]
    jdl = (WORKFLOWS / "three_steps.jdl").read_text().replace("scan.py,\n", f'"{files[1]}",\n', 1)
    jdl = jdl.replace(
        "            cuts.json,\n            two words.txt,\n            jobDescription.xml", f'"{files[0]}"', 1
    )
    answer = accepted(alice, {"jdl": jdl.replace("'%(cuts)s", "'100%% %j %(cuts)s")})
    jobs = list(Job.objects.with_description().order_by("pk"))
    assert [job.description["arguments"] for job in jobs] == [
        f'100% {job.pk} {cuts} "two words.txt"' for job, cuts in zip(jobs, ["cuts.json", "missing.json"], strict=True)
    ]
    assert len({job.description["executable"] for job in jobs}) == 1
    assert 'jobexec_step 2 ./Script2_scan.py.log /home/alice/work/scan.py "$@"\n' in script_of(jobs[0])
    assert Sandbox.objects.count() == 3
    assert not any("dirac-jobexec" in warning for warning in answer["warnings"])


def test_options_without_an_effect_are_warned_of(sample: SampleData, alice: APIClient) -> None:
    job = JOB | {"input_sandbox": [uploaded(alice)]}
    other = job | {"arguments": f"{NAME} --cfg pilot.cfg -p JOB_ID=7"}
    first, second = accepted(alice, {"jobs": [job, other]}), accepted(alice, other)
    sentence = "Of the options of dirac-jobexec only -p arguments=… is read here, not --cfg or -p JOB_ID."
    assert second["warnings"] == [sentence]
    assert first["warnings"] == [f"Job {first['jobs'][1]['id']}: {sentence}"]


def test_the_file_may_be_in_an_archive(sample: SampleData, alice: APIClient) -> None:
    archives = [
        uploaded(alice, packed(a=b"1"), name="a.tar"),
        uploaded(alice, packed(**{f"./{NAME}": ONE}), name="b.tar"),
    ]
    accepted(alice, JOB | {"input_sandbox": archives, "arguments": f"./{NAME}"})
    assert "/bin/echo hello" in script_of(Job.objects.get())


def test_a_program_of_the_user_with_that_name_is_run(sample: SampleData, alice: APIClient) -> None:
    own = uploaded(alice, b"#!/bin/sh\n", name="dirac-jobexec")
    for executable in ("dirac-jobexec", "./dirac-jobexec"):
        accepted(alice, JOB | {"executable": executable, "input_sandbox": [own]})
        assert Job.objects.latest("pk").description["executable"] == executable


@pytest.mark.parametrize("address", [JOBS, REHEARSAL])
def test_what_cannot_be_run_is_refused_by_a_submission_and_its_rehearsal(
    sample: SampleData, alice: APIClient, client_of: Callable[[User], APIClient], address: str
) -> None:
    missing = (
        f"The input sandbox has no file {NAME}, which dirac-jobexec should run. Name it in InputSandbox, and upload it."
    )
    assert refused(alice, address, JOB) == {"input_sandbox": [missing]}
    other = uploaded(alice, b"", name="other.xml")
    assert refused(alice, address, JOB | {"input_sandbox": [other]}) == {"input_sandbox": [missing]}
    module = uploaded(alice, ONE.replace(b"<type>Script</type>", b"<type>UserAnalysis</type>"))
    sentence = (
        f'{NAME}, line 10: the module "UserAnalysis" is not run here, only Script is; let a step run its work as a '
        "program (Job.setExecutable)."
    )
    errors = refused(alice, address, {"jobs": [{"executable": "a"}, JOB | {"input_sandbox": [module]}]})
    assert errors == {"jobs.1.input_sandbox": [sentence]}
    path = {"executable": "/cvmfs/dirac/bin/dirac-jobexec", "input_sandbox": [module]}
    assert refused(alice, address, JOB | path) == {"input_sandbox": [sentence]}
    nothing = {"arguments": ["dirac-jobexec runs one file, such as jobDescription.xml; arguments name 0."]}
    assert refused(alice, address, {"executable": "dirac-jobexec", "input_sandbox": [module]}) == nothing
    strange = uploaded(client_of(sample.charlie), ONE)
    (sentence,) = refused(alice, address, JOB | {"input_sandbox": [strange]})["input_sandbox"]
    assert "is not a sandbox that you" in sentence


def test_a_repeated_request_is_answered_though_its_file_is_gone(sample: SampleData, alice: APIClient) -> None:
    body = JOB | {"input_sandbox": [uploaded(alice)], "request_id": str(uuid4())}
    answer = accepted(alice, body)
    InputSandbox.objects.all().delete()
    Sandbox.objects.all().delete()
    assert accepted(alice, body) == answer
    assert Job.objects.count() == 1
    assert alice.post(JOBS, {**body, "job_name": "x"}, format="json").status_code == 409


def test_a_rehearsal_stores_nothing_and_says_what_it_has_not_read(
    sample: SampleData, alice: APIClient, everything: Callable[[], object]
) -> None:
    coming = "sha256:" + "a" * 64
    answer = accepted(alice, JOB | {"input_sandbox": [coming], "coming_files": {coming: NAME}}, REHEARSAL)
    assert answer["warnings"] == [f"{NAME} is not uploaded yet: its steps are checked when the jobs are submitted."]
    archive = {"input_sandbox": [coming], "coming_files": {coming: "a.tar"}}
    assert len(accepted(alice, JOB | archive, REHEARSAL)["warnings"]) == 1
    reference, before = uploaded(alice), everything()
    for coming_files in ({}, {reference: NAME}):
        body = JOB | {"input_sandbox": [reference], "coming_files": coming_files}
        assert accepted(alice, body, REHEARSAL)["warnings"] == []
    assert Sandbox.objects.count() == 1
    assert everything() == before


def test_one_request_has_bounds(
    sample: SampleData, alice: APIClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflows, "MAX_SCRIPTS", 1)
    monkeypatch.setattr(workflows, "MAX_ARCHIVES", 1)
    two = [uploaded(alice), uploaded(alice, ONE.replace(b"hello", b"bye"))]
    both = {"jobs": [JOB | {"input_sandbox": [reference]} for reference in two]}
    sentence = "The jobs of one request may run 1 different workflows; send several requests."
    assert refused(alice, JOBS, both) == {"jobs.1.input_sandbox": [sentence]}
    archives = [uploaded(alice, packed(a=bytes([n])), name=f"{n}.tar") for n in range(2)]
    sentence = f"{NAME} is looked for in 1 archives only; upload it as a file of its own."
    assert refused(alice, JOBS, JOB | {"input_sandbox": archives}) == {"input_sandbox": [sentence]}
    monkeypatch.setattr(workflows, "MAX_CHARACTERS", 1000)
    (sentence,) = refused(alice, JOBS, JOB | {"input_sandbox": two[:1]})["input_sandbox"]
    assert sentence.endswith("in one request may have 1,000 characters; send several requests.")
    monkeypatch.undo()
    with monkeypatch.context() as patched:
        patched.setattr(fields, "MAX_ENTRIES", 1)  # with the script there are two files
        (sentence,) = refused(alice, JOBS, JOB | {"input_sandbox": two[:1]})["input_sandbox"]
        assert sentence == "input_sandbox must have at most 1 entries, not 2."
    settings.WMS_SANDBOX_QUOTA_BYTES = 1
    assert "file" in refused(alice, JOBS, JOB | {"input_sandbox": two[:1]}, status=409)
