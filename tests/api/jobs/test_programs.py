"""Programs and arguments that cannot start are refused at submission, in every form and in a rehearsal."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.test import APIClient

from tests.api.jobs.conftest import SampleData
from wms.jobs.models import Job

JOBS, REHEARSAL = "/api/v1/jobs/", "/api/v1/jobs/rehearsal/"
OPEN = (
    "A quote in arguments is not closed, or a backslash is the last character: {}. Close it, or put a backslash before "
    "the character."
)
WINDOWS = (
    "The first line of run.sh ends with a Windows line ending (CR): save it with Unix line endings: dos2unix run.sh."
)


def refused(alice: APIClient, address: str, body: dict[str, Any]) -> dict[str, list[str]]:
    answer = alice.post(address, body, format="json")
    assert answer.status_code == 400, answer.content
    errors: dict[str, list[str]] = answer.json()["errors"]
    return errors


def uploaded(alice: APIClient, name: str, content: bytes) -> str:
    answer = alice.post("/api/v1/sandboxes/", {"file": SimpleUploadedFile(name, content)}, format="multipart")
    assert answer.status_code == 201, answer.content
    reference: str = answer.json()["sandbox"]
    return reference


@pytest.mark.parametrize("address", [JOBS, REHEARSAL])
@pytest.mark.parametrize(
    ("body", "field", "arguments"),
    [
        ({"executable": "a", "arguments": "-n 'one"}, "arguments", "-n 'one"),
        ({"executable": "a", "arguments": 'a "b\\"'}, "arguments", 'a "b\\"'),
        ({"executable": "a", "arguments": "a\\"}, "arguments", "a\\"),
        ({"jdl": 'Executable = "a"; Arguments = "it\'s";'}, "arguments", "it's"),
        ({"cfg": "Executable = a\nArguments = it's"}, "arguments", "it's"),
        (
            {"jobs": [{"executable": "a"}, {"jdl": 'Executable = "a"; Arguments = "it\'s";'}]},
            "jobs.1.arguments",
            "it's",
        ),
        ({"executable": "a", "arguments": "%s", "parameters": {"values": ["a", "it's"]}}, "arguments", "it's"),
        ({"executable": "a", "arguments": "'%s", "parameters": {"values": ["b'", "c"]}}, "arguments", "'c"),
    ],
)
def test_unclosed_quotes_are_refused(
    sample: SampleData, alice: APIClient, address: str, body: dict[str, Any], field: str, arguments: str
) -> None:
    assert refused(alice, address, body) == {field: [OPEN.format(f'"{arguments}"')]}
    assert not Job.objects.exists()


@pytest.mark.parametrize("quoted", ["'%s'", "it\\'s %s", '"%s"'])
def test_arguments_that_parameters_close_are_accepted(sample: SampleData, alice: APIClient, quoted: str) -> None:
    body = {"executable": "a", "arguments": quoted, "parameters": {"values": ["x y", "z"]}}
    assert alice.post(JOBS, body, format="json").status_code == 201


@pytest.mark.parametrize("address", [JOBS, REHEARSAL])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"#!/bin/bash\r\necho done\r\n", WINDOWS),
        (b"#!/usr/bin/env python3\r\nprint()\r\n", WINDOWS),
        (b"#!/bin/sh -e\r", WINDOWS),
        (b"", "The executable run.sh is empty."),
        (
            b"\xef\xbb\xbf#!/bin/bash\n",
            "The first line of run.sh begins with a byte order mark: save it as UTF-8 without one.",
        ),
    ],
)
def test_files_that_run_nowhere_are_refused(
    sample: SampleData, alice: APIClient, address: str, content: bytes, sentence: str
) -> None:
    data = uploaded(alice, "data", b"#!x\r\n")
    body = {"input_sandbox": [data, uploaded(alice, "run.sh", content)], "arguments": "data"}
    for name in ("run.sh", "./run.sh"):
        assert refused(alice, address, {**body, "executable": name}) == {"executable": [sentence]}
    numbered = {**body, "executable": "%s.sh", "parameters": {"values": ["run"]}}
    assert refused(alice, address, numbered) == {"executable": [sentence]}
    assert alice.post(JOBS, {**body, "executable": "/bin/cat"}, format="json").status_code == 201


@pytest.mark.parametrize("content", [b"#!/bin/sh\necho a\r\n", b"echo\r\n", b"#!/no/such\n", b"\x7fELF", b"#", b"\n"])
def test_other_files_are_accepted(sample: SampleData, alice: APIClient, content: bytes) -> None:
    body = {"executable": "run.sh", "input_sandbox": [uploaded(alice, "run.sh", content)]}
    assert alice.post(JOBS, body, format="json").status_code == 201
