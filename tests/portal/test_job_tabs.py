"""The tabs of a job's page, but Files and Why."""

from typing import Any

import pytest
from django.test import Client

from pilots.domain.logs import LogPart
from pilots.services import logs
from tests.factories import NOW, make_job, make_pilot, make_samples, make_user
from tests.portal.conftest import ClientOf
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory, OutputTail
from wms.portal.presentation.job_tabs import Tab

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (JobStatus.CHECKING, Tab.WHY),
        (JobStatus.WAITING, Tab.WHY),
        (JobStatus.HELD, Tab.WHY),
        (JobStatus.RUNNING, Tab.OUTPUT),
        (JobStatus.FAILED, Tab.ERRORS),
        (JobStatus.DONE, Tab.OUTPUT),
    ],
)
def test_the_first_tab_depends_on_the_status(
    status: JobStatus, expected: Tab, portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=status)
    for query in ("", "?tab=", "?tab=nonsense"):
        assert portal.get(f"/jobs/{job.pk}/{query}").context["tab"] == expected


def test_every_tab_is_a_link_to_itself(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.DONE)
    for tab in Tab:
        response = portal.get(f"/jobs/{job.pk}/?tab={tab}")
        assert [link.tab for link in response.context["job"].tabs if link.is_chosen] == [tab]
        assert f'<a href="?tab={tab}" aria-current="page">' in response.content.decode()


def test_output_and_errors_show_the_present_attempt_and_keep_the_earlier_ones(
    portal: Client, alice: User, group: Group
) -> None:
    job = make_job(
        owner=alice,
        group=group,
        status=JobStatus.RUNNING,
        reschedules=2,
        std_output_tail="third <i>out</i>",
        std_error_tail="third error",
    )
    OutputTail.objects.create(job=job, attempt=0, std_output="first out", std_error="first error")
    OutputTail.objects.create(job=job, attempt=1, std_output=None, std_error="second error")
    output = portal.get(f"/jobs/{job.pk}/?tab=output")
    errors = portal.get(f"/jobs/{job.pk}/?tab=errors")
    shown = {
        name: (view.text, [(attempt.number, attempt.text) for attempt in view.earlier])
        for name, view in (("output", output.context["output"]), ("errors", errors.context["output"]))
    }
    assert shown == {
        "output": ("third <i>out</i>", [(1, "first out")]),
        "errors": ("third error", [(2, "second error"), (1, "first error")]),
    }
    page = output.content.decode()
    assert "third &lt;i&gt;out" in page
    assert "first error" not in page


@pytest.mark.parametrize(
    ("status", "started", "expected"),
    [
        (JobStatus.RUNNING, True, "Nothing was reported yet"),
        (JobStatus.WAITING, False, "has not run"),
        (JobStatus.DONE, True, "has written nothing to its standard error"),
    ],
)
def test_an_empty_tab_explains_itself(
    status: JobStatus, started: bool, expected: str, portal: Client, alice: User, group: Group
) -> None:
    job = make_job(owner=alice, group=group, status=status)
    Job.objects.filter(pk=job.pk).update(started_at=NOW if started else None)
    assert expected in portal.get(f"/jobs/{job.pk}/?tab=errors").content.decode()


def test_the_resources_tab_compares_requested_and_used_amounts(portal: Client, alice: User, group: Group) -> None:
    job = make_job(
        owner=alice, group=group, status=JobStatus.DONE, processors=2, memory_mb=1000, cpu_time_s=3600, wall_time_s=0
    )
    Job.objects.filter(pk=job.pk).update(cpu_s=1800.0, wall_s=1200.0, max_memory_mb=250.0)
    usage = portal.get(f"/jobs/{job.pk}/?tab=resources").context["usage"]
    rows = {row.label: (row.asked, row.used, row.percent) for row in usage.rows}
    assert rows == {
        "CPU time": ("7,200 s (2 h)", "1,800.0 s (30 min)", 25.0),
        "Wall-clock time": ("not limited", "1,200.0 s (20 min)", None),
        "Memory, highest": ("1,000 MB", "250.0 MB", 25.0),
        "Disk, highest": ("not limited", "", None),
    }
    assert usage.efficiency == "75 %"
    assert usage.newest is None


def test_samples_are_drawn_and_listed_as_numbers(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING, reschedules=1)
    make_samples(job, (90, 45, 100, 5), (120, 105, None, 6), step_s=30, attempt=1)
    make_samples(job, (90, 90, 1, 1), step_s=30)
    response = portal.get(f"/jobs/{job.pk}/?tab=resources")
    usage, page = response.context["usage"], response.content.decode()
    cpu, memory = usage.newest.charts
    assert (usage.newest.number, usage.earlier) == (2, [])
    assert list(cpu.series[0].values) == [0.5, 2.0]
    assert list(memory.series[0].values) == [100.0, None]
    assert memory.rows == [["1 min 30 s", "100", "5"], ["2 min", "–", "6"]]
    assert "data-chart=" in page
    assert "chart.js" in page
    assert "chart.js" not in portal.get(f"/jobs/{job.pk}/?tab=output").content.decode()


def test_the_description_tab_shows_set_fields_first_and_all_as_json(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group, arguments="<b>--events 10</b>", memory_mb=2000)
    response = portal.get(f"/jobs/{job.pk}/?tab=description")
    described = response.context["description"]
    asked, defaults = ([fact.label for fact in facts] for facts in (described.asked_for, described.defaults))
    assert {"Executable", "Arguments", "Memory (MB)"} <= set(asked)
    assert "Processors" in defaults
    assert not set(asked) & set(defaults)
    assert '"memory_mb": 2000' in described.json
    page = response.content.decode()
    assert "&lt;b&gt;--events 10" in page
    assert f'href="/jobs/submit/?clone={job.pk}"' in page


def test_a_long_history_shows_its_newest_changes(
    portal: Client, alice: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wms.portal.views.job.MOST_CHANGES", 3)
    job = make_job(owner=alice, group=group, status=JobStatus.RUNNING)
    for number in range(5):
        JobHistory.objects.create(
            job=job, changed_at=NOW, status=JobStatus.STALLED, minor_status=f"<u>{number}</u>", source="x"
        )
    response = portal.get(f"/jobs/{job.pk}/?tab=history")
    assert [row.minor_status for row in response.context["history"]] == ["<u>2</u>", "<u>3</u>", "<u>4</u>"]
    assert "The newest 3 changes" in response.content.decode()
    assert "&lt;u&gt;4" in response.content.decode()


@pytest.mark.parametrize(("who", "is_told"), [("owner", False), ("manager", True), ("operator", True)])
def test_the_log_of_a_shared_pilot_is_hidden(
    who: str, is_told: bool, vo: Any, alice: User, group: Group, client_of: ClientOf
) -> None:
    pilot = make_pilot(vo=vo)
    logs.append(LogPart(offset=0, text="<pilot> started\n"), pilot_id=pilot.pk, now=NOW)
    job = make_job(owner=alice, group=group, status=JobStatus.DONE, pilot_id=pilot.pk)
    users = {
        "owner": lambda: alice,
        "manager": lambda: make_user(manages=[vo]),
        "operator": lambda: make_user(operator=True),
    }
    page = client_of(users[who]()).get(f"/jobs/{job.pk}/?tab=pilot").content.decode()
    assert ("&lt;pilot&gt; started" in page) is is_told
    assert ("You may not see the log of this pilot" in page) is not is_told


def test_the_page_of_a_job_without_a_pilot_says_it(portal: Client, alice: User, group: Group) -> None:
    job = make_job(owner=alice, group=group)
    assert "No pilot has had the job yet" in portal.get(f"/jobs/{job.pk}/?tab=pilot").content.decode()
