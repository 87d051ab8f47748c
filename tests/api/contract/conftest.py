"""A system configured by a file, and callers that use only the documented contract."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.problems import MEDIA_TYPE, of_problem

CONFIGURATION = """\
vos: [{name: lhcb, setup: LHCb-Production, setups: [LHCb-Production, LHCb-Devel], managers: [bob]}]
groups:
  - {name: lhcb_user, vo: lhcb, priority: 1000, properties: []}
  - {name: lhcb_prod, vo: lhcb, priority: 3000, properties: [JOB_SHARING]}
users:
  - {username: alice, password: "a", dns: ["/DC=ch/CN=alice"], groups: [lhcb_user, lhcb_prod], default_group: lhcb_user}
  - {username: bob, password: "b", groups: [lhcb_prod]}
  - {username: charlie, password: "c", groups: [lhcb_user]}
requirement_definitions: [{name: Memory, kind: capacity, unit: MB}]
platforms: {x86_64-el9: [x86_64-el9, x86_64-el8]}
storage_elements: [{name: CERN-DST, vos: [lhcb], url: "https://storage.cern.ch/data", credential: "hush"}]
sites:
  - name: LCG.CERN.ch
    vos: [lhcb]
    storage_elements: [CERN-DST]
    parameters: {SoftwareTag: [AppVersion1]}
    tokens: {register: "register-at-CERN"}
    ces:
      - name: ce01.cern.ch
        type: local
        queues:
          - {name: grid, cpu_time_s: 300000, platforms: [x86_64-el9], processors: 2, memory_mb: 4000, tags: [gpu], parameters: {Memory: 4000}}
          - {name: short, cpu_time_s: 5000, processors: 1}
  - name: LCG.RAL.uk
    vos: [lhcb]
    status: {state: banned, reason: "cooling"}
    tokens: {advertise: "advertise-RAL"}
    throttle: {policy: level0, max_submitting_jobs: 5}
"""  # noqa: E501 - a row of the file


@pytest.fixture(scope="session")
def schema() -> Mapping[str, Any]:
    """Return the schema; a warning of its generator fails the test."""
    written = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=written)
    made: Mapping[str, Any] = yaml.safe_load(written.getvalue())
    return made


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a token; it returns answers as they come over the wire."""

    token: str | None = None

    def __call__(self, method: str, address: str, body: object = None, *, status: int, **options: Any) -> Any:
        """Send a request, assert the status of its answer, and return the JSON."""
        client = APIClient()
        if self.token is not None:
            client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.token}")
        form = {"format": "json"} if "format" not in options and body is not None else {}
        answer = getattr(client, method.lower())(f"/api/v1{address}", body, **form, **options)
        assert answer.status_code == status, getattr(answer, "content", b"")
        if answer.headers.get("Content-Type") not in {"application/json", MEDIA_TYPE}:
            return answer
        return answer.json()

    def refused(self, method: str, address: str, body: object = None, *, status: int) -> str:
        """Send a request that is refused with the standard error body; return the error code."""
        answer: dict[str, Any] = self(method, address, body, status=status)
        told, code, detail = of_problem(answer)
        assert told == status
        assert isinstance(detail, str)
        assert detail
        for sentences in answer.get("errors", {}).values():
            assert all(isinstance(sentence, str) for sentence in sentences)
        return code


LogIn = Callable[[str, str], Caller]


@pytest.fixture(scope="module")
def configuration_of_module(rows_of_module: None, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("configured") / "configuration.yaml"
    file.write_text(CONFIGURATION)
    call_command("configure", str(file), verbosity=0)


@pytest.fixture
def configured(configuration_of_module: None, db: None, settings: Settings, tmp_path: Path) -> None:
    kept = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path / "kept")}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": kept}


def logged_in(username: str, password: str) -> Caller:
    answer = Caller()("POST", "/auth/token/", {"username": username, "password": password}, status=201)
    return Caller(answer["token"])


@pytest.fixture
def alice(configured: None) -> Caller:
    """Return the caller Alice, who submits; her default group does not share jobs."""
    return logged_in("alice", "a")


@pytest.fixture
def bob(configured: None) -> Caller:
    """Return the caller Bob, who manages the VO and shares the production group with Alice."""
    return logged_in("bob", "b")


@pytest.fixture
def charlie(configured: None) -> Caller:
    """Return the caller Charlie, who has no rights on Alice's jobs."""
    return logged_in("charlie", "c")


@pytest.fixture
def site(configured: None) -> Caller:
    """Return the token that the configuration file names for registrations."""
    return Caller("register-at-CERN")


@pytest.fixture
def gateway(configured: None) -> Caller:
    """Return the token that the configuration file names for advertisements."""
    return Caller("advertise-RAL")


@pytest.fixture
def pilot(site: Caller) -> Caller:
    """Return a pilot registered at the queue `grid`."""
    place = {"vo": "lhcb", "site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid", "stamp": "s1"}
    return Caller(site("POST", "/pilots/register/", place, status=201)["token"])
