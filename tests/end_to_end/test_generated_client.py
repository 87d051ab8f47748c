"""A client that a generator makes from the served OpenAPI document runs a job."""

import io
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_django.live_server_helper import LiveServer

from pilots.models import Pilot
from tests import factories
from tests.agent.running import RunningAgent
from tests.pace import within
from wms.wire.protocol import API_V1
from wms.wire.version import __version__

PASSWORD: Final = "correct horse battery staple"
#: Of the generator: it formats nothing, and knows no media types of files.
CONFIGURATION: Final = """\
post_hooks: []
content_type_overrides:
  application/gzip: application/octet-stream
  application/zip: application/octet-stream
  text/x-python: text/plain
  text/x-shellscript: text/plain
"""


@pytest.fixture
def pilot(transactional_db: None) -> Pilot:
    """Return a pilot at a queue where Alice's jobs may run; she has no token yet."""
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    factories.make_user(username="alice", password=PASSWORD, groups=[group], default_group=group)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    queue = factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site), processors=2)
    return factories.make_pilot(vo=vo, queue=queue)


@pytest.fixture
def generated(live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return the name of the package that the generator makes of the document, all of which it understands."""
    document, configuration = tmp_path / "schema.json", tmp_path / "generator.yaml"
    request = urllib.request.Request(f"{live_server.url}{API_V1}schema/", headers={"Accept": "application/json"})
    with urllib.request.urlopen(request, timeout=within(30)) as answer:
        document.write_bytes(answer.read())
    configuration.write_text(CONFIGURATION)
    name = "generated_client"
    made = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", "--meta", "none"),
            *("--path", document, "--config", configuration, "--output-path", tmp_path / name),
        ],
        capture_output=True,
        text=True,
        timeout=within(120),
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in [each for each in sys.modules if each.partition(".")[0] == name]:
        del sys.modules[module]


@pytest.mark.django_db(transaction=True)
def test_a_generated_client_logs_in_and_runs_a_job(
    live_server: LiveServer, pilot: Pilot, generated: str, tmp_path: Path
) -> None:
    client, models = import_module(f"{generated}.client"), import_module(f"{generated}.models")

    def call(operation: str, *arguments: object, to: Any, **more: object) -> Any:
        module = import_module(f"{generated}.api.users.{operation}")
        return module.sync(*arguments, client=to, **more)

    with client.Client(base_url=live_server.url, raise_on_unexpected_status=True) as anybody:
        assert call("version", to=anybody).version == __version__
        wrong = models.TokenInRequest(username="alice", password="guess")
        assert call("auth_token_create", to=anybody, body=wrong).code == "wrong_credentials"
        right = models.TokenInRequest(username="alice", password=PASSWORD)
        token = call("auth_token_create", to=anybody, body=right).token

    options = {"base_url": live_server.url, "raise_on_unexpected_status": True}
    with client.AuthenticatedClient(token=token, **options) as alice:
        assert call("auth_me", to=alice).default_group == "lhcb_user"
        body = models.SubmissionBodyRequest(executable="/bin/echo", arguments="Hello, grid", cpu_time_s=500)
        (submitted,) = call("jobs_submit", to=alice, body=body).jobs
        waiting = call("jobs_get", submitted.id, to=alice)
        assert (waiting.status, waiting.task_queue) == (models.JobStatus.WAITING, submitted.task_queue)
        assert waiting.description["arguments"] == "Hello, grid"

        with RunningAgent(live_server.url, tmp_path, token=factories.make_pilot_token(pilot)) as agent:
            assert agent.wait() == 0, agent.log

        done = call("jobs_get", submitted.id, to=alice)
        assert (done.status, done.exit_code, done.site) == (models.JobStatus.DONE, 0, "LCG.CERN.ch")
        assert [each.id for each in call("jobs_list", to=alice, status="Done").results] == [submitted.id]
        output = call("jobs_output", submitted.id, to=alice).payload
        with tarfile.open(fileobj=io.BytesIO(output.read())) as archive:
            assert archive.extractfile("std.out").read() == b"Hello, grid\n"  # type: ignore[union-attr]

        refusal = call("jobs_kill", submitted.id, to=alice)
        assert (refusal.status, refusal.code) == (HTTPStatus.CONFLICT, "illegal_transition")
        assert refusal.type_.endswith(f"{API_V1}errors/illegal_transition/")
