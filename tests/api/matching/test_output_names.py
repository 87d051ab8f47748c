"""Logical names of output: reserved before a file is stored, and written once (ADR 72)."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from rest_framework.test import APIClient

from matching.models import Match
from matching.services import outputs
from resources.models import OutputName, Replica, StorageElement
from resources.services.loading import load
from taskqueues.models import QueuedJob
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData, bearer, offer
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = pytest.mark.usefixtures("large_slot")
NAME = "/lhcb/user/a/alice/same/r.txt"
ONE, TWO = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"


class Lease:
    """The lease of one job, by whose token names are reserved and files registered."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.id, self.job_id, self._client = answer["match_id"], answer["job"]["id"], bearer(answer["token"])
        self.data = answer.get("job_data")

    def reserves(self, lfn: str = NAME, checksum: str = ONE, **more: Any) -> dict[str, Any]:
        (name,) = self.ask(self.file(lfn, checksum, **more)).json()["files"]
        found: dict[str, Any] = name
        return found

    def ask(self, *files: Mapping[str, Any], element: str = "near") -> Any:
        body = {"storage_element": element, "files": files}
        return self._client.post(f"/api/v1/matches/{self.id}/outputs/", body, format="json")

    def place(self) -> Any:
        return self._client.get(f"/api/v1/matches/{self.id}/outputs/")

    def file(self, lfn: str = NAME, checksum: str = ONE, **more: Any) -> dict[str, Any]:
        return {"lfn": lfn, "size_bytes": 3, "checksum": checksum, **more}

    def registers(self, lfn: str = NAME, checksum: str = ONE) -> Any:
        body = {"lfn": lfn, "storage_element": "near", "size_bytes": 3, "checksum": checksum}
        return self._client.post(f"/api/v1/matches/{self.id}/replicas/", body, format="json")

    def stores(self, lfn: str = NAME, checksum: str = ONE) -> str:
        stored_as: str = self.reserves(lfn, checksum)["stored_as"]
        assert self.registers(stored_as, checksum).status_code == 201
        return stored_as

    def ends(self, exit_code: int = 0) -> None:
        body = {"exit_code": exit_code, "usage": {}}
        assert self._client.post(f"/api/v1/matches/{self.id}/finish/", body, format="json").status_code == 200

    @property
    def own(self) -> str:
        return f"/lhcb/user/a/alice/{self.job_id}"


@pytest.fixture(autouse=True)
def near(sample: SampleData) -> StorageElement:
    """Return the storage element of the pilot's site."""
    return factories.make_storage_element(
        name="near", url="https://near.example.org/data/", sites=[sample.queue.ce.site]
    )


@pytest.fixture
def lease(sample: SampleData, pilot: APIClient) -> Any:
    """Return a function that leases a new job, whose output has the name NAME."""

    def lease(**described: Any) -> Lease:
        described = {"output_data": [f"LFN:{NAME}"], **described}
        factories.make_job(owner=sample.alice, group=sample.prod, **described)
        return again()

    def again() -> Lease:
        QueuedJob.objects.update(is_held_back=False, not_before=None, avoided_until=None)
        answer = pilot.post("/api/v1/matches/", offer(), format="json")
        assert answer.status_code == 201, answer.content
        return Lease(answer.json())

    lease.again = again  # type: ignore[attr-defined]
    return lease


def registered() -> dict[str, str]:
    return dict(Replica.objects.values_list("lfn", "checksum"))


# ---- One writer ------------------------------------------------------------------------------------------------------


def test_a_free_name_is_reserved(lease: Any) -> None:
    first = lease()
    name = first.reserves()
    assert (name["lfn"], name["stored_as"], name["reason"]) == (NAME, NAME, "")
    assert name["upload"].startswith("/lhcb/user/a/alice/same/.wms-")
    assert (name["replaces"], name["earlier"], name["leftovers"]) == (False, [], [])
    assert first.reserves() == name
    assert first.registers().status_code == first.registers().status_code == 201


def test_a_lease_makes_a_bounded_number_of_names(lease: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_MOST_NAMES", 3)
    one, other = lease(), lease()
    for number in range(3):
        one.stores(f"{one.own}/{number}")
    for refused in (one.ask(one.file(f"{one.own}/new")), one.registers(f"{one.own}/new")):
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_outputs")
    assert OutputName.objects.count() == 3
    assert one.registers(f"{one.own}/2").status_code == 201, "a repeated registration adds no name"
    assert other.stores(f"{other.own}/0") == f"{other.own}/0"


def test_of_two_jobs_that_store_one_name_at_once_the_second_gets_its_own(lease: Any) -> None:
    first, second = lease(), lease()
    assert first.reserves()["stored_as"] == NAME
    name = second.reserves(checksum=TWO)
    assert name["stored_as"] == f"{second.own}/r.txt"
    assert name["reason"] == f"job {first.job_id} is storing a file of this name"
    assert second.reserves(checksum=TWO) == name
    assert first.registers().status_code == 201
    assert second.registers(name["stored_as"], TWO).status_code == 201
    assert registered() == {NAME: ONE, f"{second.own}/r.txt": TWO}


def test_a_registered_name_is_not_given_to_another_job(lease: Any) -> None:
    first = lease()
    first.stores()
    first.ends()
    second = lease()
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["reason"]) == (f"{second.own}/r.txt", f"it is a file of job {first.job_id}")
    refused = second.registers(checksum=TWO)
    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
    assert registered() == {NAME: ONE}


def test_a_registered_input_is_not_replaced_and_keeps_its_replicas(sample: SampleData, lease: Any) -> None:
    for element in (StorageElement.objects.get(name="near"), factories.make_storage_element(name="shelf")):
        factories.make_replica(NAME, vo=sample.vo, storage_element=element, checksum=ONE)
    second = lease(input_data=[NAME])
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["reason"]) == (f"{second.own}/r.txt", "a file of this name is registered")
    assert second.registers(name["stored_as"], TWO).status_code == 201
    assert Replica.objects.filter(lfn=NAME, checksum=ONE).count() == 2


def test_equal_names_of_two_vos_are_two_names(sample: SampleData, lease: Any) -> None:
    factories.make_replica(NAME, vo=factories.make_vo(), storage_element=StorageElement.objects.get(name="near"))
    assert lease().reserves()["stored_as"] == NAME


def test_files_of_one_base_name_get_different_names(lease: Any) -> None:
    names = [NAME, "/lhcb/user/a/alice/other/r.txt", "/lhcb/user/a/alice/third/r.txt"]
    described = {"output_data": [f"LFN:{name}" for name in names]}
    first = lease(**described)
    for name in names:
        first.stores(name)
    first.ends()
    second = lease(**described)
    answer = second.ask(*(second.file(name, TWO) for name in names)).json()["files"]
    stored = [name["stored_as"] for name in answer]
    assert stored[0] == f"{second.own}/r.txt"
    assert len(set(stored)) == 3
    assert all(name.startswith(f"{second.own}/") for name in stored)
    assert second.ask(*(second.file(name, TWO) for name in names)).json()["files"] == answer


def test_a_job_does_not_replace_its_own_other_file(lease: Any) -> None:
    job = lease(output_data=["LFN:/lhcb/user/a/alice/same/r.txt", "*.txt"])
    own = job.stores(f"{job.own}/r.txt")
    assert own == f"{job.own}/r.txt"
    name = job.reserves(NAME, TWO, exists=True)
    assert name["reason"] == "the storage element has another file of this name"
    assert name["stored_as"].startswith(f"{job.own}/attempt-")
    assert registered() == {own: ONE}


# ---- Later attempts --------------------------------------------------------------------------------------------------


def test_a_later_attempt_replaces_what_its_job_has_registered(lease: Any) -> None:
    first = lease()
    first.stores()
    first.ends(222)
    second = lease.again()
    assert second.job_id == first.job_id
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["replaces"]) == (NAME, True)
    assert second.registers(checksum=TWO).status_code == 201
    assert registered() == {NAME: TWO}


def test_an_attempt_that_ended_before_it_registered_leaves_the_name_and_what_it_stored(lease: Any) -> None:
    first = lease()
    upload = first.reserves()["upload"]
    first.ends(1)
    second = lease()
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["replaces"]) == (NAME, False)
    assert name["earlier"] == [{"size_bytes": 3, "checksum": ONE}]
    assert name["leftovers"] == [upload]
    assert name["upload"] != upload


def test_an_ended_attempt_neither_reserves_nor_registers(lease: Any) -> None:
    first = lease()
    first.reserves()
    Match.objects.update(ended_at=factories.NOW, end_reason="expired")
    assert [first.ask(first.file()).json()["code"], first.registers().json()["code"]] == ["lease_ended"] * 2
    assert registered() == {}


def test_a_killed_job_neither_reserves_nor_registers(lease: Any) -> None:
    first = lease()
    first.reserves()
    Job.objects.update(status=JobStatus.KILLED, ended_at=factories.NOW)
    assert [first.ask(first.file()).json()["code"], first.registers().json()["code"]] == ["job_is_over"] * 2


def test_a_file_of_a_third_content_is_refused(lease: Any) -> None:
    first = lease()
    names = [first.reserves(checksum=f"sha256:{str(turn) * 64}")["stored_as"] for turn in range(3)]
    assert len(set(names)) == 3
    answer = first.ask(first.file(checksum=f"sha256:{'9' * 64}"))
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    assert "another file of the job has this name" in answer.json()["detail"]


def test_a_lease_remembers_what_it_may_have_stored_where_it_found_another_file(lease: Any) -> None:
    first = lease()
    first.reserves()
    first.reserves(exists=True)
    first.ends(222)
    assert lease.again().reserves(checksum=TWO)["earlier"] == [{"size_bytes": 3, "checksum": ONE}]


def test_a_file_that_the_element_has_already_gets_another_name(lease: Any) -> None:
    first = lease()
    first.reserves()
    name = first.reserves(exists=True)
    assert (name["stored_as"], name["earlier"]) == (f"{first.own}/r.txt", [])
    assert OutputName.objects.get(lfn=NAME).match_id is None
    deeper = first.reserves(name["stored_as"], exists=True)
    assert deeper["stored_as"].startswith(f"{first.own}/attempt-")


# ---- Overwrite -------------------------------------------------------------------------------------------------------


def test_overwrite_replaces_files_of_the_owner(lease: Any) -> None:
    first = lease()
    first.stores()
    first.ends()
    second = lease(overwrite=True)
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["replaces"]) == (NAME, True)
    assert second.registers(checksum=TWO).status_code == 201
    assert registered() == {NAME: TWO}
    assert OutputName.objects.get(lfn=NAME).writer_id == second.job_id


def test_an_overwrite_that_fails_leaves_the_file_to_its_job(lease: Any) -> None:
    first = lease()
    first.stores()
    first.ends(222)
    second = lease(overwrite=True)  # either job may come
    other = second if second.job_id != first.job_id else lease.again()
    assert other.reserves(checksum=TWO)["stored_as"] == NAME
    other.ends(1)
    assert registered() == {NAME: ONE}
    assert OutputName.objects.get(lfn=NAME).writer_id == first.job_id


def test_overwrite_replaces_what_a_manager_registered_below_the_owners_home(sample: SampleData, lease: Any) -> None:
    element = StorageElement.objects.get(name="near")
    shared = "/lhcb/lhcb_prod/r.txt"
    for lfn in (NAME, shared):
        factories.make_replica(lfn, vo=sample.vo, storage_element=element, checksum=ONE)
    job = lease(overwrite=True, output_data=[f"LFN:{NAME}", f"LFN:{shared}"])
    mine, others = job.ask(job.file(NAME, TWO), job.file(shared, TWO)).json()["files"]
    assert (mine["stored_as"], mine["replaces"]) == (NAME, True)
    assert (others["stored_as"], others["reason"]) == (f"{job.own}/r.txt", "a file of this name is registered")


def test_a_file_that_is_registered_at_another_element_only_permits_no_replacement_here(
    sample: SampleData, lease: Any
) -> None:
    factories.make_replica(NAME, vo=sample.vo, storage_element=factories.make_storage_element(name="far"), checksum=ONE)
    job = lease(overwrite=True)
    name = job.reserves(checksum=TWO)
    assert (name["stored_as"], name["replaces"]) == (NAME, False)
    assert job.registers(checksum=TWO).status_code == 201
    assert registered() == {NAME: TWO}


def test_overwrite_replaces_no_file_of_another_owner(sample: SampleData, lease: Any) -> None:
    shared = "/lhcb/lhcb_prod/r.txt"
    first = lease(output_data=[f"LFN:{shared}"])
    first.stores(shared)
    first.ends()
    factories.make_job(owner=sample.bob, group=sample.prod, output_data=[f"LFN:{shared}"], overwrite=True)
    name = lease.again().reserves(shared, TWO)
    assert name["reason"] == f"it is a file of job {first.job_id}"


# ---- The catalogue ---------------------------------------------------------------------------------------------------


def test_a_removed_name_is_free(sample: SampleData, lease: Any, client_of: ClientOf) -> None:
    first = lease()
    first.stores()
    first.ends()
    body = {"vo": sample.vo.name, "replicas": [{"lfn": NAME}]}
    answer = client_of(sample.olga).post("/api/v1/replicas/remove/", body, format="json")
    assert answer.status_code == 200, answer.content
    second = lease()
    name = second.reserves(checksum=TWO)
    assert (name["stored_as"], name["earlier"]) == (NAME, [{"size_bytes": 3, "checksum": ONE}])


def test_a_file_that_a_manager_registers_meanwhile_keeps_its_name(sample: SampleData, lease: Any) -> None:
    first = lease()
    first.reserves()
    element = StorageElement.objects.get(name="near")
    factories.make_replica(NAME, vo=sample.vo, storage_element=element, checksum=TWO)
    refused = first.registers()
    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
    assert registered() == {NAME: TWO}
    assert first.reserves(exists=True)["stored_as"] == f"{first.own}/r.txt"


@pytest.fixture
def managers(sample: SampleData, client_of: ClientOf) -> Callable[..., None]:
    """Return a function by which an operator removes or registers a replica of the file."""
    operator = client_of(sample.olga)

    def change(action: str, **replica: Any) -> None:
        body = {"vo": sample.vo.name, "replicas": [{"lfn": NAME, **replica}]}
        answer = operator.post(f"/api/v1/replicas/{action}", body, format="json")
        assert answer.status_code in {200, 201}, answer.content

    return change


def by_api(sample: SampleData, managers: Callable[..., None]) -> None:
    managers("", storage_element="near", checksum=TWO)


def by_load(sample: SampleData, managers: Callable[..., None]) -> None:
    load([f"{NAME},near,5,{TWO}"], vo_name=sample.vo.name)


def by_removal(sample: SampleData, managers: Callable[..., None]) -> None:
    managers("remove/")
    managers("", storage_element="near", checksum=TWO)


@pytest.mark.parametrize("change", [by_api, by_load, by_removal])
def test_a_file_that_a_manager_registers_with_other_content_is_the_managers(
    sample: SampleData, lease: Any, client_of: ClientOf, managers: Any, change: Any
) -> None:
    first = lease()
    first.stores()
    first.ends(222)
    change(sample, managers)
    second = lease.again()
    assert second.reserves()["reason"] == "a file of this name is registered"
    body = {"vo": sample.vo.name, "replicas": [{"lfn": NAME}]}
    assert client_of(sample.alice).post("/api/v1/replicas/remove/", body, format="json").status_code == 403
    assert registered() == {NAME: TWO}


def test_a_copy_that_a_manager_registers_leaves_the_file_to_its_job(
    sample: SampleData, lease: Any, managers: Any
) -> None:
    factories.make_storage_element(name="far")
    first = lease()
    first.stores()
    first.ends(222)
    managers("", storage_element="far", checksum=ONE)
    managers("", storage_element="near", checksum=ONE, size_bytes=3)
    assert lease.again().reserves()["replaces"]


def test_a_file_that_a_manager_replaces_during_the_next_attempt_stays(lease: Any, managers: Any) -> None:
    first = lease()
    first.stores()
    first.ends(222)
    second = lease.again()
    assert second.reserves(checksum=TWO)["replaces"]
    managers("", storage_element="near", checksum=f"sha256:{'3' * 64}")
    assert second.registers(checksum=TWO).json()["code"] == "name_taken"


def test_an_owner_removes_what_his_jobs_have_stored_and_nothing_else(
    sample: SampleData, lease: Any, client_of: ClientOf
) -> None:
    lease().stores()
    other = "/lhcb/user/a/alice/same/by_hand.txt"
    factories.make_replica(other, vo=sample.vo, storage_element=StorageElement.objects.get(name="near"))

    def remove(user: User, *lfns: str) -> int:
        body = {"vo": sample.vo.name, "replicas": [{"lfn": lfn} for lfn in lfns]}
        status: int = client_of(user).post("/api/v1/replicas/remove/", body, format="json").status_code
        return status

    assert [remove(sample.bob, NAME), remove(sample.alice, NAME, other), remove(sample.alice, other)] == [403] * 3
    assert remove(sample.alice, NAME) == 200
    assert set(registered()) == {other}


# ---- Requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"lfn": "/lhcb/user/b/bob/r.txt"}, "lfn"),
        ({"lfn": "/lhcb/user/a/alice/same/../r.txt"}, "lfn"),
        ({"lfn": "relative"}, "lfn"),
        ({"checksum": "md5:1"}, "files"),
        ({"size_bytes": -1}, "files"),
        ({"colour": "red"}, "files"),
    ],
)
def test_only_names_of_the_job_are_reserved(lease: Any, change: Mapping[str, Any], field: str) -> None:
    job = lease()
    answer = job.ask({**job.file(), **change})
    assert answer.status_code == 400
    assert any(name.startswith(field) for name in answer.json()["errors"]), answer.json()
    assert not OutputName.objects.exists()


def test_names_of_uploads_are_not_reserved_and_not_registered(
    sample: SampleData, lease: Any, client_of: ClientOf
) -> None:
    job = lease()
    name = f"{job.own}/.wms-0123-ab"
    for answer in (job.ask(job.file(name)), job.registers(name)):
        assert answer.json()["code"] == "not_output_of_job"
    body = {"replicas": [{"lfn": name, "storage_element": "near"}]}
    assert (
        "free of parts that begin with .wms-"
        in client_of(sample.olga).post("/api/v1/replicas/", body, format="json").json()["detail"]
    )


def test_a_request_names_each_file_once_and_the_element_of_the_lease(lease: Any) -> None:
    job = lease()
    assert job.ask(job.file(), job.file(checksum=TWO)).status_code == 400
    assert job.ask().status_code == 400
    assert job.ask(job.file(), element="tape").json()["code"] == "not_output_of_job"


# ---- Agents of version 0.1.0 -----------------------------------------------------------------------------------------


def test_an_agent_that_reserves_nothing_gets_a_directory_of_its_lease(lease: Any) -> None:
    job = lease(output_data=["*.root"])
    assert job.data["destination"]["path"] == job.own
    path = job.data["output"]["path"]
    assert path.startswith(f"{job.own}/attempt-")
    assert job.registers(f"{path}/x.root").status_code == 201


@pytest.mark.parametrize("described", [{}, {"output_data": ["x"], "output_path": "/lhcb/user/a/alice/same"}])
def test_an_agent_that_reserves_nothing_is_not_given_a_name_that_others_may_have(
    lease: Any, described: Mapping[str, Any]
) -> None:
    job = lease(**described)
    assert job.data["output"] is None
    assert job.data["destination"] is not None


# ---- Output sandboxes that are too large for the server --------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "is_near", "expected"),
    [({}, True, "near"), ({}, False, "far"), ({"output_se": "far"}, True, "far")],
)
def test_an_output_sandbox_goes_to_the_element_named_else_of_the_site_else_of_the_vo(
    sample: SampleData, lease: Any, near: StorageElement, described: Mapping[str, str], is_near: bool, expected: str
) -> None:
    factories.make_storage_element(name="far", url="https://far.example.org/", sites=[])
    if not is_near:
        near.delete()
    job = lease(output_data=[], **described)
    place = job.place().json()
    assert (place["destination"]["storage_element"], place["destination"]["path"]) == (expected, job.own)
    sandbox = f"{job.own}/output_sandbox_{job.job_id}.tar.gz"
    assert job.ask(job.file(sandbox), element=expected).status_code == 200


def test_without_an_element_of_the_vo_an_output_sandbox_goes_nowhere(lease: Any, near: StorageElement) -> None:
    near.vos.clear()
    assert lease(output_data=[]).place().json() == {"destination": None}


def test_no_credential_is_told_and_no_element_is_chosen_that_needs_one(sample: SampleData, lease: Any) -> None:
    StorageElement.objects.all().delete()
    factories.make_storage_element(name="closed", credential="hush-hush", sites=[sample.queue.ce.site])
    assert lease(output_data=[]).place().json() == {"destination": None}
    factories.make_storage_element(name="open", sites=[])
    assert lease(output_data=[]).place().json()["destination"]["storage_element"] == "open"
