"""Control characters of terminals, and characters that reverse the direction of text, are shown escaped."""

import json
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler

import pytest
from django.test import Client
from django.urls import reverse

from pilots.models import PilotLog, PilotLogPart
from tests.factories import NOW, make_group, make_job, make_pilot, make_user
from tests.serving import LoopbackServer
from wms.accounts.models import User
from wms.client import main
from wms.client.terminal.text import plain
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.middleware import visible

#: One of each kind: an escape sequence, that of C1, an override, an isolate, marks, the end of a line, backspace, DEL.
STEERING = "\x1b[31m\x9b\u202e\u2066\u200f\u061c\u2028\x08\x7f"
SHOWN = r"\x1b[31m\x9b\u202e\u2066\u200f\u061c\u2028\x08\x7f"


@dataclass(frozen=True, slots=True)
class SampleData:
    user: User
    job: Job


@pytest.fixture
def sample(db: None) -> SampleData:
    group = make_group()
    user = make_user(username="root", groups=[group], staff=True, superuser=True)
    pilot = make_pilot(vo=group.vo)
    job = make_job(
        owner=user,
        group=group,
        status=JobStatus.RUNNING,
        std_output_tail=f"one\n\ttwo {STEERING} três 日本 é\n",
        std_error_tail=f"failed {STEERING}\n",
        pilot_id=pilot.pk,
    )
    # The name, too: a submission accepts none like it.
    Job.objects.filter(pk=job.pk).update(
        application_status=f"at {STEERING}", minor_status="x\u202ey", job_name="abc\u202etxt.exe"
    )
    return SampleData(user, job)


@pytest.fixture
def client(sample: SampleData) -> Client:
    client = Client()
    client.force_login(sample.user)
    return client


def test_the_page_of_a_job_escapes_control_characters(sample: SampleData, client: Client) -> None:
    page = client.get(reverse("portal:job", args=[sample.job.pk]))
    text = unescape(page.content.decode())
    assert not set(text) & set(STEERING) - set("[31m")
    assert f"one\n\ttwo {SHOWN} três 日本 é" in text
    assert rf"at {SHOWN}" in text
    assert r"abc\u202etxt.exe" in text
    assert int(page["Content-Length"]) == len(page.content)


@pytest.mark.parametrize("page", ["admin:jobs_job_changelist", "portal:jobs"])
def test_lists_escape_control_characters(sample: SampleData, client: Client, page: str) -> None:
    text = unescape(client.get(reverse(page)).content.decode())
    assert "\u202e" not in text
    assert r"x\u202ey" in text or r"abc\u202etxt.exe" in text


def test_admin_pages_escape_control_characters(sample: SampleData, client: Client) -> None:
    text = unescape(client.get(reverse("admin:jobs_job_change", args=[sample.job.pk])).content.decode())
    assert not set(text) & set(STEERING) - set("[31m")
    assert r"\x1b[31m" in text


def test_the_log_of_a_pilot_escapes_control_characters(sample: SampleData, client: Client) -> None:
    assert sample.job.pilot_id is not None
    text = f"line {STEERING}\n"
    log = PilotLog.objects.create(pilot_id=sample.job.pilot_id, received=len(text), changed_at=NOW)
    PilotLogPart.objects.create(log=log, offset=0, text=text)
    for page in ("portal:pilot", "portal:pilot-log", "portal:pilot-whole-log"):
        text = unescape(client.get(reverse(page, args=[sample.job.pilot_id])).content.decode())
        assert f"line {SHOWN}" in text
        assert "\x1b" not in text


def test_json_answers_keep_control_characters(sample: SampleData, client: Client) -> None:
    answer = client.get(f"/api/v1/jobs/{sample.job.pk}/peek/")
    assert STEERING in answer.json()["std_output"]
    assert STEERING in answer.json()["std_error"]


def test_ordinary_texts_are_not_escaped() -> None:
    text = "é 日本 ‚quotes‘ – … \u200d🧑\u200d💻 שלום مرحبا\n\t\r".encode()
    assert visible(text) == text


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses every request, in a sentence with control characters."""

    def do_GET(self) -> None:
        body = json.dumps({"code": "no", "detail": f"no {STEERING}"}).encode()
        self.send_response(404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


def test_the_command_line_escapes_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert plain(STEERING) == SHOWN
    with LoopbackServer(Refusing) as server:
        monkeypatch.setenv("WMS_SERVER_URL", server.url)
        monkeypatch.setenv("WMS_TOKEN", "wmsu_x")
        assert main.main(["explain", "1"]) == 1
    assert capsys.readouterr().err == f"wms: no {SHOWN}\n"
