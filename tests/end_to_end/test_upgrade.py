"""An upgrade to /api/v1/ while a pilot of the version before runs a job (ADR 52).

The agent is the last one that calls addresses without a version, byte for byte as servers handed it out.
"""

import hashlib
import lzma
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pytest_django import Settings

from matching.models import Match
from matching.services.expiry import expire_leases
from resources.domain.enums import SiteTokenPurpose
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent, marker, processes_with
from tests.attacks.web import Web, free_port, web
from tests.clock import pass_time, reset_clock
from tests.end_to_end.test_agent import SampleData
from tests.pace import wait_for
from wms.jobs.models import JobHistory

pytestmark = pytest.mark.django_db(transaction=True)

OLD_AGENT = lzma.decompress((Path(__file__).parent / "agent-before-v1.pyz.xz").read_bytes())
OLD_AGENT_SHA256 = "48948df38fc4be7089bc1f5efcda0ce21f256b275f76764f97fbfcea8207b9f0"
#: Exit code of an agent that the server refuses.
REFUSED = 1
#: It reads its input and runs until the test lets it end.
PAYLOAD = b"""#!/bin/sh
cat in.txt > out.txt
echo begun
while [ ! -e "$1" ]; do sleep 0.1; done
echo ended
"""

Serve = Callable[..., AbstractContextManager[Web]]


@pytest.fixture
def port() -> int:
    """Return the port of the server, which is the same before and after the upgrade."""
    return free_port()


@pytest.fixture
def serve(tmp_path: Path, port: int) -> Serve:
    """Return what runs the server; its arguments are settings."""
    data = tmp_path / "server"
    data.mkdir(mode=0o700)
    sandboxes = str(data / "sandboxes")
    return partial(web, data, workers=1, port=port, WMS_HEARTBEAT_S="1", WMS_SANDBOX_DIR=sandboxes)


@pytest.fixture
def sample(port: int) -> SampleData:
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    queue = factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site), processors=2)
    alice = factories.make_user(username="alice", groups=[group], default_group=group)
    return SampleData(url=f"http://127.0.0.1:{port}", vo=vo, queue=queue, alice=factories.make_token(alice))


@pytest.fixture
def start(sample: SampleData, tmp_path: Path) -> Callable[..., RunningAgent]:
    """Return what starts a pilot."""
    secret = issue_site_token(sample.queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid"]

    def start(name: str, **how: object) -> RunningAgent:
        directory = tmp_path / name
        directory.mkdir()
        shown = ["--show", str(tmp_path / "shown")]
        return RunningAgent(sample.url, directory, *place, *shown, token=secret, **how)  # type: ignore[arg-type]

    return start


@pytest.fixture
def end_file(tmp_path: Path) -> Path:
    """Return the file that ends payloads."""
    shown = tmp_path / "shown"
    shown.mkdir()
    shown.chmod(0o755)
    return shown / f"end-{marker()}"


@pytest.fixture
def real_time() -> Iterator[None]:
    yield
    reset_clock()


def submit(sample: SampleData, end_file: Path) -> int:
    sandboxes = [sample.upload(PAYLOAD, file_name="run.sh"), sample.upload(b"the input\n", file_name="in.txt")]
    return sample.submit(
        executable="run.sh",
        arguments=str(end_file),
        input_sandbox=sandboxes,
        output_sandbox=["out.txt"],
        cpu_time_s=500,
    )


def wait_until_it_runs(sample: SampleData, job_id: int) -> None:
    sample.wait_until(job_id, lambda _: "begun" in sample.ask(f"/api/v1/jobs/{job_id}/peek/")["std_output"])


def test_the_old_agent_is_the_one_that_servers_handed_out() -> None:
    assert hashlib.sha256(OLD_AGENT).hexdigest() == OLD_AGENT_SHA256
    assert b'"/api/matches/"' in OLD_AGENT
    assert b"/api/v1/" not in OLD_AGENT


def test_an_old_pilot_completes_its_job_across_an_upgrade(
    sample: SampleData, serve: Serve, start: Callable[..., RunningAgent], end_file: Path
) -> None:
    with serve():
        job_id = submit(sample, end_file)
        agent = start("old", zipapp=OLD_AGENT)
        wait_until_it_runs(sample, job_id)
        last = sample.ask(f"/api/v1/jobs/{job_id}/")["heartbeat_at"]
    with agent, serve():
        # Of the payload that has run all the time, while no server answered.
        sample.wait_until(job_id, lambda job: job["heartbeat_at"] > last)
        end_file.touch()
        assert agent.wait() == 0, agent.log
        job = sample.ask(f"/api/v1/jobs/{job_id}/")
        assert (job["status"], job["minor_status"]) == ("Done", "Execution complete"), agent.log
        output = sample.output(job_id)
    assert output["std.out"] == "begun\nended\n"
    assert output["out.txt"] == "the input\n"
    assert Match.objects.get().job_id == job_id
    assert not JobHistory.objects.filter(job=job_id, status="Stalled").exists()


def test_an_old_pilot_ends_without_the_old_addresses_and_a_new_one_runs_its_job(
    sample: SampleData,
    serve: Serve,
    start: Callable[..., RunningAgent],
    end_file: Path,
    settings: Settings,
    real_time: None,
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0
    with serve():
        job_id = submit(sample, end_file)
        agent = start("old", zipapp=OLD_AGENT)
        wait_until_it_runs(sample, job_id)
    with serve(WMS_OLD_AGENT_ADDRESSES="false"):
        with agent:
            assert agent.wait() == REFUSED, agent.log
        reason = "refused by the server: 404 not_found: This address has moved: send the request to /api/v1/"
        assert f'pilot.leaving reason="{reason}' in agent.log
        wait_for(lambda: processes_with(str(end_file)) == [], 30)
        assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Running"
        pass_time(hours=1)
        assert expire_leases() == 1
        reset_clock()
        assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Waiting"
        end_file.touch()
        with start("new", packed=True) as successor:
            assert successor.wait() == 0, successor.log
        assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Done", successor.log
        assert sample.output(job_id)["out.txt"] == "the input\n"
    assert Match.objects.filter(job=job_id).count() == 2
