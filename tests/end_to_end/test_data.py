"""Real data: a pilot reads from a disk and over HTTPS, stores what its job writes, and a second job reads that."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from pilots.agent.checksums import checksum_of
from resources.domain.words import SiteTokenPurpose
from resources.models import Replica, Site
from resources.services import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent
from tests.storage import StorageServer
from wms.jobs.services.reevaluation import reevaluate

SECRET = "bearer-of-the-storage"
Ask = Callable[..., Any]


@pytest.fixture
def ask(transactional_db: None) -> Ask:
    """Return what asks as Mallory, who manages the VO and submits too."""
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site))
    mallory = factories.make_user(username="mallory", groups=[group], manages=[vo])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(mallory)}")

    def ask(verb: str, path: str, body: object = None) -> Any:
        answer = getattr(client, verb)(f"/api/{path}", body, format="json")
        assert answer.status_code < 300, answer.content
        return answer.json()

    return ask


@pytest.mark.django_db(transaction=True)
def test_what_one_job_stores_the_next_one_reads(ask: Ask, live_server: LiveServer, tmp_path: Path) -> None:
    site = Site.objects.get()
    disk = tmp_path / "disk"
    (disk / "lhcb/data").mkdir(parents=True)
    (disk / "lhcb/data/a").write_text("from the disk\n")
    with StorageServer(tmp_path, token=SECRET) as storage, (disk / "lhcb/data/a").open("rb") as file:
        storage.files["/data/lhcb/data/b"] = b"over https\n"
        factories.make_storage_element(name="CERN-disk", url=disk.as_uri(), sites=[site])
        factories.make_storage_element(name="CERN-web", url=f"{storage.url}/data", credential=SECRET, sites=[site])
        told = {"lfn": "/lhcb/data/a", "storage_element": "CERN-disk", "checksum": checksum_of(file)}
        web = {"lfn": "/lhcb/data/b", "storage_element": "CERN-web", "size_bytes": 11}
        assert ask("post", "replicas/", {"replicas": [told, web]}) == {"new": 2, "changed": 0}
        first = {
            "executable": "/bin/sh",
            "arguments": "-c 'cat a b > both.txt'",
            "input_data": ["/lhcb/data/a", "/lhcb/data/b"],
            "output_data": ["*.txt"],
            "output_se": "CERN-web",
            "output_path": "/lhcb/user/m/mallory/first",
        }
        (job,) = ask("post", "jobs/", first)["jobs"]
        second = {
            "executable": "/bin/cat",
            "arguments": "both.txt",
            "input_data": ["/lhcb/user/m/mallory/first/both.txt"],
            "output_data": ["std.out"],
        }

        run(live_server.url, tmp_path / "one", ca=storage.certificate)

        assert ask("get", f"jobs/{job['id']}/")["status"] == "Done"
        assert storage.files["/data/lhcb/user/m/mallory/first/both.txt"] == b"from the disk\nover https\n"
        reevaluate(now=timezone.now())
        (next_job,) = ask("post", "jobs/", second)["jobs"]
        assert next_job["status"] == "Waiting"

        log = run(live_server.url, tmp_path / "two", ca=storage.certificate)

    assert ask("get", f"jobs/{next_job['id']}/")["status"] == "Done"
    stored = disk / f"lhcb/user/m/mallory/{next_job['id']}/std.out"
    assert stored.read_text() == "from the disk\nover https\n"
    replica = Replica.objects.select_related("storage_element").get(lfn__endswith="std.out")
    assert (replica.storage_element.name, replica.size_bytes) == ("CERN-disk", 25)
    assert SECRET not in log
    assert {token for *_, token in storage.seen} == {SECRET}


@pytest.mark.django_db(transaction=True)
def test_a_file_that_is_not_what_was_registered_sends_its_job_away_until_it_has_failed(
    ask: Ask, live_server: LiveServer, tmp_path: Path
) -> None:
    (tmp_path / "lhcb").mkdir()
    (tmp_path / "lhcb/a").write_text("other than before")
    factories.make_storage_element(name="disk", url=tmp_path.as_uri(), sites=[Site.objects.get()])
    ask("post", "replicas/", {"replicas": [{"lfn": "/lhcb/a", "storage_element": "disk", "size_bytes": 3}]})
    (job,) = ask("post", "jobs/", {"executable": "/bin/true", "input_data": ["/lhcb/a"]})["jobs"]

    run(live_server.url, tmp_path / "one")

    ended = ask("get", f"jobs/{job['id']}/")
    assert ended["status"] == "Failed"
    assert "Input data /lhcb/a cannot be read: it has 17 bytes, not 3" in ended["minor_status"]


def run(url: str, directory: Path, *, ca: Path | None = None) -> str:
    """Run a pilot until there is no more for it; return its log."""
    directory.mkdir()
    secret = issue_site_token(Site.objects.get(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid"]
    trusted = [] if ca is None else ["--ca", str(ca)]
    with RunningAgent(url, directory, *place, *trusted, token=secret, packed=True) as agent:
        assert agent.wait() == 0, agent.log
        return agent.log
