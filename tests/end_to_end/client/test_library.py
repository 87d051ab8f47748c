"""The Python library against a live server, with jobs that a real agent runs."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from resources.domain.enums import SiteTokenPurpose
from resources.models import Site
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent
from tests.cases import examples
from tests.end_to_end.client.dropping_proxy import Drop, dropping_proxy
from tests.pace import within
from wms.client import Client, ServerRefusedError, StillRunningError, WrongUsageError, retries
from wms.jobs.models import Job, Submission

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(live_server: LiveServer, settings: Settings) -> Iterator[Client]:
    """Yield Alice's; her jobs fit the queue "grid"."""
    settings.WMS_HEARTBEAT_S = 1
    settings.WMS_MATCH_RETRY_AFTER_S = 1
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site), processors=2)
    alice = factories.make_user(username="alice", groups=[group], default_group=group)
    made = Client(live_server.url, factories.make_token(alice))
    yield made
    # A connection that is kept keeps a thread of the server, and its session of the database.
    made.connection.close()


@pytest.fixture
def start(client: Client, tmp_path: Path) -> Callable[[str], RunningAgent]:
    """Return a function that starts a pilot at the queue."""
    secret = issue_site_token(Site.objects.get(), purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid"]

    def start(stamp: str) -> RunningAgent:
        return RunningAgent(client.connection.url, tmp_path, *place, "--stamp", stamp, token=secret, packed=True)

    return start


SCRIPT = """\
#!/bin/sh
cat data.txt > result.txt
[ "$1" != 2 ]
"""


def test_jobs_from_their_submission_to_their_output(
    client: Client, start: Callable[[str], RunningAgent], tmp_path: Path
) -> None:
    (tmp_path / "run.sh").write_text(SCRIPT)
    (tmp_path / "data.txt").write_text("of Alice\n")
    submission = client.submit(
        executable="/bin/sh",
        arguments="run.sh %s",
        input_sandbox=[str(tmp_path / "run.sh"), str(tmp_path / "data.txt")],
        output_sandbox=["result.txt"],
        parameters={"values": ["1", "2"]},
        cpu_time_s=500,
    )
    assert len(submission) == 2
    assert submission.counts() == {"Waiting": 2}
    assert "2 Waiting" in submission._repr_html_()
    with pytest.raises(StillRunningError, match="2 jobs have not ended"):
        submission.wait(timeout_s=0)

    with start("s1"):
        ended = {job.id: job.status for job in submission.as_ended(timeout_s=within(120))}
    assert sorted(ended.values()) == ["Done", "Failed"]
    assert asyncio.run(_awaited(submission)) == {"Done": 1, "Failed": 1}
    (failed,) = submission.failures()
    assert failed.id == submission.job_ids[1]
    assert failed.minor_status in submission._repr_html_()
    assert failed.why()["status"] == "Failed"
    assert [line["status"] for line in failed.history()][-1] == "Failed"

    results = submission.output(tmp_path / "results")
    assert set(results) == set(submission.job_ids)
    assert {(directory / "result.txt").read_text() for directory in results.values()} == {"of Alice\n"}
    assert {path.name for path in (tmp_path / "results").rglob("*") if path.name.startswith(".")} == set()

    assert submission.retry() == (1, [])
    assert failed.refresh().status in {"Waiting", "Matched", "Running", "Completing", "Rescheduled", "Failed"}
    with start("s2"):
        assert submission.wait(timeout_s=within(60)) == {"Done": 1, "Failed": 1}
    assert failed.refresh().record["reschedules"] == 1


async def _awaited(submission: object) -> object:
    return await submission  # type: ignore[misc]


def test_an_earlier_submission_is_found_and_killed(client: Client) -> None:
    submission = client.submit([{"executable": "/bin/true"}, '[Executable = "/bin/false"; JobName = "second";]'])
    again = client.submission(submission.id)
    assert again.job_ids == submission.job_ids
    assert [job.record["job_name"] for job in again.jobs(job_name="sec*")] == ["second"]
    assert [job.id for job in client.jobs(status=["Waiting", "Held"])] == sorted(submission.job_ids, reverse=True)
    assert [reason["job_id"] for reason in client.why(submission.job_ids)] == submission.job_ids
    job = client.job(submission.job_ids[0])
    assert (job.hold("later").status, job.minor_status) == ("Held", "later")
    assert job.release().edit(priority=3).record["description"]["priority"] == 3
    assert submission.kill() == (2, [])
    assert [job.status for job in submission] == ["Killed", "Killed"]
    assert submission.output("unused") == {}
    job.delete()
    assert client.submission(submission.id).counts() == {"Killed": 1, "Deleted": 1}
    assert client.submission(submission.id).job_ids == submission.job_ids


def test_files_of_jdl_and_cfg_are_uploaded(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run.sh", "a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "job.jdl").write_text('[Executable = "run.sh"; InputSandbox = {"run.sh", "a.txt"}; JobName = "a.txt";]')
    (tmp_path / "job.cfg").write_text("Executable = run.sh\nInputSandbox = run.sh, b.txt\n")
    submission = client.submit(
        [Path("job.jdl"), Path("job.cfg"), {"executable": "run.sh", "input_sandbox": ["run.sh"]}]
    )
    names = [client.job(job_id).record["description"]["input_sandbox"] for job_id in submission.job_ids]
    assert [len(each) for each in names] == [2, 2, 1]
    assert {each[0] for each in names} == {client.upload("run.sh")}
    with pytest.raises(WrongUsageError, match=r"There is no file missing\.txt"):
        client.submit(executable="/bin/true", input_sandbox=["missing.txt"])
    with pytest.raises(ServerRefusedError) as refused:
        client.submit(executabel="/bin/true")
    assert "executabel" in str(refused.value.errors)


def test_files_are_relative_to_the_description_that_names_them(client: Client, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    job = {"executable": "run.sh", "input_sandbox": ["run.sh"]}
    (tmp_path / "jobs.json").write_text(json.dumps([job, job]))
    submission = client.submit(tmp_path / "jobs.json")
    names = [client.job(job_id).record["description"]["input_sandbox"] for job_id in submission.job_ids]
    assert names == [[client.upload(tmp_path / "run.sh")]] * 2
    with pytest.raises(WrongUsageError, match="several descriptions"):
        client.submit(tmp_path / "jobs.json", job_name="both")


def test_a_submission_that_is_cancelled_leaves_no_thread(client: Client) -> None:
    submission = client.submit(executable="/bin/true")

    async def cancelled() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_awaited(submission), timeout=within(0.1))

    # Ends only with the thread of the wait.
    asyncio.run(cancelled())


def test_threads_share_a_client(client: Client) -> None:
    with ThreadPoolExecutor(8) as threads:
        submissions = list(threads.map(lambda number: client.submit(executable=f"/bin/{number}"), range(24)))
        names = list(threads.map(lambda each: next(each.jobs()).refresh().record["description"], submissions))
    assert [name["executable"] for name in names] == [f"/bin/{number}" for number in range(24)]


# ---- Lost answers ----------------------------------------------------------------------------------------------------

bytes_before = st.none() | st.integers(min_value=0, max_value=600)
drops = st.builds(Drop, bytes_before, bytes_before)


def test_a_submission_with_lost_answers_exists_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_S", 0.001)
    with dropping_proxy(client.connection.url) as proxy:

        @settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(st.lists(drops, max_size=5))
        def property_of(plan: list[Drop]) -> None:
            proxy.plan(plan)
            through = Client(proxy.url, client.connection.token)
            request_id, before = str(uuid4()), Submission.objects.count()
            submission = through.submit([{"executable": "/bin/true"}] * 3, request_id=request_id)
            assert Submission.objects.count() == before + 1
            jobs = Job.objects.filter(submission_id=submission.id).order_by("pk")
            assert [job.pk for job in jobs] == submission.job_ids
            assert len(jobs) == 3
            through.connection.close()

        property_of()
