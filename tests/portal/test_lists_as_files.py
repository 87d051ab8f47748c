"""CSV and JSON of all jobs of a list."""

import csv
import json
from http import HTTPStatus
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import make_job, make_queue, make_submission
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import breakdown

pytestmark = pytest.mark.django_db


def text_of(response: Any) -> str:
    assert response.status_code == HTTPStatus.OK
    assert response.streaming
    return b"".join(response.streaming_content).decode()


def test_both_files_have_the_rows_of_rest(portal: Client, alice: User, group: Group) -> None:
    queue = make_queue()
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, site=queue.ce.site, queue=queue, job_name="Größe")
    Job.objects.filter(pk=job.pk).update(cpu_s=1.5, exit_code=-2)
    make_job(owner=alice, group=group)
    make_job(group=group)
    (of_rest,) = portal.get("/api/v1/jobs/?status=Done").json()["results"]
    response = portal.get("/jobs/jobs.json?q=status:done")
    assert response["Content-Disposition"] == 'attachment; filename="jobs.json"'
    assert json.loads(text_of(response)) == [of_rest]
    response = portal.get("/jobs/jobs.csv?q=status:done")
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    head, row = csv.reader(text_of(response).splitlines())
    cells = dict(zip(head, row, strict=True))
    assert cells.keys() == {*of_rest, *(f"usage.{name}" for name in of_rest["usage"])} - {"usage"}
    assert (cells["id"], cells["job_name"], cells["usage.cpu_s"], cells["exit_code"]) == (
        str(job.pk), "Größe", "1.5", "-2",
    )  # fmt: skip
    assert len(json.loads(text_of(portal.get("/jobs/jobs.json")))) == 2
    assert json.loads(text_of(portal.get("/jobs/jobs.json?q=status:failed"))) == []
    assert len(text_of(portal.get("/jobs/jobs.csv?q=status:failed")).splitlines()) == 1


def test_files_are_read_in_portions(portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    submission = make_submission(owner=alice, group=group)
    jobs = [make_job(submission=submission, status=JobStatus.DONE).pk for _ in range(10)]
    monkeypatch.setattr(breakdown, "AT_ONCE", 4)
    with CaptureQueriesContext(connection) as captured:
        rows = json.loads(text_of(portal.get("/jobs/jobs.json?q=status:done")))
    assert [row["id"] for row in rows] == sorted(jobs, reverse=True)
    assert len([query for query in captured if '"jobs_job"."minor_status"' in query["sql"]]) == 3
    monkeypatch.setattr(breakdown, "AT_ONCE", 5)
    assert len(json.loads(text_of(portal.get("/jobs/jobs.json")))) == 10


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "=HYPERLINK(1)"])
def test_texts_are_not_spreadsheet_formulas(name: str, portal: Client, alice: User, group: Group) -> None:
    make_job(owner=alice, group=group, job_name=name)
    (row,) = csv.DictReader(text_of(portal.get("/jobs/jobs.csv")).splitlines())
    assert row["job_name"] == f"'{name}"
    (of_json,) = json.loads(text_of(portal.get("/jobs/jobs.json")))
    assert of_json["job_name"] == name


def test_characters_that_steer_terminals_are_escaped(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    Job.objects.filter(pk=job.pk).update(application_status='\x1b[31mred\u202egnp, "quoted"\nline')
    text = text_of(portal.get("/jobs/jobs.csv"))
    assert "\x1b" not in text
    assert "\u202e" not in text
    (row,) = csv.DictReader(text.splitlines(keepends=True))
    assert row["application_status"] == '\\x1b[31mred\\u202egnp, "quoted"\nline'
    raw = text_of(portal.get("/jobs/jobs.json"))
    assert raw.isascii()
    assert json.loads(raw)[0]["application_status"].startswith("\x1b[31m")


def test_a_query_with_an_error_redirects_to_the_list(portal: Client) -> None:
    response = portal.get("/jobs/jobs.csv?q=stats:x")
    assert response["Location"] == "/jobs/?q=stats%3Ax"
