"""POST /api/v1/matches/ and the work on a lease, over HTTP."""

import gzip
import io
import tarfile
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from rest_framework.test import APIClient

from matching.models import Match
from matching.services import job_tokens
from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from resources.domain.enums import SiteTokenPurpose
from resources.services.site_tokens import issue_site_token
from taskqueues.models import QueuedJob
from tests import factories
from tests.api.matching.conftest import SampleData, bearer, lease_for, offer
from wms.accounts.models import User
from wms.jobs.models import InputSandbox, Job
from wms.jobs.services import sandboxes

Clients = Callable[[User | Pilot], APIClient]


def output_archive() -> SimpleUploadedFile:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        entry = tarfile.TarInfo("std.out")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"hi"))
    return SimpleUploadedFile("out.tar.gz", packed.getvalue())


def test_a_lease_carries_the_whole_description(sample: SampleData, pilot: APIClient) -> None:
    job = factories.make_job(
        owner=sample.alice, group=sample.prod, arguments="1 2", memory_mb=1000, environment={"A": "b"}, tags=["x"]
    )
    lease = lease_for(pilot, tags=["x"])
    assert set(lease) == {"match_id", "expires_at", "token", "job"}
    assert UUID(lease["match_id"]) == Match.objects.get().pk
    assert datetime.fromisoformat(lease["expires_at"]) == Match.objects.get().expires_at
    wanted = lease["job"]
    assert (wanted["id"], wanted["owner"], wanted["group"]) == (job.pk, "alice", "lhcb_prod")
    assert (wanted["executable"], wanted["arguments"], wanted["environment"]) == ("run.sh", "1 2", {"A": "b"})


def test_an_empty_match_is_answered_204_with_retry_after(pilot: APIClient) -> None:
    answer = pilot.post("/api/v1/matches/", offer(), format="json")
    assert (answer.status_code, answer.content) == (204, b"")
    assert int(answer["Retry-After"]) > 0


def test_a_pilot_without_a_queue_gets_the_reasons_for_excluded_jobs(sample: SampleData, client_of: Clients) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod, sites=["LCG.RAL.uk"])
    by_hand = client_of(factories.make_pilot(vo=sample.vo))
    answer = by_hand.post("/api/v1/matches/", offer(site="LCG.CERN.ch"), format="json")
    assert answer.status_code == 204
    assert answer["X-WMS-Why"] == (
        "The queue of this pilot is not known, and the pilot gets only jobs that fit each queue at which it may "
        "be. Name site, ce and queue in the offer."
    )
    answer = by_hand.post("/api/v1/matches/", offer(site="LCG.CERN.ch", ce="ce01.cern.ch", queue="grid"), format="json")
    assert (answer.status_code, "X-WMS-Why" in answer) == (204, False)


def test_a_forged_offer_gets_no_additional_jobs(sample: SampleData, client_of: Clients) -> None:
    """A pilot made for a site names another site, CE or queue, or pools that nobody there belongs to."""
    away = factories.make_queue(
        name="away", ce=factories.make_ce(name="far", site=factories.make_site(name="LCG.RAL.uk"))
    )
    factories.make_job(owner=sample.alice, group=sample.prod, sites=["LCG.RAL.uk"])
    factories.make_job(owner=sample.alice, group=sample.prod, submit_pools=["pool"])
    pilot = client_of(factories.make_pilot(vo=sample.vo, site=sample.queue.ce.site))
    for said, status in (
        ({"site": "LCG.RAL.uk"}, 403),
        ({"ce": "far"}, 400),
        ({"queue": away.name}, 400),
        ({"submit_pools": ["pool"]}, 204),
        ({"site": "ANY", "submit_pools": ["pool"]}, 204),
    ):
        assert pilot.post("/api/v1/matches/", offer(**said), format="json").status_code == status
    assert QueuedJob.objects.count() == 2


@pytest.mark.usefixtures("large_slot")
def test_max_jobs_is_answered_with_a_list_also_of_one(sample: SampleData, pilot: APIClient) -> None:
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod)
    assert len(lease_for(pilot, max_jobs=1)["leases"]) == 1
    assert len(lease_for(pilot, max_jobs=5, processors=4)["leases"]) == 1


def test_the_same_request_is_answered_with_the_same_lease(sample: SampleData, pilot: APIClient) -> None:
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod)
    request_id = str(uuid4())
    one, other = (lease_for(pilot, request_id=request_id) for _ in range(2))
    assert (one["match_id"], one["job"]) == (other["match_id"], other["job"])


@pytest.mark.parametrize(
    ("said", "status", "code", "field"),
    [
        ({"site": "LCG.RAL.uk"}, 403, "not_your_queue", None),
        ({"site": "ANY"}, 403, "not_your_queue", None),
        ({"ce": "another"}, 403, "not_your_queue", None),
        ({"queue": "another"}, 403, "not_your_queue", None),
        ({"vo": "cms"}, 403, "not_your_queue", None),
        ({"required_tags": ["x"]}, 400, "bad_offer", "required_tags"),
        ({"setup": "LHCb-Devol"}, 400, "bad_offer", "setup"),
        ({"cpu_time_s": "300000"}, 400, "invalid_input", "cpu_time_s"),
        ({"cpu_time_s": -1}, 400, "invalid_input", "cpu_time_s"),
        ({"cpu_time_s": 2**31}, 400, "invalid_input", "cpu_time_s"),
        ({"cpu_time_s": True}, 400, "invalid_input", "cpu_time_s"),
        ({"cpu_time_s": None}, 400, "invalid_input", "cpu_time_s"),
        ({"request_id": "7"}, 400, "invalid_input", "request_id"),
        ({"processors": 0}, 400, "invalid_input", "processors"),
        ({"memory_mb": -1}, 400, "invalid_input", "memory_mb"),
        ({"wall_time_s": -1}, 400, "invalid_input", "wall_time_s"),
        ({"wall_time_s": None}, 400, "invalid_input", "wall_time_s"),
        ({"wall_time_s": 2**31}, 400, "invalid_input", "wall_time_s"),
        ({"gpus": -1}, 400, "invalid_input", "gpus"),
        ({"gpus": True}, 400, "invalid_input", "gpus"),
        ({"gpus": 0.5}, 400, "invalid_input", "gpus"),
        ({"disk_mb": "1 GB"}, 400, "invalid_input", "disk_mb"),
        ({"container": "docker"}, 400, "invalid_input", "container"),
        ({"container": 1}, 400, "invalid_input", "container"),
        ({"container": None}, 400, "invalid_input", "container"),
        ({"max_jobs": 0}, 400, "invalid_input", "max_jobs"),
        ({"platforms": "x86_64"}, 400, "invalid_input", "platforms"),
        ({"tags": [1]}, 400, "invalid_input", "tags.0"),
        ({"owner": "alice"}, 400, "invalid_input", "owner"),
        ({"proccessors": 1}, 400, "invalid_input", "proccessors"),
    ],
)
def test_a_bad_offer_is_refused_and_claims_nothing(
    sample: SampleData, pilot: APIClient, said: dict[str, Any], status: int, code: str, field: str | None
) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    answer = pilot.post("/api/v1/matches/", offer(**said), format="json")
    assert answer.status_code == status
    body = answer.json()
    assert body["code"] == code
    assert field is None or field in body["errors"]
    assert QueuedJob.objects.count() == 1
    assert not Match.objects.exists()


def test_a_misspelt_field_is_refused_with_the_nearest_field(pilot: APIClient) -> None:
    answer = pilot.post("/api/v1/matches/", offer(proccessors=1), format="json").json()
    assert 'Did you mean "processors"?' in answer["errors"]["proccessors"][0]


def test_a_pilot_that_was_revoked_gets_403(sample: SampleData, pilot: APIClient) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    Pilot.objects.update(revoked_at=timezone.now())
    answer = pilot.post("/api/v1/matches/", offer(), format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "pilot_not_welcome")


def test_the_lease_token_of_a_revoked_pilot_is_refused(sample: SampleData, pilot: APIClient) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    given = lease_for(pilot)
    at, payload = f"/api/v1/matches/{given['match_id']}", bearer(given["token"])
    Pilot.objects.update(revoked_at=timezone.now())
    answers = [
        payload.get(f"{at}/sandboxes/sha256:{'0' * 64}/"),
        payload.post(f"{at}/sandboxes/", {"file": output_archive()}),
        payload.post(f"{at}/heartbeat/", {}, format="json"),
        payload.post(f"{at}/finish/", {"exit_code": 0, "usage": {}}, format="json"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(403, "pilot_revoked")] * 4


def test_a_job_runs_to_its_end_over_http(sample: SampleData, pilot: APIClient) -> None:
    job = factories.make_job(owner=sample.alice, group=sample.prod)
    given = sandboxes.upload(io.BytesIO(b"input"), file_name="in.txt", owner=sample.alice, now=timezone.now())
    InputSandbox.objects.create(job=job, sandbox=given.sandbox, file_name="in.txt")

    lease = lease_for(pilot)
    assert lease["job"]["input_sandboxes"] == [
        {
            "sandbox": sandboxes.reference_of(given.sandbox),
            "file_name": "in.txt",
            "is_archive": False,
            "size_bytes": 5,
        }
    ]
    own = bearer(lease["token"])
    base = f"/api/v1/matches/{lease['match_id']}"
    fetched = own.get(f"{base}/sandboxes/{sandboxes.reference_of(given.sandbox)}/")
    assert b"".join(fetched.streaming_content) == b"input"  # type: ignore[attr-defined]
    rest = {"Range": "bytes=2-", "If-Range": fetched["ETag"]}
    fetched = own.get(f"{base}/sandboxes/{sandboxes.reference_of(given.sandbox)}/", headers=rest)
    assert (fetched.status_code, b"".join(fetched.streaming_content)) == (206, b"put")  # type: ignore[attr-defined]
    assert own.post(f"{base}/status/", {"status": "Running"}, format="json").json()["commands"] == []
    beat = own.post(f"{base}/heartbeat/", {"cpu_s": 1.5, "std_output": "half"}, format="json").json()
    assert datetime.fromisoformat(beat["expires_at"]) > timezone.now() + timedelta(seconds=1700)
    stored = own.post(f"{base}/sandboxes/", {"file": output_archive()}, format="multipart").json()["sandbox"]
    end = {"exit_code": 0, "usage": {"cpu_s": 2, "wall_s": 3}, "output_sandbox": stored}
    assert own.post(f"{base}/finish/", end, format="json").json() == {"status": "Done"}
    assert own.post(f"{base}/finish/", end, format="json").json() == {"status": "Done"}
    job = Job.objects.get()
    assert (job.status, job.cpu_s, job.std_output_tail) == ("Done", 2.0, "half")
    client = bearer(factories.make_token(sample.alice))
    output = client.get(f"/api/v1/jobs/{job.pk}/output/")
    packed = b"".join(output.streaming_content)  # type: ignore[attr-defined]
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as archive:
        assert archive.getnames() == ["std.out"]


def test_a_lease_that_has_ended_is_409_for_every_report(sample: SampleData, pilot: APIClient) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = lease_for(pilot)
    Match.objects.update(ended_at=timezone.now(), end_reason="expired")
    own = bearer(lease["token"])
    before = Job.objects.values().get()
    for report, body in (
        ("status", {"status": "Running"}),
        ("heartbeat", {}),
        ("finish", {"exit_code": 0, "usage": {}}),
    ):
        for client in (own, pilot):
            answer = client.post(f"/api/v1/matches/{lease['match_id']}/{report}/", body, format="json")
            assert (answer.status_code, answer.json()["code"]) == (409, "lease_ended")
    assert Job.objects.values().get() == before


def test_an_output_that_was_not_uploaded_for_the_job_is_refused(sample: SampleData, pilot: APIClient) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = lease_for(pilot)
    foreign = sandboxes.upload(io.BytesIO(b"hers"), file_name="x.txt", owner=sample.bob, now=timezone.now())
    end = {"exit_code": 0, "usage": {}, "output_sandbox": sandboxes.reference_of(foreign.sandbox)}
    answer = pilot.post(f"/api/v1/matches/{lease['match_id']}/finish/", end, format="json")
    assert answer.status_code == 400
    assert "output_sandbox" in answer.json()["errors"]
    assert Job.objects.get().status == "Matched"


@pytest.mark.parametrize(
    ("report", "body"),
    [
        ("status", {}),
        ("status", {"status": "Done"}),
        ("status", {"status": "Running", "minor_status": "x" * 256}),
        ("heartbeat", {"cpu_s": -1}),
        ("heartbeat", {"cpu_s": "1"}),
        ("heartbeat", {"std_output": "x" * 16385}),
        ("heartbeat", {"acknowledged": "1"}),
        ("finish", {"usage": {}}),
        ("finish", {"exit_code": 0}),
        ("finish", {"exit_code": "0", "usage": {}}),
        ("finish", {"exit_code": 0, "usage": {"cpu": 1}}),
    ],
)
def test_a_bad_report_is_refused_and_changes_nothing(
    sample: SampleData, pilot: APIClient, report: str, body: dict[str, Any]
) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = lease_for(pilot)
    before = Job.objects.values().get(), Match.objects.values().get()
    answer = pilot.post(f"/api/v1/matches/{lease['match_id']}/{report}/", body, format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"]
    assert (Job.objects.values().get(), Match.objects.values().get()) == before


def test_a_token_about_to_end_is_renewed_by_a_report(sample: SampleData, pilot: APIClient) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = lease_for(pilot)
    path = f"/api/v1/matches/{lease['match_id']}/heartbeat/"
    assert "token" not in pilot.post(path, {}, format="json").json()
    old = issue_pilot_token(sample.pilot, now=timezone.now(), lifetime=timedelta(minutes=20)).token
    new = bearer(old).post(path, {}, format="json").json()["token"]
    assert bearer(new).post(path, {}, format="json").status_code == 200
    match = Match.objects.get()
    old = job_tokens.issue(match.pk, job_id=match.job_id, now=timezone.now() - timedelta(hours=20))
    new = bearer(old).post(path, {}, format="json").json()["token"]
    assert new.startswith("wmsj_")


ROLES = ["job", "pilot", "other_job", "other_pilot", "owner", "manager", "operator", "site", "nobody"]


@pytest.fixture
def as_role(sample: SampleData, client_of: Clients) -> Callable[[str], APIClient]:
    """Return the client of a role; "job" and "pilot" hold the lease of the oldest job."""
    for _ in range(2):
        factories.make_job(owner=sample.alice, group=sample.prod)
    other_pilot = factories.make_pilot(vo=sample.vo)
    lease, other = lease_for(client_of(sample.pilot)), lease_for(client_of(other_pilot))
    site = issue_site_token(sample.queue.ce.site, purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    clients = {
        "job": bearer(lease["token"]),
        "pilot": client_of(sample.pilot),
        "other_job": bearer(other["token"]),
        "other_pilot": client_of(other_pilot),
        "owner": client_of(sample.alice),
        "manager": client_of(sample.mallory),
        "operator": client_of(sample.olga),
        "site": bearer(site),
        "nobody": APIClient(),
    }
    clients["job"].base = f"/api/v1/matches/{lease['match_id']}"  # type: ignore[attr-defined]
    return clients.__getitem__


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("status/", {"status": "Running"}, [200, 200, 404, 404, 403, 403, 403, 403, 401]),
        ("heartbeat/", {}, [200, 200, 404, 404, 403, 403, 403, 403, 401]),
        ("finish/", {"exit_code": 1, "usage": {}}, [200, 200, 404, 404, 403, 403, 403, 403, 401]),
        ("sandboxes/", None, [201, 403, 404, 403, 403, 403, 403, 403, 401]),
    ],
)
def test_access_rights_to_reports_on_a_lease(
    as_role: Callable[[str], APIClient], path: str, body: dict[str, Any] | None, expected: list[int]
) -> None:
    base = as_role("job").base  # type: ignore[attr-defined]

    def state() -> list[object]:
        return [
            list(Job.objects.order_by("pk").values("status")),
            list(Match.objects.order_by("pk").values("ended_at")),
        ]

    # The refused first: what they leave unchanged is what the others find.
    for role, status in sorted(zip(ROLES, expected, strict=True), key=lambda pair: -pair[1]):
        before, client = state(), as_role(role)
        if body is None:
            answer = client.post(f"{base}/{path}", {"file": output_archive()}, format="multipart")
        else:
            answer = client.post(f"{base}/{path}", body, format="json")
        assert answer.status_code == status, role
        assert status < 400 or state() == before


@pytest.mark.parametrize(
    ("role", "status"),
    [
        *[("pilot", 204), ("job", 403), ("owner", 403), ("manager", 403), ("operator", 403), ("site", 403)],
        ("nobody", 401),
    ],
)
def test_access_rights_to_matches(as_role: Callable[[str], APIClient], role: str, status: int) -> None:
    assert as_role(role).post("/api/v1/matches/", offer(), format="json").status_code == status


@pytest.mark.parametrize(
    ("role", "status"),
    [("manager", 200), ("operator", 200), ("owner", 403), ("pilot", 403), ("job", 403), ("site", 403), ("nobody", 401)],
)
def test_access_rights_to_previews(as_role: Callable[[str], APIClient], role: str, status: int) -> None:
    answer = as_role(role).post("/api/v1/matches/preview/", {"cpu_time_s": 5000, "vo": "lhcb"}, format="json")
    assert answer.status_code == status
