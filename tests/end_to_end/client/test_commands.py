"""The command `wms` as a process, against a live server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from tests import oidc
from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_token, make_user, make_vo
from tests.second_factors import code_of, make_app, wrong_code_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User

WMS = Path(__file__).resolve().parents[3] / "wms" / "client" / "wms"

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_manager_logs_in_explains_a_job_and_previews_an_offer(live_server: LiveServer, tmp_path: Path) -> None:
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


def test_a_user_logs_in_by_a_token_made_in_the_portal(live_server: LiveServer, tmp_path: Path) -> None:
    user = make_user(username="bob", groups=[make_group()])
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def wms(*arguments: str, typed: str = "", code: int = 0) -> Any:
        command = [sys.executable, "-S", str(WMS), *arguments, "--json"]
        ran = subprocess.run(command, env=environment, input=typed, capture_output=True, text=True, check=False)
        assert ran.returncode == code, ran.stderr
        return json.loads(ran.stdout or ran.stderr)

    log_in = ["login", "--server", live_server.url, "--token"]
    assert wms(*log_in, typed="wms_u_wrong\n", code=1)["code"] == "invalid_token"
    assert "No token was given" in wms(*log_in, typed="\n", code=2)["detail"]
    assert wms("whoami", code=1)["code"] == "not_logged_in"
    token = make_token(user, scope=TokenScope.READ)
    assert wms(*log_in, typed=f"{token}\n")["username"] == "bob"
    assert wms("whoami")["username"] == "bob"
    wms("logout")
    assert live_server.url in wms("whoami", code=1)["detail"], "the next log-in is to the same server"
    assert token not in (tmp_path / ".config" / "wms" / "login.json").read_text()
    assert wms(*log_in, typed=f"{token}\n", code=1)["code"] == "invalid_token"


def test_a_user_logs_in_by_the_institutes_account_in_a_browser_elsewhere(
    live_server: LiveServer, tmp_path: Path, settings: Settings
) -> None:
    make_group(name="lhcb_user")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    log_in = [sys.executable, "-S", str(WMS), "login", "--server", live_server.url, "--json", "--oidc"]

    def refused(*arguments: str) -> Any:
        ran = subprocess.run([*log_in, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode != 0
        return json.loads(ran.stderr)

    assert refused()["code"] == "no_provider"
    with oidc.scripted_provider(settings, groups={"wlcg.groups": {"/lhcb": ["lhcb_user"]}}) as provider:
        provider.claims = {"preferred_username": "alice", "wlcg.groups": ["/lhcb"]}
        assert "give one of cern" in refused("desy")["detail"]
        with subprocess.Popen(
            log_in, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stderr is not None
            line = client.stderr.readline()
            assert line.startswith(f"Open {provider.url}/activate in a browser and enter the code ")
            provider.decide(line.split()[-1])
            output, errors = client.communicate()
        assert client.returncode == 0, errors
        assert json.loads(output)["username"] == "alice@cern"
        who = subprocess.run(
            [sys.executable, "-S", str(WMS), "explain", "1", "--json"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert json.loads(who.stderr)["code"] == "not_found"  # not "not_logged_in"

        key = make_app(User.objects.get(username="alice@cern"))
        with subprocess.Popen(
            log_in, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            assert client.stderr is not None
            provider.decide(client.stderr.readline().split()[-1])
            output, errors = client.communicate(f"{wrong_code_of(key)}\n{code_of(key)}\n")
        assert client.returncode == 0, errors
        assert "The code is wrong or was used before." in errors
        assert json.loads(output)["username"] == "alice@cern"
