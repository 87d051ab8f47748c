"""Names are stored and compared in Unicode's NFC, so that all spellings of an accent are one name (ADR 31)."""

import importlib
from unicodedata import normalize

import pytest
from django.db import connection
from rest_framework.test import APIClient

from resources.models import Queue, RequirementDefinition, Site
from taskqueues.models import Limit, SubmitPool, TaskQueue
from tests import factories
from tests.factories import NOW, make_token
from tests.migrations import before_narrow_jobs
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


def test_a_file_is_stored_composed_and_its_other_spelling_changes_nothing() -> None:
    configure(file_of(NFD), environ={}, now=NOW)
    queue, site = Queue.objects.get(), Site.objects.get()
    assert (queue.tags, queue.job_types, Limit.objects.get().job_type) == ([NFC], [NFC], NFC)
    assert (site.parameters, site.vo_parameters) == ({NFC: NFC}, {"lhcb": {f"Ä{NFC}": [NFC, "x"]}})
    assert (VO.objects.get().setup, User.objects.get().username) == (NFC, f"jos{NFC}")
    assert configure(file_of(NFC), environ={}, now=NOW).differences == ()


@pytest.mark.parametrize("configured", [NFC, NFD])
@pytest.mark.parametrize("asked", [NFC, NFD])
@pytest.mark.parametrize("form", ["json", "jdl", "cfg"])
def test_a_job_meets_a_queue_however_both_are_spelled(configured: str, asked: str, form: str) -> None:
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


def test_an_offer_in_the_other_spelling_fits() -> None:
    configure(file_of(NFC), environ={}, now=NOW)
    client().post("/api/v1/jobs/", {"executable": "a", "tags": [NFC], "job_type": NFC}, format="json")
    operator = APIClient()
    operator.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(factories.make_user(operator=True))}")
    offer = {"vo": "lhcb", "cpu_time_s": 300000, "tags": [NFD], "job_types": [NFD], "setup": NFD}
    answer = operator.post("/api/v1/matches/preview/", offer, format="json")
    assert [queue["jobs"] for queue in answer.json()["task_queues"]] == [1]


def test_a_definition_is_found_by_either_spelling() -> None:
    configure(file_of(NFD), environ={}, now=NOW)
    RequirementDefinition.objects.create(name=NFC, kind="capacity")
    body = {"executable": "a", "requirements": {NFD: "x"}}
    assert "is a capacity" in client().post("/api/v1/jobs/", body, format="json").json()["detail"]


def test_what_was_stored_before_is_composed_by_the_upgrade() -> None:
    vo = factories.make_vo(setup=NFD)
    site = factories.make_site(parameters={NFD: [NFD, 1]}, vo_parameters={vo.name: {NFD: True}})
    queue = factories.make_queue(ce=factories.make_ce(site=site), tags=[NFD, "b"], job_types=[NFD], required_tags=[NFD])
    pool = SubmitPool.objects.create(id="p", vo=vo, requirements={NFD: NFD}, refreshed_at=NOW, last_used_at=NOW)
    Limit.objects.create(job_type=NFD, running=1)
    for name in (
        "wms.accounts.migrations.0004_composed_setups",
        "resources.migrations.0010_composed_names",
        "taskqueues.migrations.0013_composed_names",
        "pilots.migrations.0013_composed_job_types",
    ):
        with connection.cursor() as cursor:
            cursor.execute(importlib.import_module(name).COMPOSE)
    for row in (vo, site, queue, pool):
        row.refresh_from_db()
    assert (vo.setup, site.parameters, site.vo_parameters) == (NFC, {NFC: [NFC, 1]}, {vo.name: {NFC: True}})
    assert (queue.tags, queue.required_tags, queue.job_types) == ([NFC, "b"], [NFC], [NFC])
    assert (pool.requirements, Limit.objects.get().job_type) == ({NFC: NFC}, NFC)


def test_a_job_from_before_the_upgrade_is_put_into_a_queue_again_by_composed_names() -> None:
    configure(file_of(NFC), environ={}, now=NOW)
    body = {"executable": f"/opt/{NFD}", "setup": NFC, "tags": [NFC], "job_type": NFC, "requirements": {NFC: NFC}}
    assert client().post("/api/v1/jobs/", body, format="json").status_code == 201
    job = Job.objects.get()
    names = {"setup": NFD, "tags": [NFD], "job_type": NFD, "requirements": {NFD: NFD}}
    Job.objects.update(job_type=NFD)
    factories.redescribe(job, **names)
    with before_narrow_jobs(), connection.cursor() as cursor:
        cursor.execute(importlib.import_module("wms.jobs.migrations.0011_composed_names").COMPOSE)
    for action in ("hold", "release"):
        answer = client().post(f"/api/v1/jobs/{job.pk}/{action}/")
        assert answer.status_code == 200, answer.content
    (task_queue,) = TaskQueue.objects.filter(queued_jobs__isnull=False).distinct()
    assert (task_queue.tags, task_queue.job_type, task_queue.setup) == ([NFC], NFC, NFC)
    job.refresh_from_db()
    assert (job.job_type, job.description["requirements"], job.description["tags"]) == (NFC, {NFC: NFC}, [NFC])
    assert job.description["executable"] == f"/opt/{NFD}"
