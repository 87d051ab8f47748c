"""Pages that confirm a deletion: the rows that they list, and the rows that are deleted with the selected one."""

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from pilots.models import CEHealth
from resources.models import ComputingElement
from resources.services.states import full_name
from taskqueues.models import QueuedJob, TaskQueue
from tests.factories import make_ce, make_group, make_job, make_queue, make_site
from wms.accounts.models import Group
from wms.jobs.models import Job
from wms.kernel.admin import pages
from wms.kernel.admin.pages import MOST_PROTECTING

pytestmark = pytest.mark.django_db


def delete_page(row: Model) -> str:
    """Return the address of the page that confirms the deletion."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_delete", args=[row.pk])


def test_a_deletion_names_the_row_itself(operator: Client) -> None:
    """Django's own groups, of which there is no page, are called as ours are."""
    group = make_group()
    page = operator.get(delete_page(group)).content.decode()
    assert "Groups: 1" in page
    assert f'<a href="{reverse("admin:accounts_group_change", args=[group.pk])}">{group}</a>' in page


def test_deleting_a_computing_element_deletes_its_health_record(operator: Client) -> None:
    ce = make_queue().ce
    CEHealth.objects.create(ce=ce, failures=1, trouble="it is down")
    page = operator.get(delete_page(ce)).content.decode()
    assert "permission" not in page
    assert operator.post(delete_page(ce), {"post": "yes"}).status_code == 302
    assert not ComputingElement.objects.exists()
    assert not CEHealth.objects.exists()


def test_a_deletion_of_a_place_says_how_many_jobs_run_there_and_wait_for_it_alone(operator: Client) -> None:
    queue = make_queue(ce=make_ce(site=make_site(name="lhcb.org")))
    make_job(sites=["lhcb.org"])
    sentence = "jobs run there; 1 job waits that can run nowhere else."
    for row in (queue, queue.ce):
        page = operator.get(delete_page(row)).content.decode()
        assert f"No further job starts at {full_name(row)}. 0 {sentence}" in page
    chosen = {"action": "delete_selected", "_selected_action": [str(queue.pk)]}
    asked = operator.post(reverse("admin:resources_queue_changelist"), chosen).content.decode()
    assert f"No further job starts at {full_name(queue)}. 0 {sentence}" in asked


def test_a_refused_deletion_names_the_rows_that_prevent_it(operator: Client) -> None:
    group = make_group()
    jobs = [make_job(group=group) for _ in range(MOST_PROTECTING + 2)]
    page = operator.get(delete_page(group)).content.decode()
    assert "permission" not in page
    assert "protected related objects" in page
    assert page.count("Job: ") <= MOST_PROTECTING
    assert "more</li>" in page
    assert operator.post(delete_page(group), {"post": "yes"}).status_code == 200
    assert Group.objects.filter(pk=group.pk).exists()
    assert len(jobs) > MOST_PROTECTING


def test_of_many_rows_that_prevent_a_deletion_only_the_kind_is_said(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MANY_PROTECTING", 2)
    group = make_group()
    for _ in range(3):
        make_job(group=group)
    page = operator.get(delete_page(group)).content.decode()
    assert "Jobs: more than 2" in page
    assert "Job: " not in page
    assert operator.post(delete_page(group), {"post": "yes"}).status_code == 200
    assert Group.objects.filter(pk=group.pk).exists()


def test_internal_records_do_not_prevent_a_deletion(operator: Client) -> None:
    group = make_group()
    job = make_job(group=group)
    page = operator.get(delete_page(group)).content.decode()
    assert "Job: " in page
    assert "ubmission" not in page.partition('id="content"')[2]  # the header has a link of this name
    Job.objects.all().delete()
    for rows in (QueuedJob, TaskQueue):
        rows.objects.all().delete()
    page = operator.get(delete_page(group)).content.decode()
    assert "Submissions: 1" in page
    assert str(job.submission_id) not in page
    assert Group.objects.filter(pk=group.pk).exists()
