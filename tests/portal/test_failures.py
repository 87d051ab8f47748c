"""The page of failed jobs in groups."""

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pilots.models import Pilot
from resources.models import Site
from tests.factories import NOW, make_job, make_match, make_pilot, make_site, tell_cause
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import failures

pytestmark = pytest.mark.django_db


@pytest.fixture
def site() -> Site:
    return make_site(name="LCG.RAL.uk")


def failed(owner: User, group: Group, *, reason: str, exit_code: int | None = None, **more: Any) -> Job:
    job = make_job(owner=owner, group=group, status=JobStatus.FAILED, **more)
    Job.objects.filter(pk=job.pk).update(minor_status=reason, exit_code=exit_code)
    return job


def on_host(name: str) -> Pilot:
    pilot = make_pilot()
    Pilot.objects.filter(pk=pilot.pk).update(host_name=name)
    return pilot


def groups_of(client: Client, text: str = "") -> list[Any]:
    response = client.get("/failures/", {"q": text})
    assert response.status_code == HTTPStatus.OK
    groups: list[Any] = response.context["failures"].groups
    return groups


def test_failures_are_grouped_by_what_their_reasons_have_in_common(
    portal: Client, alice: User, group: Group, site: Site
) -> None:
    for number in range(3):
        failed(alice, group, reason=f"cannot open /data/{number}.root", exit_code=2, site=site)
    last = failed(alice, group, reason="cannot open /x", exit_code=2, std_output_tail="line 1\n<b>no such file</b>")
    failed(alice, group, reason="cannot open /x", exit_code=3)
    failed(alice, group, reason="Job stalled")
    make_job(owner=alice, group=group, status=JobStatus.KILLED)
    failed(make_job(group=group).owner, group, reason="cannot open /y", exit_code=2)
    page = portal.get("/failures/").content.decode()
    assert "6 failed, 3 causes, the most frequent first." in page
    assert "&lt;b&gt;no such file&lt;/b&gt;" in page
    largest, *others = groups_of(portal)
    assert (largest.title, largest.exit_code, largest.jobs, largest.example_id) == (
        "cannot open /x", 2, 4, last.pk,
    )  # fmt: skip
    assert [(place.site, place.jobs) for place in largest.places] == [("LCG.RAL.uk", 3), ("", 1)]
    assert [(other.title, other.exit_code, other.jobs) for other in others] == [
        ("Job stalled", None, 1),
        ("cannot open /x", 3, 1),
    ]


def crashed(owner: User, group: Group, line: str, *, exit_code: int = 1, **more: Any) -> Job:
    """Return a job whose payload said *line*, and failed."""
    job = failed(owner, group, reason=f"Exited with code {exit_code}", exit_code=exit_code, std_error_tail=line, **more)
    tell_cause(job)
    return job


def test_payloads_with_one_exit_code_are_grouped_by_what_they_said(portal: Client, alice: User, group: Group) -> None:
    seeds = [crashed(alice, group, f"ValueError: bad seed {seed}") for seed in (917, 918)]
    disk = crashed(alice, group, "OSError: No space left on device")
    silent = failed(alice, group, reason="Exited with code 1", exit_code=1)
    groups = groups_of(portal)
    assert [(each.title, each.jobs) for each in groups] == [
        ("ValueError: bad seed 918", 2),
        ("OSError: No space left on device", 1),
        ("Exited with code 1", 1),
    ]
    listed = [{row.id for row in portal.get(f"/jobs/?{each.query}").context["rows"]} for each in groups]
    assert listed == [{job.pk for job in seeds}, {disk.pk}, {silent.pk}]
    assert "&lt;number&gt;" not in portal.get("/failures/").content.decode()


def test_what_the_failed_jobs_have_in_common_is_said_first(portal: Client, alice: User, group: Group) -> None:
    for seed in range(60):
        if seed > 49:
            crashed(alice, group, f"ValueError: bad seed {seed}", arguments=f"--seed {seed}")
        else:
            make_job(owner=alice, group=group, status=JobStatus.DONE, arguments=f"--seed {seed}")
    (seeds,) = groups_of(portal)
    assert seeds.common == ["All 10 have --seed > 49; none of 50 others."]
    assert seeds.common[0] in portal.get("/failures/").content.decode().replace("&gt;", ">")


def test_causes_are_counted_by_site_beside_what_is_done_there(portal: Client, alice: User, group: Group) -> None:
    two, one, three = (make_site(name=name) for name in ("LCG.Two.org", "LCG.One.org", "LCG.Three.org"))
    for _ in range(3):
        crashed(alice, group, "No space left on device", site=two)
    crashed(alice, group, "bad seed 7: invalid", site=two)
    crashed(alice, group, "bad seed 8: invalid", site=one)
    for site in (two, one, three):
        make_job(owner=alice, group=group, status=JobStatus.DONE, site=site)
    view = portal.get("/failures/").context["failures"]
    assert [cause.title for cause in view.causes] == ["No space left on device", "bad seed 8: invalid"]
    rows = [([cell.jobs for cell in row.causes], row.failed, row.done, row.failed_part) for row in view.sites]
    assert [row.site for row in view.sites] == ["LCG.Two.org", "LCG.One.org"]
    assert rows == [([3, 1], 4, 1, "80 %"), ([0, 1], 1, 1, "50 %")]
    (at_one,) = groups_of(portal, "cause:" + parse_qs(view.groups[1].query)["q"][0].partition("cause:")[2][:10])
    assert at_one.title == "bad seed 8: invalid"
    assert portal.get("/failures/", {"q": "site:LCG.One.org"}).context["failures"].sites == []
    cell = view.sites[0].causes[0]
    assert len(portal.get(f"/jobs/?{cell.query}").context["rows"]) == cell.jobs


@pytest.mark.parametrize("cause", ["x", "0123456789abc"])
def test_a_cause_that_is_no_key_is_refused(portal: Client, cause: str) -> None:
    assert "Give the key of a cause" in portal.get("/failures/", {"q": f"cause:{cause}"}).content.decode()


def test_links_lead_to_the_jobs_of_a_group_and_of_a_place(
    portal: Client, alice: User, group: Group, site: Site
) -> None:
    pilot = on_host("wn1.cern.ch")
    here = failed(alice, group, reason="lost 7 events", exit_code=2, site=site, pilot_id=pilot.pk)
    make_match(job=here, pilot=pilot, ended_at=NOW)
    there = failed(alice, group, reason="lost 8 events", exit_code=2, site=make_site())
    failed(alice, group, reason="lost a pilot", exit_code=2, site=site)
    (of_events,) = [each for each in groups_of(portal) if each.title == "lost 8 events"]
    listed = portal.get(f"/jobs/?{of_events.query}").context["rows"]
    assert [row.id for row in listed] == [there.pk, here.pk]
    (place,) = [place for place in of_events.places if place.host]
    assert (place.site, place.host, place.jobs) == ("LCG.RAL.uk", "wn1.cern.ch", 1)
    assert [row.id for row in portal.get(f"/jobs/?{place.query}").context["rows"]] == [here.pk]


def test_a_list_or_a_submission_has_its_own_failures(portal: Client, alice: User, group: Group, site: Site) -> None:
    job = failed(alice, group, reason="lost", site=site)
    failed(alice, group, reason="stalled")
    assert [each.title for each in groups_of(portal, f"submission:{job.submission_id}")] == ["lost"]
    (at_site,) = groups_of(portal, "site:LCG.RAL.uk status:done")
    assert at_site.title == "lost"
    assert parse_qs(at_site.query)["q"] == ["status:Failed site:LCG.RAL.uk reason:lost"]
    assert portal.get("/failures/", {"q": str(job.pk)})["Location"] == f"/jobs/{job.pk}/"


def test_all_of_a_group_are_rescheduled_once_confirmed(portal: Client, alice: User, group: Group) -> None:
    jobs = [failed(alice, group, reason=f"lost {number} events", exit_code=2) for number in range(3)]
    other = failed(alice, group, reason="stalled")
    largest, _ = groups_of(portal)
    form = {"scope": "all", "q": largest.text, "action": "reschedule"}
    question = portal.post(f"/jobs/actions/?{largest.query}", form).context["question"]
    assert (question.question, question.possible_count) == ("Reschedule 3 jobs?", 3)
    page = portal.post(f"/jobs/actions/?{largest.query}", {**form, "confirmed": "1", "shown": "3"}, follow=True)
    assert "3 jobs rescheduled." in page.content.decode()
    assert {Job.objects.get(pk=job.pk).status for job in jobs} == {JobStatus.WAITING}
    assert Job.objects.get(pk=other.pk).status == JobStatus.FAILED


def test_only_the_newest_failures_are_grouped(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    for reason in ("old", "new", "new"):
        failed(alice, group, reason=reason)
    monkeypatch.setattr(failures.failures, "__kwdefaults__", {"newest": 2})
    response = portal.get("/failures/")
    assert [(each.title, each.jobs) for each in response.context["failures"].groups] == [("new", 2)]
    assert "The newest 2 failed, 1 cause." in response.content.decode()


def test_groups_and_places_are_bounded(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "MOST_GROUPS", 2)
    monkeypatch.setattr(failures, "MOST_PLACES", 1)
    for reason in ("a", "a", "b", "c"):
        failed(alice, group, reason=reason, site=make_site())
    response = portal.get("/failures/")
    view = response.context["failures"]
    assert ([each.title for each in view.groups], view.more, view.groups[0].more_places) == (["a", "b"], 1, 1)
    page = response.content.decode()
    assert "and 1 smaller group" in page
    assert "and 1 more place" in page


def test_the_page_says_that_there_are_no_failures(portal: Client) -> None:
    assert "No job of this selection has failed." in portal.get("/failures/").content.decode()


def test_thirty_groups_cost_no_more_queries_than_one(portal: Client, alice: User, group: Group) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            groups_of(portal, "status:failed")
        return len(captured)

    failed(alice, group, reason="reason a")
    one = queries()
    for number in range(29):
        failed(alice, group, reason=f"reason {chr(ord('b') + number % 20)}{'x' * number}", site=make_site())
    assert queries() == one
    assert one <= 17  # two compare the groups; two are the banner's, which outside of tests are memoised
