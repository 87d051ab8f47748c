"""/api/v1/replicas/: rights to read and register replicas, and refusals."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from rest_framework.test import APIClient

from resources.models import Replica, ReplicaChange, StorageElement
from tests import factories
from wms.accounts.models import VO, User

pytestmark = pytest.mark.django_db
REPLICAS = "/api/v1/replicas/"
REMOVE = "/api/v1/replicas/remove/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Alice is in the VO, Mallory manages it; Charlie is in another VO, which Mia manages; Olga is an operator."""

    vo: VO
    other: VO
    people: dict[str, User]
    disk: StorageElement
    tape: StorageElement


@pytest.fixture
def sample() -> SampleData:
    vo, other = factories.make_vo(name="lhcb"), factories.make_vo(name="atlas")
    people = {
        "alice": factories.make_user(groups=[factories.make_group(vo=vo)]),
        "mallory": factories.make_user(manages=[vo]),
        "charlie": factories.make_user(groups=[factories.make_group(vo=other)]),
        "mia": factories.make_user(manages=[other]),
        "olga": factories.make_user(operator=True),
    }
    return SampleData(
        vo=vo,
        other=other,
        people=people,
        disk=factories.make_storage_element(name="CERN-disk", credential="hush"),
        tape=factories.make_storage_element(name="CERN-tape"),
    )


@pytest.fixture
def as_(sample: SampleData) -> Callable[[str], APIClient]:
    def as_(name: str) -> APIClient:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(sample.people[name])}")
        return client

    return as_


As = Callable[[str], APIClient]


def one(lfn: str = "/lhcb/a", element: str = "CERN-disk", **more: object) -> dict[str, object]:
    return {"lfn": lfn, "storage_element": element, **more}


@pytest.mark.parametrize(
    ("who", "sees", "registers", "code"),
    [
        ("alice", True, 403, "not_your_files"),
        ("mallory", True, 201, ""),
        ("charlie", False, 400, "invalid_replicas"),
        ("mia", False, 400, "invalid_replicas"),
        ("olga", True, 201, ""),
    ],
)
def test_access_rights_to_replicas(
    sample: SampleData, as_: As, who: str, sees: bool, registers: int, code: str
) -> None:
    factories.make_replica("/lhcb/known", vo=sample.vo, storage_element=sample.disk, size_bytes=7)
    client = as_(who)

    listed = client.get(REPLICAS).json()["results"]
    expected = {
        "vo": "lhcb",
        "lfn": "/lhcb/known",
        "storage_element": "CERN-disk",
        "url": "https://storage.example.org/data/lhcb/known",
        "size_bytes": 7,
        "checksum": "",
    }
    assert listed == ([expected] if sees else [])
    assert client.get(f"{REPLICAS}?lfn=/lhcb/known").json()["results"] == listed

    registered = client.post(REPLICAS, {"vo": "lhcb", "replicas": [one()]}, format="json")
    removed = client.post(REMOVE, {"vo": "lhcb", "replicas": [{"lfn": "/lhcb/known"}]}, format="json")
    assert (registered.status_code, removed.status_code) == (registers, 200 if registers == 201 else registers)
    found = set(Replica.objects.values_list("lfn", flat=True))
    assert found == ({"/lhcb/a"} if registers == 201 else {"/lhcb/known"})
    if code:
        assert registered.json()["code"] == removed.json()["code"] == code


@pytest.mark.parametrize("address", [REPLICAS, REMOVE])
def test_anonymous_requests_are_401_and_machines_403(sample: SampleData, address: str) -> None:
    assert APIClient().post(address, {}, format="json").status_code == 401
    pilot = APIClient()
    pilot.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_pilot_token()}")
    assert pilot.post(address, {}, format="json").status_code == 403
    assert pilot.get(REPLICAS).status_code == 403


def test_repeated_registrations_change_nothing_and_different_ones_replace(sample: SampleData, as_: As) -> None:
    client = as_("mallory")
    both = {"replicas": [one(size_bytes=5), one(element="CERN-tape")]}
    assert client.post(REPLICAS, both, format="json").json() == {"new": 2, "changed": 0}
    assert client.post(REPLICAS, both, format="json").json() == {"new": 0, "changed": 0}
    assert ReplicaChange.objects.count() == 1  # of one file, by the first request only
    other = {"replicas": [one(size_bytes=6, checksum="adler32:00000001")]}
    assert client.post(REPLICAS, other, format="json").json() == {"new": 0, "changed": 1}
    found = client.get(f"{REPLICAS}?storage_element=CERN-disk").json()["results"]
    assert [(row["size_bytes"], row["checksum"]) for row in found] == [(6, "adler32:00000001")]


def test_replicas_are_removed_at_one_storage_element_or_at_all(sample: SampleData, as_: As) -> None:
    client = as_("olga")
    for lfn in ("/lhcb/a", "/lhcb/b"):
        for element in (sample.disk, sample.tape):
            factories.make_replica(lfn, vo=sample.vo, storage_element=element)
    body = {"replicas": [one(), {"lfn": "/lhcb/b"}, one("/lhcb/never-there")]}
    assert client.post(REMOVE, body, format="json").json() == {"removed": 3}
    assert client.post(REMOVE, body, format="json").json() == {"removed": 0}
    assert list(Replica.objects.values_list("lfn", "storage_element__name")) == [("/lhcb/a", "CERN-tape")]


def test_the_same_name_in_two_vos_is_two_files(sample: SampleData, as_: As) -> None:
    as_("mallory").post(REPLICAS, {"replicas": [one("/lhcb/a")]}, format="json")
    as_("mia").post(REPLICAS, {"vo": "atlas", "replicas": [one("/lhcb/a")]}, format="json")
    assert as_("mia").post(REMOVE, {"vo": "atlas", "replicas": [one()]}, format="json").json() == {"removed": 1}
    assert list(Replica.objects.values_list("vo__name", flat=True)) == ["lhcb"]


def test_files_are_found_by_directory_and_in_pages(sample: SampleData, as_: As) -> None:
    for lfn in ("/lhcb/run1/a", "/lhcb/run1/sub/b", "/lhcb/run10/c", "/lhcb/run1_/d"):
        factories.make_replica(lfn, vo=sample.vo, storage_element=sample.disk)
    client = as_("alice")
    page = client.get(f"{REPLICAS}?directory=/lhcb/run1/&page_size=1").json()
    following = client.get(page["next"]).json()
    assert [row["lfn"] for row in page["results"] + following["results"]] == ["/lhcb/run1/a", "/lhcb/run1/sub/b"]
    assert following["next"] is None
    assert client.get(f"{REPLICAS}?directory=/lhcb/run%25").json()["results"] == []


@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ([], "body", "object"),
        ({}, "replicas", "list"),
        ({"replicas": []}, "replicas", "1 to 10000"),
        ({"replicas": [one()] * 10_001}, "replicas", "10001"),
        ({"replicas": [one()], "voo": "lhcb"}, "voo", '"vo"'),
        ({"replicas": [one()], "vo": 5}, "vo", "name of a VO"),
        ({"replicas": [one()], "vo": "lhbc"}, "vo", '"lhcb"'),
        ({"replicas": [one("/lhcb/a"), one("/atlas/a")]}, "vo", "several"),
        ({"replicas": [one("/nobody/a")]}, "vo", '"nobody"'),
        ({"replicas": ["/lhcb/a"]}, "replicas.0", "object"),
        ({"replicas": [one(), one()]}, "replicas.1", "number 0"),
        ({"replicas": [one(), one("LFN:/lhcb/a")]}, "replicas.1", "number 0"),
        ({"replicas": [one(), one("lhcb/a")]}, "replicas.1.lfn", "absolute"),
        ({"replicas": [one("/lhcb/../a")]}, "replicas.0.lfn", ".."),
        ({"replicas": [one("/lhcb//a")]}, "replicas.0.lfn", "empty"),
        ({"replicas": [one("/lhcb/a\n")]}, "replicas.0.lfn", "control"),
        ({"replicas": [one("/" + "x" * 255)]}, "replicas.0.lfn", "255"),
        ({"replicas": [one(5)]}, "replicas.0.lfn", "string"),  # type: ignore[arg-type]
        ({"replicas": [{"lfn": "/lhcb/a"}]}, "replicas.0.storage_element", "string"),
        ({"replicas": [one(element="CERN-disc")]}, "replicas", '"CERN-disk"'),
        ({"replicas": [one(size_bytes=-1)]}, "replicas.0.size_bytes", "0 or more"),
        ({"replicas": [one(size_bytes=True)]}, "replicas.0.size_bytes", "0 or more"),
        ({"replicas": [one(size_bytes=1.5)]}, "replicas.0.size_bytes", "0 or more"),
        ({"replicas": [one(checksum="md5:0")]}, "replicas.0.checksum", "sha256"),
        ({"replicas": [one(checksum=["x"])]}, "replicas.0.checksum", "string"),
        ({"replicas": [one(site="CERN")]}, "replicas.0.site", "lfn, storage_element"),
    ],
)
def test_invalid_replicas_are_reported_by_position_and_nothing_is_written(
    sample: SampleData, as_: As, body: object, field: str, words: str
) -> None:
    answer = as_("mallory").post(REPLICAS, body, format="json")
    assert answer.status_code == 400
    assert words in answer.json()["errors"][field][0]
    assert not Replica.objects.exists()
    assert not ReplicaChange.objects.exists()


def test_a_storage_element_with_replicas_cannot_be_deleted_in_the_admin(sample: SampleData) -> None:
    factories.make_replica("/lhcb/a", vo=sample.vo, storage_element=sample.disk)
    admin = factories.make_user(operator=True, staff=True)
    client = APIClient()
    client.force_login(admin)
    assert client.post(f"/admin/resources/storageelement/{sample.disk.pk}/delete/", {"post": "yes"}).status_code == 403
    action = {"action": "delete_selected", "_selected_action": [sample.disk.pk, sample.tape.pk], "post": "yes"}
    client.post("/admin/resources/storageelement/", action)
    assert StorageElement.objects.filter(pk=sample.disk.pk).exists()
