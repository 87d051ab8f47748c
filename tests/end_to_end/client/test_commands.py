"""The command `wms` as a process, against a live server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django.live_server_helper import LiveServer

from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_user, make_vo

WMS = Path(__file__).resolve().parents[3] / "wms" / "client" / "wms"

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_manager_logs_in_asks_why_a_job_waits_and_what_an_offer_would_get(
    live_server: LiveServer, tmp_path: Path
) -> None:
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo)
    make_user(username="bob", password="secret", manages=[vo])
    make_queue(name="grid", ce=make_ce(name="ce01", site=make_site(name="LCG.CERN.ch", vos=[vo])))
    job = make_job(group=group, processors=2)

    def wms(*arguments: str, typed: str = "", code: int = 0) -> Any:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        command = [sys.executable, "-S", str(WMS), *arguments, "--json"]
        ran = subprocess.run(command, env=environment, input=typed, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout or ran.stderr)

    assert wms("explain", str(job.pk), code=1)["code"] == "not_logged_in"
    assert wms("login", "--server", live_server.url, "--user", "bob", typed="wrong\n", code=1)["code"]
    assert wms("login", "--server", live_server.url, "--user", "bob", typed="secret\n")["username"] == "bob"

    said = wms("explain", str(job.pk))
    assert said["job_id"] == job.pk
    assert said["queues"][0]["reasons"] == ["requires 2 processors; this queue offers 1"]
    assert wms("explain", str(job.pk), "--site", "LCG.CERN.ch")["queues"] == said["queues"]
    assert wms("explain", str(job.pk), "--site", "LCG.CERM.ch", code=1)["code"] == "unknown_place"
    assert wms("explain", "999999", code=1)["code"] == "not_found"

    offer = ["match-test", "--cpu-time-s", "300000", "--site", "LCG.CERN.ch"]
    assert wms(*offer)["task_queues"] == []
    assert [queue["id"] for queue in wms(*offer, "--processors", "2")["task_queues"]] == [said["task_queue"]]
