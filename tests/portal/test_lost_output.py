"""Jobs that are Done without all of their output need attention; a failed job opens at the stream that tells why."""

import pytest
from django.test import Client

from tests.factories import make_job, tell_cause
from wms.accounts.models import Group, User
from wms.jobs.domain.causes import LOST_OUTPUT
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, OutputTail

pytestmark = pytest.mark.django_db
WHY = "Execution complete; output sandbox: too large: big (300 MB; limit 200 MB); it is lost"


@pytest.fixture
def lost(alice: User, group: Group) -> Job:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    Job.objects.update(minor_status=WHY)
    OutputTail.objects.create(job=job, attempt=0, cause_line=WHY, cause=LOST_OUTPUT)
    make_job(submission=job.submission, status=JobStatus.DONE)
    return job


def test_lost_output_is_told_at_home_and_by_the_submission(portal: Client, lost: Job) -> None:
    for address in ("/", f"/submissions/{lost.submission_id}/"):
        context = portal.get(address).context
        assert context["lost_output"].jobs == 1
        rows = portal.get(f"/jobs/?{context['lost_output'].query}").context["rows"]
        assert [row.id for row in rows] == [lost.pk]


def test_a_job_with_lost_output_is_not_green(portal: Client, lost: Job) -> None:
    badges = {row.id: row.has_lost_output for row in portal.get("/jobs/").context["rows"]}
    assert badges == {lost.pk: True, lost.pk + 1: False}
    page = portal.get(f"/jobs/{lost.pk}/").content.decode()
    assert "Done, output lost</span>" in page
    assert "but a part of its output is lost: execution complete; output sandbox: too large" in page
    assert "output lost" not in portal.get(f"/jobs/{lost.pk + 1}/").content.decode()


@pytest.mark.parametrize(
    ("std_output", "std_error", "tab"),
    [
        ("reading\nValueError: 7\n", "", "output"),
        ("reading\nValueError: 7\n", "warning: old\n", "output"),
        ("reading\n", "ValueError: 7\n", "errors"),
        ("", "", "errors"),
    ],
)
def test_a_failed_job_opens_at_the_stream_that_tells_why(
    portal: Client, alice: User, group: Group, std_output: str, std_error: str, tab: str
) -> None:
    job = make_job(
        owner=alice, group=group, status=JobStatus.FAILED, std_output_tail=std_output, std_error_tail=std_error
    )
    Job.objects.update(exit_code=1)
    if std_output:
        tell_cause(job)
    response = portal.get(f"/jobs/{job.pk}/")
    assert response.context["tab"] == tab
    assert f'see <a href="?tab={tab}">' in response.content.decode()
