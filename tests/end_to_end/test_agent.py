"""Real jobs: submitted over REST, run by the agent as a process against the live server, output downloaded."""

import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.domain.enums import SiteTokenPurpose
from resources.models import Queue
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent, ancestor_below, marker, processes_with
from tests.cases import quick_cases
from tests.pace import Deadline, within
from tests.programs import directory_of_payloads, needed
from wms.accounts.models import VO
from wms.jobs.models import JobHistory


@dataclass(frozen=True, kw_only=True)
class SampleData:
    """Alice's jobs run at one queue of the site."""

    url: str
    vo: VO
    queue: Queue
    alice: str

    def ask(self, path: str, body: object = None, *, content: bytes | None = None, kind: str = "") -> Any:
        """Return the JSON of a request of Alice."""
        headers = {"Authorization": f"Bearer {self.alice}", "Content-Type": kind or "application/json"}
        data = content if content is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=within(30)) as answer:
            received = answer.read()
        return received if received[:2] == b"\x1f\x8b" else json.loads(received)

    def submit(self, **description: object) -> int:
        job_id: int = self.ask("/api/v1/jobs/", {"group": "lhcb_user", **description})["jobs"][0]["id"]
        return job_id

    def upload(self, content: bytes, *, file_name: str) -> str:
        boundary = uuid4().hex
        form = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        form += content + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        sandbox: str = self.ask("/api/v1/sandboxes/", content=form, kind=kind)["sandbox"]
        return sandbox

    def output(self, job_id: int) -> dict[str, str]:
        with tarfile.open(fileobj=io.BytesIO(self.ask(f"/api/v1/jobs/{job_id}/output/"))) as archive:
            return {m.name: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]

    def wait_until(self, job_id: int, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        deadline = Deadline(30)
        while True:
            job: dict[str, Any] = self.ask(f"/api/v1/jobs/{job_id}/")
            if condition(job):
                return job
            assert not deadline.has_passed(), job
            time.sleep(0.05)


@pytest.fixture
def sample(live_server: LiveServer, settings: Settings) -> SampleData:
    settings.WMS_HEARTBEAT_S = 1
    settings.WMS_MATCH_RETRY_AFTER_S = 1
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    queue = factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site), processors=2)
    alice = factories.make_user(username="alice", groups=[group], default_group=group)
    return SampleData(url=live_server.url, vo=vo, queue=queue, alice=factories.make_token(alice))


@pytest.fixture
def start(sample: SampleData, tmp_path: Path) -> Callable[..., RunningAgent]:
    """Return a function that starts a pilot that registers with the site's token."""
    secret = issue_site_token(sample.queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid", "--stamp", "s1"]

    def start(*options: str) -> RunningAgent:
        return RunningAgent(sample.url, tmp_path, *place, *options, token=secret, packed=True)

    return start


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", quick_cases(["registered", "made by hand"], quick=1))
def test_an_agent_with_a_setup_runs_jobs_of_that_setup(
    sample: SampleData, start: Callable[..., RunningAgent], tmp_path: Path, kind: str
) -> None:
    VO.objects.update(setups=["Production", "Certification"])
    default, second = (
        sample.submit(executable="/bin/echo", cpu_time_s=500, setup=setup) for setup in ("Production", "Certification")
    )
    options = ("--setup", "Certification", "--max-jobs", "1")
    token = factories.make_pilot_token(factories.make_pilot(vo=sample.vo)) if kind == "made by hand" else ""
    with RunningAgent(sample.url, tmp_path, *options, token=token, packed=True) if token else start(*options) as agent:
        assert agent.wait() == 0, agent.log
    assert sample.ask(f"/api/v1/jobs/{second}/")["status"] == "Done"
    assert sample.ask(f"/api/v1/jobs/{default}/")["status"] == "Waiting"
    assert Pilot.objects.get().setup == ("Certification" if kind == "registered" else "")


@pytest.mark.django_db(transaction=True)
def test_a_site_without_a_batch_system_starts_a_pilot_by_one_line(
    sample: SampleData, settings: Settings, tmp_path: Path
) -> None:
    needed("curl")
    settings.WMS_SERVER_URL = sample.url
    secret = issue_site_token(sample.queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(UTC))
    (tmp_path / "token").write_text(f"{secret}\n")
    (tmp_path / "token").chmod(0o600)
    job_id = sample.submit(executable="/bin/echo", arguments="from a vacuum", cpu_time_s=500)
    line = (
        f"curl -s {sample.url}/api/v1/pilots/pilot.sh | sh -s -- --vo lhcb --site LCG.CERN.ch --ce ce01 --queue grid"
        " --token-file token --max-jobs 1"
    )

    ended = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=within(60),
        check=False,
    )

    assert ended.returncode == 0, ended.stdout
    assert sample.output(job_id)["std.out"] == "from a vacuum\n"
    pilot = Pilot.objects.get()
    assert (pilot.status, pilot.pilot_type, pilot.queue) == (PilotStatus.DONE, "generic", sample.queue)
    assert pilot.node["speed"] > 0
    assert {path.name for path in tmp_path.iterdir()} == {"token"}


@pytest.mark.django_db(transaction=True)
def test_jobs_of_dirac_jobexec_run_the_steps_of_their_file(
    sample: SampleData, start: Callable[..., RunningAgent], tmp_path: Path
) -> None:
    described = Path(__file__).parents[1] / "unit" / "jobs" / "workflows"

    def submitted(name: str, **files: str) -> list[int]:
        """Submit a JDL as a user of DIRAC does, in a directory with its files."""
        directory = tmp_path / name
        directory.mkdir()
        shutil.copy(described / f"{name}.jdl", directory)
        shutil.copy(described / f"{name}.xml", directory / "jobDescription.xml")
        for file_name, text in files.items():
            (directory / file_name).write_text(text)
        environment = {**os.environ, "WMS_SERVER_URL": sample.url, "WMS_TOKEN": sample.alice}
        command = [sys.executable, "-m", "wms.client", "submit", str(directory / f"{name}.jdl")]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=within(60), check=False)
        assert ran.returncode == 0, ran.stderr
        return [int(line) for line in ran.stdout.split()]

    scan = (
        "#!/usr/bin/env python3\nimport os, sys\n"
        "print(sys.argv[1:], os.environ['MODE'], os.environ['NOTE'])\nprint('scanned', file=sys.stderr)\n"
    )
    (one,) = submitted("one_step")
    good, failing = submitted("three_steps", **{"scan.py": scan, "cuts.json": "{}", "two words.txt": "2\n"})

    with start() as agent:
        assert agent.wait() == 0, agent.log

    output = sample.output(one)
    assert (output["std.out"], output["std.err"]) == ("hello two words\n", "")
    assert "hello two words\n" in output["Script1_CodeOutput.log"]

    assert sample.ask(f"/api/v1/jobs/{good}/")["status"] == "Done"
    output = sample.output(good)
    assert set(output) == {"before.log", "Script2_scan.py.log", "after.log", "std.out", "std.err"}
    assert "two words.txt\n" in output["before.log"]
    assert "['cuts.json', 'two words.txt'] fast two words\n" in output["Script2_scan.py.log"]
    assert "scanned\n" in output["Script2_scan.py.log"]
    assert output["std.err"] == "scanned\n"
    assert output["std.out"].splitlines()[-1].isdecimal()

    # The first step fails, and the others run all the same.
    failed = sample.ask(f"/api/v1/jobs/{failing}/")
    assert (failed["status"], failed["minor_status"]) == ("Failed", "Exited with code 2")
    output = sample.output(failing)
    assert "Step 1 (ls) failed with exit code 2.\n" in output["std.err"]
    assert "['missing.json', 'two words.txt'] fast two words\n" in output["Script2_scan.py.log"]
    assert output["std.out"].splitlines()[-1].isdecimal()


@pytest.mark.django_db(transaction=True)
def test_jobs_of_many_kinds_run_to_their_ends(
    sample: SampleData, start: Callable[..., RunningAgent], settings: Settings
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0  # one of them is to be tried until it has failed
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in {"lib/a.txt": "from the archive\n", "b.txt": "beside it\n"}.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    sandboxes = [
        sample.upload(packed.getvalue(), file_name="input.tar.gz"),
        sample.upload(b"#!/bin/sh\ncat lib/a.txt b.txt\necho kept > $1\n", file_name="run.sh"),
    ]
    good = sample.submit(
        executable="run.sh",
        arguments="'result 1.txt'",
        input_sandbox=sandboxes,
        output_sandbox=["result*"],
        processors=2,
        job_name="good",
    )
    failing = sample.submit(executable="/bin/sh", arguments="-c 'echo sorry >&2; exit 3'")
    elsewhere = sample.submit(executable="true", software=["/cvmfs/lhcb.cern.ch/no-such-release"])

    with start() as agent:
        assert agent.wait() == 0, agent.log

    done = sample.ask(f"/api/v1/jobs/{good}/")
    assert done["status"] == "Done"
    assert sample.output(good) == {"result 1.txt": "kept\n", "std.err": "", "std.out": "from the archive\nbeside it\n"}
    failed = sample.ask(f"/api/v1/jobs/{failing}/")
    assert (failed["status"], failed["minor_status"]) == ("Failed", "Exited with code 3")
    assert sample.output(failing)["std.err"] == "sorry\n"
    assert sample.ask(f"/api/v1/jobs/{failing}/peek/")["std_error"] == "sorry\n"
    given_up = sample.ask(f"/api/v1/jobs/{elsewhere}/")
    assert given_up["status"] == "Failed"
    minors = JobHistory.objects.filter(job=elsewhere).values_list("minor_status", flat=True)
    assert "Software is missing on the node: /cvmfs/lhcb.cern.ch/no-such-release" in set(minors)
    statuses = list(JobHistory.objects.filter(job=good).order_by("pk").values_list("status", flat=True))
    assert statuses[-4:] == ["Matched", "Running", "Completing", "Done"]
    pilot = Pilot.objects.get()
    assert (pilot.status, pilot.status_reason, pilot.stamp) == (PilotStatus.DONE, "no job for me", "s1")
    assert pilot.node["ok"] is True
    assert pilot.matched_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_running_job_shows_its_output_and_can_be_killed(
    sample: SampleData, start: Callable[..., RunningAgent]
) -> None:
    mark = marker()
    job_id = sample.submit(executable="/bin/sh", arguments=f"-c 'echo begun; sleep {mark}; echo never'")

    with start() as agent:
        sample.wait_until(job_id, lambda _: "begun" in json.dumps(sample.ask(f"/api/v1/jobs/{job_id}/peek/")))
        assert processes_with(mark)
        sample.ask(f"/api/v1/jobs/{job_id}/kill/", {})
        assert agent.wait() == 0, agent.log

    assert processes_with(mark) == []
    assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Killed"
    assert sample.output(job_id)["std.out"] == "begun\n"


@pytest.mark.django_db(transaction=True)
def test_a_pilot_that_is_stopped_gives_its_job_back_to_the_queue(
    sample: SampleData, start: Callable[..., RunningAgent]
) -> None:
    job_id = sample.submit(executable="sleep", arguments="987654")

    with start() as agent:
        sample.wait_until(job_id, lambda job: job["status"] == "Running")
        agent.stop()
        assert agent.wait() == 0, agent.log

    job = sample.ask(f"/api/v1/jobs/{job_id}/")
    assert job["status"] == "Waiting"
    assert job["task_queue"] is not None
    assert Pilot.objects.get().status_reason == "stopped by SIGTERM"


@pytest.mark.django_db(transaction=True)
def test_a_pilot_made_by_hand_serves_its_vo(sample: SampleData, tmp_path: Path) -> None:
    job_id = sample.submit(executable="true")
    token = factories.make_pilot_token(factories.make_pilot(vo=sample.vo))

    with RunningAgent(sample.url, tmp_path, token=token) as agent:
        assert agent.wait() == 0, agent.log

    assert sample.ask(f"/api/v1/jobs/{job_id}/")["status"] == "Done"


@pytest.mark.django_db(transaction=True)
def test_jobs_run_where_the_slot_meets_their_requirements(sample: SampleData) -> None:
    with directory_of_payloads() as directory:
        _jobs_run_where_the_slot_has_what_they_ask_for(sample, directory)


def _jobs_run_where_the_slot_has_what_they_ask_for(sample: SampleData, tmp_path: Path) -> None:
    Queue.objects.filter(pk=sample.queue.pk).update(wall_time_s=3600, gpus=1, disk_mb=1000, container=True)
    asked = {"gpus": 1, "disk_mb": 900, "container": "docker://alpine", "cpu_time_s": 500}
    shown = '"$IMAGE $CUDA_VISIBLE_DEVICES"'
    fitting = sample.submit(executable="/bin/sh", arguments=f"-c 'echo {shown}'", wall_time_s=1800, **asked)
    too_long = sample.submit(executable="sleep", arguments="987652", wall_time_s=1, cpu_time_s=500)
    waiting = [
        sample.submit(executable="true", cpu_time_s=500, **more)
        for more in ({"gpus": 2}, {"disk_mb": 1001}, {"wall_time_s": 3601}, {"container": "a.sif", "memory_mb": 9000})
    ]
    (tmp_path / "bin").mkdir()
    runtime = tmp_path / "bin" / "apptainer"
    # As if it had made the container: what follows the image is run.
    runtime.write_text(
        '#!/bin/sh\n[ "$1" != --version ] || exit 0\n'
        'while [ "${1#docker:}" = "$1" ]; do shift; done\nIMAGE=$1\nexport IMAGE\nshift\nexec "$@"\n'
    )
    runtime.chmod(0o755)
    node = {"PATH": f"{runtime.parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "3,4"}
    token = factories.make_pilot_token(factories.make_pilot(vo=sample.vo, queue=sample.queue))

    with RunningAgent(sample.url, tmp_path, token=token, environment=node) as agent:
        assert agent.wait() == 0, agent.log

    assert sample.ask(f"/api/v1/jobs/{fitting}/")["status"] == "Done"
    assert sample.output(fitting)["std.out"] == "docker://alpine 3\n"
    stopped = sample.ask(f"/api/v1/jobs/{too_long}/")
    assert stopped["status"] == "Failed"
    assert stopped["minor_status"].startswith("Wall-clock limit exceeded: ")
    assert {sample.ask(f"/api/v1/jobs/{job_id}/")["status"] for job_id in waiting} == {"Waiting"}


@pytest.mark.django_db(transaction=True)
def test_the_last_lines_of_a_job_shorter_than_a_heartbeat_can_be_peeked_at(
    sample: SampleData, start: Callable[..., RunningAgent], settings: Settings
) -> None:
    settings.WMS_HEARTBEAT_S = 30
    job_id = sample.submit(executable="/bin/echo", arguments="Hello, grid")
    with start("--max-jobs", "1"):
        sample.wait_until(job_id, lambda job: job["status"] == "Done")
    assert sample.ask(f"/api/v1/jobs/{job_id}/peek/")["std_output"] == "Hello, grid\n"


@pytest.mark.django_db(transaction=True)
def test_a_pilot_runs_jobs_side_by_side_and_hands_back_the_one_whose_process_dies(
    sample: SampleData, start: Callable[..., RunningAgent], tmp_path: Path, settings: Settings
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0  # it is to run a second time within the test
    met = tmp_path / "met"
    met.mkdir()
    met.chmod(0o777)
    # Each waits for the other. Run for the first time, one then waits for its end.
    meet = f'touch {met}/$WMS_JOB_ID; until [ "$(ls {met} | wc -l)" -ge 2 ]; do sleep 0.05; done'
    once = f"{meet}; [ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; exec sleep {(mark := marker())}; }}"
    dies = sample.submit(executable="/bin/sh", arguments="-c " + shlex.quote(once))
    other = sample.submit(executable="/bin/sh", arguments="-c " + shlex.quote(meet))
    agent = start()
    # The mark stands in the shell's own arguments too: killed before it has noted its first run, it would sleep again.
    sample.wait_until(dies, lambda job: (tmp_path / "again").exists() and processes_with(mark))

    os.kill(ancestor_below(agent.process.pid, processes_with(mark)[0]), signal.SIGKILL)

    assert agent.wait() == 0, agent.log
    assert sample.ask(f"/api/v1/jobs/{other}/")["status"] == "Done"
    assert sample.ask(f"/api/v1/jobs/{dies}/")["status"] == "Done"
    history = [(change["status"], change["minor_status"]) for change in sample.ask(f"/api/v1/jobs/{dies}/history/")]
    assert ("Rescheduled", "The pilot's process for the job was ended by SIGKILL") in history
    assert Pilot.objects.count() == 1
