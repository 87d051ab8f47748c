"""Names of files: all spellings of a name are one file, and no two names look the same."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from resources.models import Replica, StorageElement
from taskqueues.models import QueuedJob
from tests import factories
from tests.api.jobs.conftest import SampleData
from wms.accounts.models import User
from wms.jobs.models import Job

NFC = normalize("NFC", "/lhcb/ümläut ñ")
NFD = normalize("NFD", NFC)

ClientOf = Callable[[User], APIClient]


@pytest.fixture
def disk(sample: SampleData) -> StorageElement:
    return factories.make_storage_element(name="disk", sites=[sample.cern])


def register(client: APIClient, *lfns: str) -> Any:
    told = [{"lfn": lfn, "storage_element": "disk"} for lfn in lfns]
    return client.post("/api/v1/replicas/", {"replicas": told}, format="json")


def test_a_replica_is_registered_and_removed_by_its_nfc_name_only(
    sample: SampleData, disk: StorageElement, client_of: ClientOf
) -> None:
    client = client_of(sample.mallory)
    refused = register(client, "/lhcb/a", NFD)
    assert refused.status_code == 400
    assert "composed form (NFC)" in refused.json()["errors"]["replicas.1.lfn"][0]
    assert not Replica.objects.exists()
    assert register(client, NFC).status_code == 201
    body = {"replicas": [{"lfn": NFD}]}
    assert client.post("/api/v1/replicas/remove/", body, format="json").status_code == 400
    assert Replica.objects.get().lfn == NFC


def test_a_replica_line_with_a_decomposed_name_is_refused(
    sample: SampleData, disk: StorageElement, tmp_path: Path
) -> None:
    file = tmp_path / "replicas.csv"
    file.write_text(f"{NFC},disk\n{NFD},disk\n", encoding="utf-8")
    with pytest.raises(CommandError, match=r"Line 2 .*composed form \(NFC\)"):
        call_command("load_replicas", str(file))
    assert not Replica.objects.exists()


@pytest.mark.parametrize("before", ["", "LFN:", "lfn:"])
@pytest.mark.parametrize("typed", [NFC, NFD])
def test_input_data_names_are_normalized_in_every_description_format(
    sample: SampleData, disk: StorageElement, client_of: ClientOf, before: str, typed: str
) -> None:
    assert register(client_of(sample.mallory), f"{before}{NFC}").status_code == 201
    lfn = f"{before}{typed}"
    bodies: list[dict[str, object]] = [
        {"executable": "x", "input_data": [lfn]},
        {"executable": "x", "input_data": ["%s"], "parameters": {"values": [lfn]}},
        {"jdl": f'Executable = "x"; InputData = {{"{lfn}"}};'},
        {"cfg": f"Executable = x\nInputData = {lfn}\n"},
    ]
    for body in bodies:
        answer = client_of(sample.alice).post("/api/v1/jobs/", body, format="json")
        assert answer.status_code == 201, answer.content
        job = Job.objects.get(pk=answer.json()["jobs"][0]["id"])
        assert job.description["input_data"] == [NFC]
        assert QueuedJob.objects.get(pk=job.pk).task_queue.sites == ["LCG.CERN.ch"]


def test_replicas_are_found_by_composed_and_decomposed_names(
    sample: SampleData, disk: StorageElement, client_of: ClientOf
) -> None:
    register(client_of(sample.mallory), NFC, f"{NFC}s/below")
    client = client_of(sample.alice)
    for query, expected in (
        ({"lfn": NFD}, [NFC]),
        ({"lfn": f"LFN:{NFC}"}, [NFC]),
        ({"directory": f"{NFD}s"}, [f"{NFC}s/below"]),
    ):
        assert [row["lfn"] for row in client.get("/api/v1/replicas/", query).json()["results"]] == expected


def test_the_admin_search_finds_composed_and_decomposed_names(sample: SampleData, disk: StorageElement) -> None:
    factories.make_replica(NFC, vo=sample.vo, storage_element=disk)
    client = APIClient()
    client.force_login(factories.make_user(operator=True, staff=True))
    assert NFC in client.get("/admin/resources/replica/", {"q": NFD}).content.decode()


def test_output_directories_use_the_nfc_name(sample: SampleData, client_of: ClientOf) -> None:
    path = normalize("NFD", "/lhcb/user/a/alice/mésons")
    body = {"executable": "x", "output_data": ["y"], "output_path": path}
    answer = client_of(sample.alice).post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 201, answer.content
    assert Job.objects.get().description["output_path"] == normalize("NFC", path)
