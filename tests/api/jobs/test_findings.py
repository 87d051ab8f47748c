"""One linter answers the dry run over REST, the check of the portal's form and the submission alike."""

from base64 import b64encode
from hashlib import sha256
from io import BytesIO
from tarfile import TarInfo
from tarfile import open as open_tar
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from django.conf import settings as configured
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from wms.jobs.models import Job

JOBS, REHEARSAL, FORM, CHECK = "/api/v1/jobs/", "/api/v1/jobs/rehearsal/", "/jobs/submit/", "/jobs/submit/check/"
GOOD = b"#!/bin/bash\necho a\n"


class Case(NamedTuple):
    """A description with one file, and what is found in it."""

    sentence: str
    cure: str
    executable: str = "./run.sh"
    arguments: str = ""
    content: bytes = GOOD
    field: str = "executable"
    line: int | None = None
    surely_fails: bool = True


CASES = {
    "misspelt program": Case('The executable "rnu.sh" is none of the files', 'Did you mean "run.sh"?', "rnu.sh"),
    "misspelt path": Case("the job fails when it starts", 'Did you mean "run.sh"?', "./rnu.sh"),
    "no such program": Case("nor a program of nodes", "correct the name", "simulate.py"),
    "misspelt script": Case(
        'python3 is to run "rnu.sh"', 'Did you mean "run.sh"?', "python3", "rnu.sh 5", field="arguments"
    ),
    "no interpreter": Case("run.sh does not begin with #!", "#!/bin/bash", content=b"echo a\n", line=1),
    "misspelt interpreter": Case(
        "/usr/bin/pyhton3, is on no node", "/usr/bin/python3?", content=b"#!/usr/bin/pyhton3\n", line=1
    ),
    "misspelt in env": Case("pyton, is on no node", "python?", content=b"#!/usr/bin/env pyton\n", line=1),
    "own computer": Case(
        "on your computer only", "python3", content=b"#!/home/me/bin/python3\n", line=1, surely_fails=False
    ),
    "relative": Case("no absolute path", "env python3", content=b"#!python3\n", line=1, surely_fails=False),
    "program of macOS": Case("a program for macOS", "for Linux", content=b"\xcf\xfa\xed\xfe\x07\0\0\x01"),
    "program of Windows": Case("a program for Windows", "for Linux", content=b"MZ\x90\0"),
    "later CR": Case(
        "Line 2 of run.sh ends with", "dos2unix run.sh", content=b"#!/bin/sh\necho\r\n", line=2, surely_fails=False
    ),
    "CR of a script": Case(
        "Line 1 of run.sh", "dos2unix run.sh", "/bin/bash", "run.sh", b"echo\r\n", "arguments", 1, surely_fails=False
    ),
    "signs of a shell": Case(
        "not read by a shell", "single quotes", arguments="*.txt", field="arguments", surely_fails=False
    ),
}  # fmt: skip


def reference(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


def rehearsed(alice: APIClient, body: dict[str, Any], content: bytes, name: str = "run.sh") -> dict[str, Any]:
    known = {"size_bytes": len(content), "head": b64encode(content[:256]).decode()}
    coming = {"coming_files": {reference(content): name}, "coming_contents": {reference(content): known}}
    return alice.post(REHEARSAL, {**body, **coming}, format="json").json()  # type: ignore[no-any-return]


def uploaded(alice: APIClient, content: bytes, name: str = "run.sh") -> str:
    file = {"file": SimpleUploadedFile(name, content)}
    return str(alice.post("/api/v1/sandboxes/", file, format="multipart").json()["sandbox"])


def form_of(case: Case, **others: object) -> dict[str, object]:
    return {
        "executable": case.executable, "arguments": case.arguments, "cpu_time_s": "500 s", "priority": "1",
        "processors": "1", "request_id": str(uuid4()), **others,
    }  # fmt: skip


@pytest.fixture
def portal(sample: SampleData, client: Client) -> Client:
    client.force_login(sample.alice)
    return client


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_door_finds_the_same(sample: SampleData, alice: APIClient, portal: Client, case: Case) -> None:
    body = {"executable": case.executable, "arguments": case.arguments, "input_sandbox": [reference(case.content)]}
    before = rehearsed(alice, body, case.content)
    (found,) = before["findings"]
    assert case.sentence in found["sentence"]
    assert case.cure in found["cure"]
    assert (found["field"], found["line"]) == (case.field, case.line)
    assert (found["surely_fails"], found["first"], found["jobs"]) == (case.surely_fails, 0, 1)
    text = f"{found['sentence']} {found['cure']}"
    assert text in before["warnings"]
    # The panel beside the form, with a file that is only chosen.
    head = b64encode(case.content).decode()
    chosen = form_of(case, coming="run.sh", coming_size=str(len(case.content)), coming_head=head)
    panel = portal.post(CHECK, chosen)
    check = panel.context["check"]
    assert text in [*check.errors, *check.warnings]
    assert ("would fail when it starts" in panel.content.decode()) == case.surely_fails
    # The form, which comes back, and is submitted on request.
    file = SimpleUploadedFile("run.sh", case.content)
    answer = portal.post(FORM, form_of(case, input_files=[file]))
    assert (answer.status_code == 400) == case.surely_fails
    if case.surely_fails:
        assert "Submit anyway" in answer.content.decode()
        assert [text] in list(answer.context["form"].errors.values())
        kept = [" ".join(each) for each in answer.context["form"].kept_files]
        assert portal.post(FORM, form_of(case, kept=kept, action="anyway")).status_code == 302
    # REST accepts with a warning, unless it is to be strict.
    uploaded(alice, case.content)
    submitted = alice.post(JOBS, body, format="json")
    assert submitted.status_code == 201
    assert submitted.json()["findings"] == before["findings"]
    assert text in submitted.json()["warnings"]
    jobs = Job.objects.count()
    strict = alice.post(JOBS, {**body, "strict": True}, format="json")
    assert (strict.status_code == 400) == case.surely_fails
    if case.surely_fails:
        assert (strict.json()["code"], strict.json()["errors"]) == ("surely_fails", {case.field: [text]})
        assert Job.objects.count() == jobs


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ({"executable": "run.sh"}, GOOD),
        ({"executable": "run.sh"}, b"#!/usr/bin/env python3\nprint()\r\n"),
        ({"executable": "run.sh"}, b"#!/cvmfs/sw/bin/ipython\n"),
        ({"executable": "run.sh"}, b"#!/usr/bin/env -S python3.11 -u\n"),
        ({"executable": "run.sh"}, b"\x7fELF\x02\x01"),
        ({"executable": "run.sh"}, b"\xca\xfe\xba\xbe\0\0\0\x37"),
        ({"executable": "simulate"}, GOOD),
        ({"executable": "athena.py", "software": ["athena"]}, GOOD),
        ({"executable": "tool.sh", "environment": {"PATH": "/cvmfs/bin"}}, GOOD),
        ({"executable": "python3", "arguments": "-m venv x"}, GOOD),
        ({"executable": "/bin/bash", "arguments": "/cvmfs/run.sh"}, GOOD),
        ({"executable": "/bin/bash", "arguments": "run.sh"}, b"echo a\n"),
    ],
)
def test_what_may_work_is_not_found(sample: SampleData, alice: APIClient, body: dict[str, Any], content: bytes) -> None:
    assert rehearsed(alice, {**body, "input_sandbox": [reference(content)]}, content)["findings"] == []
    assert alice.post(JOBS, {**body, "input_sandbox": [uploaded(alice, content)]}, format="json").status_code == 201


def archive(**files: bytes) -> bytes:
    packed = BytesIO()
    with open_tar(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = TarInfo(name)
            member.size = len(content)
            tar.addfile(member, BytesIO(content))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("executable", "content", "sentence"),
    [
        ("./rnu", GOOD, "the job fails when it starts"),
        ("./run", b"echo a\n", "does not begin with #!"),
        ("run", GOOD, ""),
    ],
)
def test_a_small_archive_is_looked_into(
    sample: SampleData, alice: APIClient, executable: str, content: bytes, sentence: str
) -> None:
    body = {"executable": executable, "input_sandbox": [uploaded(alice, archive(run=content), "all.tgz")]}
    answer = alice.post(JOBS, body, format="json").json()
    assert [sentence in each["sentence"] for each in answer["findings"]] == ([True] if sentence else [])


def test_a_program_of_no_file_is_found_without_a_sandbox(sample: SampleData, alice: APIClient) -> None:
    answer = alice.post(JOBS, {"executable": "rnu.sh", "strict": True}, format="json")
    assert answer.status_code == 400
    assert answer.json()["code"] == "surely_fails"


def test_the_jobs_of_a_finding_are_named_by_position(sample: SampleData, alice: APIClient) -> None:
    jobs = [{"executable": name} for name in ("/bin/echo", "rnu.sh", "rnu.sh")]
    (found,) = alice.post(REHEARSAL, {"jobs": jobs}, format="json").json()["findings"]
    assert (found["first"], found["jobs"]) == (1, 2)
    strict = alice.post(JOBS, {"jobs": jobs, "strict": True}, format="json")
    assert list(strict.json()["errors"]) == ["jobs.1.executable"]


def test_a_repeated_request_has_the_same_findings(sample: SampleData, alice: APIClient) -> None:
    body = {"executable": "rnu.sh", "request_id": str(uuid4())}
    first, second = (alice.post(JOBS, body, format="json").json() for _ in range(2))
    assert first["findings"]
    assert first == second


def test_a_file_over_the_limit_is_refused_before_its_upload(
    sample: SampleData, alice: APIClient, portal: Client
) -> None:
    content, most = b"#!/bin/sh\n", configured.WMS_SANDBOX_MAX_BYTES
    coming = {
        "coming_files": {reference(content): "run.sh"},
        "coming_contents": {reference(content): {"size_bytes": most + 1}},
    }
    body = {"executable": "run.sh", "input_sandbox": [reference(content)], **coming}
    errors = alice.post(REHEARSAL, body, format="json").json()["errors"]
    sentence = (
        f"run.sh has {most + 1} bytes. A sandbox may have {most} bytes; larger files belong on a storage element."
    )
    assert errors == {"input_sandbox": [sentence]}
    panel = portal.post(CHECK, form_of(Case("", ""), coming="run.sh", coming_size=str(most + 1)))
    assert panel.context["check"].errors == [sentence]


def test_a_windows_line_ending_is_refused_in_a_dry_run_too(sample: SampleData, alice: APIClient) -> None:
    content = b"#!/bin/bash\r\necho\r\n"
    body = {"executable": "run.sh", "input_sandbox": [reference(content)]}
    errors = rehearsed(alice, body, content)["errors"]
    assert "first line of run.sh" in errors["executable"][0]
    assert "dos2unix run.sh" in errors["executable"][0]


def test_one_output_name_for_many_jobs_is_refused(sample: SampleData, alice: APIClient, portal: Client) -> None:
    data = {"output_path": "out", "output_data": ["a.root"]}
    body = {"executable": "/bin/echo", "parameters": {"count": 3}, **data}
    refused = [alice.post(address, body, format="json").json()["errors"] for address in (REHEARSAL, JOBS)]
    assert refused[0] == refused[1]
    assert "3 of these jobs would write" in refused[0]["output_data"][0]


@pytest.mark.parametrize("contents", [[], {"x": 1}, {reference(GOOD): 1}, {reference(GOOD): {"head": "§"}}])
def test_wrong_contents_are_refused(sample: SampleData, alice: APIClient, contents: object) -> None:
    body = {"executable": "run.sh", "coming_files": {reference(GOOD): "run.sh"}, "coming_contents": contents}
    answer = alice.post(REHEARSAL, {**body, "input_sandbox": [reference(GOOD)]}, format="json")
    assert answer.status_code == (200 if contents == {"x": 1} else 400)


def test_strict_is_a_boolean(sample: SampleData, alice: APIClient) -> None:
    answer = alice.post(JOBS, {"executable": "/bin/echo", "strict": "yes"}, format="json")
    assert list(answer.json()["errors"]) == ["strict"]
