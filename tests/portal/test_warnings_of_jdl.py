"""Warnings of the portal about JDL as DIRAC's users write it."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.factories import make_queue
from tests.portal.test_submit import of_jdl
from wms.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sandboxes_apart")]

TEXT, CHECK = "/jobs/submit/jdl/", "/jobs/submit/check/"
JDL = 'Executable = "run.sh"; InputSandbox = { "run.sh" }; CPUTime = 500; LogLevel = "DEBUG";'
WARNING = "LogLevel is ignored: the pilot&#x27;s log does not depend on the job."


def run_sh() -> SimpleUploadedFile:
    return SimpleUploadedFile("run.sh", b"#!/bin/sh\n")


def test_the_panel_shows_ignored_attributes_before_the_submission(portal: Client) -> None:
    make_queue(cpu_time_s=50_000)
    page = portal.post(CHECK, of_jdl(JDL, tab="show-jdl", coming=["run.sh"])).content.decode()
    assert "Fits 1 of 1 queue" in page
    assert WARNING in page
    assert not Job.objects.exists()


def test_the_submission_page_shows_ignored_attributes(portal: Client) -> None:
    page = portal.post(TEXT, of_jdl(JDL, input_files=[run_sh()]), follow=True).content.decode()
    assert "1 job submitted." in page
    assert WARNING in page


def test_attributes_missing_in_another_view_are_reported(portal: Client) -> None:
    shown = portal.post(TEXT, of_jdl(JDL, input_files=[run_sh()], action="show-json"))
    description = json.loads(shown.context["form"]["json"].value())
    assert description == {"executable": "run.sh", "cpu_time_s": 500, "input_sandbox": ["run.sh"]}
    assert WARNING in shown.content.decode()


def test_a_refused_attribute_has_a_remedy(portal: Client) -> None:
    page = portal.post(TEXT, of_jdl('Executable = "sort"; StdInput = "words.txt";')).content.decode()
    assert "`StdInput` is not accepted: the program gets no standard input" in page
