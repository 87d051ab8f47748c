"""The commands about the account, many jobs, and what jobs wait for."""

from datetime import UTC, datetime

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from pilots.models import Pilot
from tests.end_to_end.cli.conftest import SampleData, Wms, WmsOf
from tests.factories import make_bucket, make_group, make_job, make_pilot, make_submission
from wms.accounts.models import ApiToken
from wms.jobs.domain.accounting import Width
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_account_is_shown_and_its_token_revoked(sample: SampleData, wms: Wms, live_server: LiveServer) -> None:
    facts = dict(wms("whoami").rows)
    assert facts == {
        "user": "alice",
        "server": live_server.url,
        "groups": "lhcb_user",
        "default group": "lhcb_user",
    }
    assert wms("whoami", "--json", "username").json == {"username": "alice"}
    assert wms("logout").out == f"Logged out at {live_server.url}; the token is revoked.\n"
    refused = wms("whoami")
    assert (refused.code, len(refused.err.splitlines())) == (1, 1)
    assert ApiToken.objects.filter(revoked_at=None).count() == 0


def test_submissions_are_listed_and_one_is_shown_with_its_places(sample: SampleData, wms: Wms) -> None:
    submission = make_submission(owner=sample.alice, group=sample.group)
    jobs = [make_job(owner=sample.alice, group=sample.group, submission=submission, job_name="sim") for _ in range(2)]
    make_job(owner=sample.alice, group=sample.group, submission=submission, job_name="sim",
             status=JobStatus.DONE, site=sample.site)  # fmt: skip
    (row,) = wms("submissions").rows
    assert row[0] == str(submission.pk)
    assert row[2:] == ["sim", str(jobs[0].pk), str(jobs[0].pk + 2), "3", "1 Done, 2 Waiting"]
    assert wms("submissions", "--json", "jobs").json == [{"jobs": {"Done": 1, "Waiting": 2}}]
    shown = wms("submissions", submission.pk)
    assert ["LCG.CERN.ch", "Done", "1"] in shown.rows
    assert ["", "Waiting", "2"] in shown.rows
    terminal = wms("submissions", submission.pk, width=100).out.splitlines()
    assert terminal[0].startswith("█")
    assert "1/3" in terminal[0]
    wrong = wms("submissions", "x")
    assert (wrong.code, wrong.err.startswith("wms: ")) == (2, True)


def test_failures_are_grouped(sample: SampleData, wms: Wms) -> None:
    for number in range(3):
        job = make_job(owner=sample.alice, group=sample.group, status=JobStatus.FAILED, site=sample.site)
        Job.objects.filter(pk=job.pk).update(minor_status=f"cannot open /data/{number}", exit_code=2)
    (row,) = wms("failures").rows
    assert row == ["3", "2", "cannot open <path>", "LCG.CERN.ch (3)", str(job.pk)]
    assert wms("failures", "exit:3").out == ""
    assert wms("failures", "exit:3", width=80).out == "No failed job matches.\n"
    assert wms("failures", "--json", "jobs,exit_code").json == [{"jobs": 3, "exit_code": 2}]
    assert "EXAMPLE" in wms("failures", width=80).out


def test_sites_and_queues_are_shown(sample: SampleData, wms: Wms) -> None:
    assert wms("sites").rows == [["LCG.CERN.ch", "active", "1", "1", ""]]
    one = wms("sites", "LCG.CERN.ch").rows
    assert ["site", "LCG.CERN.ch"] in one
    assert one[-1][:3] == ["ce01", "grid", "active"]
    assert one[-1][-1] == "gpu"
    missing = wms("sites", "LCG.CERM.ch")
    assert missing.code == 1
    assert "`wms sites` lists them" in missing.err
    assert wms("sites", "--vo", "nowhere").out == ""

    assert wms("queues", width=80).out == "No job that you may see waits.\n"
    job = make_job(owner=sample.alice, group=sample.group, sites=["LCG.CERN.ch"], tags=["gpu"])
    (queue,) = wms("queues").rows
    assert queue[1:4] == ["alice", "lhcb_user", "1"]
    assert queue[-2:] == ["LCG.CERN.ch", "gpu"]
    assert wms("queues", "--group", "other").out == ""
    assert wms("show", job.pk, "--json", "task_queue").json == {"task_queue": int(queue[0])}


def test_pools_pilots_and_shares_are_shown(sample: SampleData, wms: Wms, wms_of: WmsOf) -> None:
    wms("submit", "--executable", "x")
    assert wms("pools").out == ""
    assert wms("pools", width=80).out == "There is no submit pool.\n"
    pilot = make_pilot(vo=sample.vo, queue=sample.queue)
    assert wms("pilots").out == ""
    (row,) = wms_of(sample.bob)("pilots").rows
    assert row[0] == str(pilot.pk)
    assert row[2:5] == ["LCG.CERN.ch", "ce01", "grid"]
    assert wms_of(sample.bob)("pilots", "--host", "elsewhere").out == ""
    Pilot.objects.update(submitted_at=timezone.now())
    summary = wms_of(sample.bob)("pilots", "--summary").rows
    assert [row[:3] for row in summary] == [["LCG.CERN.ch", "ce01", "1"], ["total", "", "1"]]
    assert wms_of(sample.bob)("pilots", "--summary", "--host", "elsewhere").code == 2
    (share,) = wms("shares").rows
    assert share[:2] == ["lhcb_user", "lhcb"]
    assert share[3] == "100.0%"
    (terms,) = wms("shares", "--terms").rows
    assert terms == ["lhcb_user", share[2], "100.0%", "", "", "1", "1", share[2], "100.0%", "no"]
    assert wms("shares", "nobodys").code == 1
    make_group(name="lhcb_prod", vo=sample.vo)
    assert [row[0] for row in wms_of(sample.bob)("shares").rows] == ["lhcb_prod", "lhcb_user"]
    assert [row[0] for row in wms("shares").rows] == ["lhcb_user"]
    assert "name a group" in wms_of(sample.olga)("shares", width=80).out


def test_fields_of_a_match_test_are_those_of_its_task_queues(sample: SampleData, wms: Wms, wms_of: WmsOf) -> None:
    queue = wms("submit", "--executable", "x", "--json").json["jobs"][0]["task_queue"]
    offer = ("match-test", "--cpu-time-s", "300000", "--vo", "lhcb")
    assert wms_of(sample.bob)(*offer, "--json", "id,jobs").json == [{"id": queue, "jobs": 1}]
    assert "conditions" in wms_of(sample.bob)(*offer, "--json").json


def test_what_was_used_is_summed_up(sample: SampleData, wms: Wms, wms_of: WmsOf) -> None:
    empty = "No job that you may see started or ended in this time.\n"
    assert wms("accounting", width=100).out == empty
    assert wms("accounting").out == ""
    for month in (1, 2):
        make_bucket(
            owner=sample.alice, group=sample.group, begun_at=datetime(2026, month, 10, tzinfo=UTC), width=Width.DAY,
            started=4, done=3, failed=1, cpu_s=1800.0, wall_s=7200.0,
        )  # fmt: skip
    numbers = ["3", "1", "0", "75.0%", "0.5", "2.0", "25.0%"]
    period = ("--since", "2026-01-01", "--until", "2026-02-28")
    assert wms("accounting", "--by", "month,country", *period).rows == [
        [month, "–", "4", *numbers] for month in ("2026-01", "2026-02")
    ]
    lines = wms_of(sample.bob)("accounting", "--vo", "lhcb", *period, width=100).out.splitlines()
    assert lines[0].split() == [
        "GROUP", "STARTED", "DONE", "FAILED", "KILLED", "SUCCESS", "CPU", "HOURS", "CORE", "HOURS", "EFFICIENCY",
    ]  # fmt: skip
    assert lines[2].split() == ["total", "8", "6", "2", "0", "75.0%", "1.0", "4.0", "25.0%"]
    assert lines[3] == "From 2026-01-10 to 2026-02-28, in UTC."
    assert wms("accounting", *period, "--json", "group,core_hours").json == [{"group": "lhcb_user", "core_hours": 4.0}]
    wrong = wms("accounting", "--by", "grup")
    assert wrong.code == 1
    assert "group" in wrong.err
