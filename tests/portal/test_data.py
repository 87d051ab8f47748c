"""Jobs with input data on the pages for physicists."""

from uuid import uuid4

import pytest
from django.test import Client

from resources.models import Site
from tests.factories import make_job, make_replica, make_storage_element
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


def test_the_form_accepts_input_data_and_names_missing_files(portal: Client, group: Group, vo: VO) -> None:
    element = make_storage_element(sites=[Site.objects.get(name="LCG.PIC.es")])
    make_replica("/lhcb/a", vo=vo, storage_element=element)
    fields = {
        "request_id": str(uuid4()),
        "executable": "/bin/cat",
        "cpu_time_s": "500",
        "priority": "1",
        "input_data": "/lhcb/a, /lhcb/b",
        "output_data": "*.root",
    }
    refused = portal.post("/jobs/submit/", fields)
    assert refused.status_code == 400
    assert "/lhcb/b" in refused.context["form"].errors["input_data"][0]

    portal.post("/jobs/submit/", {**fields, "request_id": str(uuid4()), "input_data": "/lhcb/a"})
    job = Job.objects.get()
    assert (job.description["input_data"], job.description["output_data"]) == (["/lhcb/a"], ["*.root"])
    page = portal.get(f"/jobs/{job.pk}/").content.decode()
    assert "Sites with its input data</dt><dd>LCG.PIC.es" in page


def test_the_page_of_a_job_that_is_checking_says_what_it_waits_for(
    portal: Client, alice: User, group: Group, vo: VO
) -> None:
    make_replica("/lhcb/a", vo=vo, storage_element=make_storage_element())
    job = make_job(owner=alice, group=group, input_data=["/lhcb/a"])
    job.refresh_from_db()
    assert job.status == JobStatus.CHECKING
    page = portal.get(f"/jobs/{job.pk}/").content.decode()
    assert "Sites with its input data</dt><dd>none" in page
    assert "holds all of its input data" in page
    assert "task queue yet" in page


def test_the_page_of_a_job_without_input_data_does_not_mention_them(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    assert "Sites with its input data" not in portal.get(f"/jobs/{job.pk}/").content.decode()
