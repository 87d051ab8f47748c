"""Names are stored and compared in Unicode's NFC, so that all spellings of an accent are one name (ADR 31)."""

from unicodedata import normalize

import pytest
from rest_framework.test import APIClient

from resources.models import Queue, RequirementDefinition, Site
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests import factories
from tests.cases import quick_cases
from tests.factories import NOW, make_token
from wms.accounts.models import VO, User
from wms.configuration.configure import configure
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db

WORD = "Rechenzentrum-Süd"
NFC, NFD = normalize("NFC", WORD), normalize("NFD", WORD)
assert NFC != NFD


def file_of(word: str) -> bytes:
    return f"""
vos: [{{name: lhcb, setup: "{word}"}}]
groups: [{{name: lhcb_user, vo: lhcb}}]
users: [{{username: "jos{word}", groups: [lhcb_user]}}]
limits: [{{scope: {{job_type: "{word}"}}, running: 5}}]
directors: [{{name: d, job_types: ["{word}"]}}]
sites:
- name: A
  parameters: {{"{word}": "{word}"}}
  vo_parameters: {{lhcb: {{"Ä{word}": ["{word}", x]}}}}
  ces: [{{name: c, type: local, queues: [{{name: q, cpu_time_s: 300000, tags: ["{word}"], job_types: ["{word}"]}}]}}]
""".encode()


def client() -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(User.objects.get())}")
    return client


def test_a_file_is_stored_in_nfc_and_its_decomposed_form_changes_nothing() -> None:
    configure(file_of(NFD), environ={}, now=NOW)
    queue, site = Queue.objects.get(), Site.objects.get()
    assert (queue.tags, queue.job_types, Limit.objects.get().job_type) == ([NFC], [NFC], NFC)
    assert (site.parameters, site.vo_parameters) == ({NFC: NFC}, {"lhcb": {f"Ä{NFC}": [NFC, "x"]}})
    assert (VO.objects.get().setup, User.objects.get().username) == (NFC, f"jos{NFC}")
    assert configure(file_of(NFC), environ={}, now=NOW).differences == ()


@pytest.mark.parametrize("configured", [NFC, NFD])
@pytest.mark.parametrize("asked", [NFC, NFD])
@pytest.mark.parametrize("form", quick_cases(["json", "jdl", "cfg"], quick=1))
def test_a_job_fits_a_queue_in_either_unicode_form(configured: str, asked: str, form: str) -> None:
    configure(file_of(configured), environ={}, now=NOW)
    bodies: dict[str, object] = {
        "json": {
            "executable": f"/opt/{asked}", "setup": asked, "tags": [asked], "job_type": asked,
            "requirements": {asked.upper(): [asked, "other"]},
        },
        "jdl": {
            "jdl": f'Executable = "/opt/{asked}"; Setup = "{asked}"; Tag = "{asked}"; JobType = "{asked}";'
            f'Arguments = "{asked}";'
        },
        "cfg": {
            "cfg": f"Executable = /opt/{asked}\nSetup = {asked}\nTag = {asked}\nJobType = {asked}\n"
            f"Requirements\n{{\n  {asked.upper()} = {asked}, other\n}}"
        },
    }  # fmt: skip
    answer = client().post("/api/v1/jobs/", bodies[form], format="json")
    assert (answer.status_code, answer.json()["warnings"]) == (201, [])
    task_queue, description = TaskQueue.objects.get(), Job.objects.get().description
    assert (task_queue.tags, task_queue.job_type, task_queue.setup) == ([NFC], NFC, NFC)
    assert all(pool.queues.count() == 1 for pool in SubmitPool.objects.all())
    # What the payload is given stays byte by byte.
    assert description["executable"] == f"/opt/{asked}"
    found = client().get("/api/v1/jobs/", {"job_type": NFD}).json()["results"]
    assert len(found) == 1
    eligible = client().get("/api/v1/submit-pools/eligible/", {"requirements": f'{{"{asked}": "{asked}"}}'}).json()
    assert eligible["eligible"] == {"A": {"c": ["q"]}}


def test_an_offer_in_the_other_unicode_form_fits() -> None:
    configure(file_of(NFC), environ={}, now=NOW)
    client().post("/api/v1/jobs/", {"executable": "a", "tags": [NFC], "job_type": NFC}, format="json")
    operator = APIClient()
    operator.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(factories.make_user(operator=True))}")
    offer = {"vo": "lhcb", "cpu_time_s": 300000, "tags": [NFD], "job_types": [NFD], "setup": NFD}
    answer = operator.post("/api/v1/matches/preview/", offer, format="json")
    assert [queue["jobs"] for queue in answer.json()["task_queues"]] == [1]


def test_a_definition_is_found_by_either_unicode_form() -> None:
    configure(file_of(NFD), environ={}, now=NOW)
    RequirementDefinition.objects.create(name=NFC, kind="capacity")
    body = {"executable": "a", "requirements": {NFD: "x"}}
    assert "is a capacity" in client().post("/api/v1/jobs/", body, format="json").json()["detail"]
