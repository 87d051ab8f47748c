"""Data of a job in its lease, and registration of output by the pilot."""

from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from resources.models import Replica, ReplicaChange, StorageElement
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData, bearer, offer
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.tasks import reevaluate_input_data


@pytest.fixture
def disk(sample: SampleData) -> StorageElement:
    """Return a storage element of the pilot's site."""
    return factories.make_storage_element(
        name="near", url="https://near.example.org/data/", credential="hush", sites=[sample.queue.ce.site]
    )


def leased(pilot: APIClient, **said: object) -> dict[str, Any]:
    answer = pilot.post("/api/v1/matches/", offer(**said), format="json")
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def make_job(sample: SampleData, **described: Any) -> Job:
    return factories.make_job(owner=sample.alice, group=sample.prod, **described)


def test_a_job_without_data_is_leased(sample: SampleData, pilot: APIClient, disk: StorageElement) -> None:
    make_job(sample)
    assert set(leased(pilot)) == {"match_id", "expires_at", "token", "job"}


def test_files_are_read_at_the_nearest_site_with_only_the_needed_credentials(
    sample: SampleData, pilot: APIClient, disk: StorageElement
) -> None:
    far = factories.make_storage_element(name="afar", url="https://far.example.org", credential="other")
    factories.make_storage_element(name="unused", url="https://no.example.org", credential="never")
    for element in (far, disk):
        factories.make_replica("/lhcb/a b", vo=sample.vo, storage_element=element, size_bytes=5)
    make_job(sample, input_data=["/lhcb/a b", "/lhcb/a b"])

    lease = leased(pilot)

    expected = {"lfn": "/lhcb/a b", "url": "https://near.example.org/data/lhcb/a%20b", "storage_element": "near"}
    assert lease["job_data"] == {
        "input_files": [
            {
                **expected,
                "size_bytes": 5,
                "checksum": "",
                "is_of_sandbox": False,
                "other_copies": [
                    {
                        "url": "https://far.example.org/lhcb/a%20b",
                        "storage_element": "afar",
                        "size_bytes": 5,
                        "checksum": "",
                    }
                ],
            }
        ],
        "destination": None,
        "output": None,
        "credentials": {"afar": "other", "near": "hush"},
    }


def test_files_of_the_input_sandbox_are_part_of_the_data_but_not_input_data(
    sample: SampleData, pilot: APIClient, disk: StorageElement
) -> None:
    for lfn in ("/lhcb/a", "/lhcb/b.tgz"):
        factories.make_replica(lfn, vo=sample.vo, storage_element=disk)
    make_job(sample, input_data=["/lhcb/a"], input_sandbox=["LFN:/lhcb/b.tgz", "LFN:/lhcb/a"])

    files = leased(pilot)["job_data"]["input_files"]

    assert [(file["lfn"], file["is_of_sandbox"]) for file in files] == [("/lhcb/a", False), ("/lhcb/b.tgz", True)]


def test_the_nearest_of_many_replicas_are_returned(sample: SampleData, pilot: APIClient, disk: StorageElement) -> None:
    for number in range(8):
        kind = "file:///disk" if number < 2 else "https://far.example.org"
        far = factories.make_storage_element(name=f"far{number}", url=kind, credential=f"secret{number}")
        factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=far)
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=disk)
    make_job(sample, input_data=["/lhcb/a"])
    data = leased(pilot)["job_data"]
    (file,) = data["input_files"]
    told = [file["storage_element"], *(copy["storage_element"] for copy in file["other_copies"])]
    assert told == ["near", "far2", "far3", "far4", "far5"]
    assert set(data["credentials"]) == set(told)


def test_a_repeated_request_returns_the_same_data(sample: SampleData, pilot: APIClient, disk: StorageElement) -> None:
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=disk)
    make_job(sample, input_data=["/lhcb/a"])
    body = offer()
    first = pilot.post("/api/v1/matches/", body, format="json").json()
    again = pilot.post("/api/v1/matches/", body, format="json").json()
    assert (first["match_id"], first["job_data"]) == (again["match_id"], again["job_data"])


@pytest.mark.usefixtures("large_slot")
def test_several_leases_of_one_request_have_their_own_data(
    sample: SampleData, pilot: APIClient, disk: StorageElement
) -> None:
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=disk)
    with_data, without = make_job(sample, input_data=["/lhcb/a"]), make_job(sample)
    leases = {lease["job"]["id"]: lease for lease in leased(pilot, max_jobs=2, processors=2)["leases"]}
    assert [file["lfn"] for file in leases[with_data.pk]["job_data"]["input_files"]] == ["/lhcb/a"]
    assert "job_data" not in leases[without.pk]


def test_a_pilot_of_unknown_site_reads_remote_replicas(sample: SampleData, client_of: ClientOf) -> None:
    """It is given the job because each site where it may be holds the file."""
    sites = [factories.make_site(vos=[sample.vo]), sample.queue.ce.site]
    for name, url in {"a": "file:///disk", "b": "https://b.example.org", "c": "https://c.example.org"}.items():
        element = factories.make_storage_element(name=name, url=url, sites=sites)
        factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=element)
    make_job(sample, input_data=["/lhcb/a"])
    pilot = client_of(factories.make_pilot(vo=sample.vo))
    (file,) = leased(pilot)["job_data"]["input_files"]
    assert (file["storage_element"], file["url"]) == ("b", "https://b.example.org/lhcb/a")


def test_a_pilot_of_which_only_the_site_is_known_reads_and_writes_there(
    sample: SampleData, client_of: ClientOf, disk: StorageElement
) -> None:
    far = factories.make_storage_element(name="afar", url="https://far.example.org")
    for element in (far, disk):
        factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=element)
    job = make_job(sample, input_data=["/lhcb/a"], output_data=["x"])
    pilot = client_of(factories.make_pilot(vo=sample.vo, site=sample.queue.ce.site))
    data = leased(pilot)["job_data"]
    assert (data["input_files"][0]["storage_element"], data["destination"]["storage_element"]) == ("near", "near")
    job.refresh_from_db()
    assert job.site == sample.queue.ce.site


def test_a_file_without_replicas_has_no_url(sample: SampleData, pilot: APIClient, disk: StorageElement) -> None:
    replica = factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=disk)
    make_job(sample, input_data=["/lhcb/a"])
    replica.delete()
    (file,) = leased(pilot)["job_data"]["input_files"]
    assert (file["lfn"], file["url"], file["storage_element"], file["other_copies"]) == ("/lhcb/a", None, "", [])


@pytest.mark.parametrize(
    ("described", "element", "path"),
    [
        ({}, "near", "/lhcb/user/a/alice/{id}"),
        ({"output_se": "tape"}, "tape", "/lhcb/user/a/alice/{id}"),
        ({"output_path": "/lhcb/lhcb_prod/run1"}, "near", "/lhcb/lhcb_prod/run1"),
        ({"output_path": "myjobs/output"}, "near", "/lhcb/user/a/alice/myjobs/output"),
    ],
)
def test_output_is_stored_at_the_pilot_site_or_at_output_se(
    sample: SampleData, pilot: APIClient, disk: StorageElement, described: dict[str, object], element: str, path: str
) -> None:
    factories.make_storage_element(name="tape")
    job = make_job(sample, output_data=["x"], **described)
    output = leased(pilot)["job_data"]["destination"]
    assert (output["storage_element"], output["path"]) == (element, path.format(id=job.pk))


@pytest.mark.parametrize(
    ("lfn", "own"),
    [
        ("/lhcb/user/a/alice/run7/x", True),
        ("/lhcb/user/b/bob/x", False),
        ("/lhcb/user/a/alice/../../b/bob/x", False),
    ],
)
def test_output_in_the_directory_of_another_user_gets_no_destination(
    sample: SampleData, pilot: APIClient, disk: StorageElement, lfn: str, own: bool
) -> None:
    make_job(sample, output_data=["x"])
    # As stored before such entries were logical names, when nobody asked whose they are.
    job = Job.objects.get()
    factories.redescribe(job, output_data=[f"LFN:{lfn}"])
    lease = leased(pilot)
    assert (lease["job_data"]["destination"] is not None) == own
    body = {"lfn": lfn, "storage_element": "near"}
    answer = bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", body, format="json")
    assert answer.status_code == (201 if own else 400), answer.content
    assert Replica.objects.filter(lfn=lfn).exists() == own


def test_registered_output_marks_the_jobs_that_wait_for_it(
    sample: SampleData, pilot: APIClient, disk: StorageElement
) -> None:
    job = make_job(sample, output_data=["x"])
    lease = leased(pilot)
    body = {
        "lfn": f"{lease['job_data']['output']['path']}/sub/x",
        "storage_element": "near",
        "size_bytes": 3,
        "checksum": "adler32:00000001",
    }
    for _ in range(2):
        answer = bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", body, format="json")
        assert (answer.status_code, answer.json()) == (201, body)
    replica = Replica.objects.get()
    assert (replica.vo, replica.lfn, replica.storage_element, replica.size_bytes) == (job.vo, body["lfn"], disk, 3)
    assert ReplicaChange.objects.count() == 1


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ("adler32:00000001", ["near", "shelf"]),
        ("adler32:00000002", ["near"]),
        ("", ["near"]),
    ],
)
def test_output_that_overwrites_replaces_replicas_of_older_content(
    sample: SampleData, pilot: APIClient, disk: StorageElement, known: str, left: list[str]
) -> None:
    shelf = factories.make_storage_element(name="shelf")
    name = "/lhcb/user/a/alice/run/x"
    for lfn, checksum in ((name, known), ("/lhcb/user/a/alice/run/y", "")):
        factories.make_replica(lfn, vo=sample.vo, storage_element=shelf, checksum=checksum)
    factories.make_replica(name, vo=factories.make_vo(), storage_element=shelf)
    make_job(sample, output_data=["x"], output_path="/lhcb/user/a/alice/run", overwrite=True)
    lease = leased(pilot)
    stored = {"lfn": name, "storage_element": "near", "size_bytes": 3, "checksum": "adler32:00000001"}
    for _ in range(2):
        answer = bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", stored, format="json")
        assert answer.status_code == 201
    of_vo = Replica.objects.filter(vo=sample.vo)
    assert sorted(of_vo.filter(lfn=name).values_list("storage_element__name", flat=True)) == left
    assert of_vo.exclude(lfn=name).count() == Replica.objects.exclude(vo=sample.vo).count() == 1


def test_a_job_waiting_for_output_data_is_evaluated_when_they_are_stored(
    sample: SampleData,
    pilot: APIClient,
    client_of: ClientOf,
    disk: StorageElement,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=factories.make_storage_element(name="shelf"))
    make_job(sample, output_data=["x"], output_path="/lhcb/user/a/alice/run", overwrite=True)
    lease = leased(pilot)
    known = "/lhcb/user/a/alice/run/x"
    factories.make_replica(known, vo=sample.vo, storage_element=StorageElement.objects.get(name="shelf"))
    body = {"executable": "y", "input_data": [known]}
    (waits,) = client_of(sample.alice).post("/api/v1/jobs/", body, format="json").json()["jobs"]
    assert waits["status"] == "Checking"
    said = []
    for name in ("other", "x"):
        stored = {"lfn": f"/lhcb/user/a/alice/run/{name}", "storage_element": "near"}
        with django_capture_on_commit_callbacks() as callbacks:
            bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", stored, format="json")
        said.append(len(callbacks))
    assert said == [0, 1]
    reevaluate_input_data()
    assert Job.objects.get(pk=waits["id"]).status == JobStatus.WAITING


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"lfn": "{path}/cafe\u0301"}, "lfn"),
        ({"lfn": "/lhcb/user/a/alice/other"}, "lfn"),
        ({"lfn": "/lhcb/data/run1"}, "lfn"),
        ({"lfn": "{path}/../x"}, "lfn"),
        ({"lfn": "{path}"}, "lfn"),
        ({"storage_element": "tape"}, "storage_element"),
        ({"storage_element": "nowhere"}, "storage_element"),
        ({"checksum": "crc:1"}, "checksum"),
        ({"size_bytes": -1}, "size_bytes"),
        ({"site": "CERN"}, "site"),
    ],
)
def test_a_pilot_registers_output_of_its_own_job_only(
    sample: SampleData, pilot: APIClient, disk: StorageElement, change: dict[str, Any], field: str
) -> None:
    factories.make_storage_element(name="tape")
    make_job(sample, output_data=["x"])
    lease = leased(pilot)
    path = lease["job_data"]["destination"]["path"]
    change = {name: value.format(path=path) if isinstance(value, str) else value for name, value in change.items()}
    body = {"lfn": f"{path}/x", "storage_element": "near", **change}
    answer = bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", body, format="json")
    assert answer.status_code == 400
    assert field in answer.json()["errors"]
    assert not Replica.objects.exists()


def test_a_job_without_output_data_registers_nothing(
    sample: SampleData, pilot: APIClient, disk: StorageElement
) -> None:
    job = make_job(sample)
    lease = leased(pilot)
    body = {"lfn": f"/lhcb/user/a/alice/{job.pk}/x", "storage_element": "near"}
    answer = bearer(lease["token"]).post(f"/api/v1/matches/{lease['match_id']}/replicas/", body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "not_output_of_job")


@pytest.mark.usefixtures("large_slot")
def test_only_the_token_of_the_open_lease_registers(
    sample: SampleData, pilot: APIClient, client_of: ClientOf, disk: StorageElement
) -> None:
    job = make_job(sample, output_data=["x"])
    lease = leased(pilot)
    address = f"/api/v1/matches/{lease['match_id']}/replicas/"
    body = {"lfn": f"{lease['job_data']['output']['path']}/x", "storage_element": "near"}
    assert APIClient().post(address, body, format="json").status_code == 401
    assert pilot.post(address, body, format="json").status_code == 403
    assert client_of(sample.alice).post(address, body, format="json").status_code == 403
    make_job(sample, output_data=["x"])
    stranger = leased(pilot)
    assert bearer(stranger["token"]).post(address, body, format="json").status_code == 404

    Job.objects.filter(pk=job.pk).update(status=JobStatus.KILLED, ended_at=factories.NOW)
    refused = bearer(lease["token"]).post(address, body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "job_is_over")
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RUNNING, ended_at=None)
    own = bearer(lease["token"])
    own.post(f"/api/v1/matches/{lease['match_id']}/finish/", {"exit_code": 1, "usage": {}}, format="json")
    refused = own.post(address, body, format="json")
    assert (refused.status_code, refused.json()["code"]) == (409, "lease_ended")
    assert not Replica.objects.exists()
