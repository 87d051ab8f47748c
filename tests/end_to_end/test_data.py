"""Real data: a pilot reads from a disk and over HTTPS, stores what its job writes, and a second job reads that."""

import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from resources.domain.enums import SiteTokenPurpose
from resources.models import Replica, Site
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.agent.running import RunningAgent
from tests.storage import StorageServer
from wms.jobs.services.reevaluation import reevaluate
from wms.wire.storage import checksum_of

SECRET = "bearer-of-the-storage"
Ask = Callable[..., Any]


@pytest.fixture
def ask(transactional_db: None) -> Ask:
    """Return a function that sends requests of Mallory, who manages the VO and submits."""
    vo = factories.make_vo(name="lhcb")
    group = factories.make_group(name="lhcb_user", vo=vo)
    site = factories.make_site(name="LCG.CERN.ch", vos=[vo])
    factories.make_queue(name="grid", ce=factories.make_ce(name="ce01", site=site))
    mallory = factories.make_user(username="mallory", groups=[group], manages=[vo])
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(mallory)}")

    def ask(verb: str, path: str, body: object = None) -> Any:
        answer = getattr(client, verb)(f"/api/v1/{path}", body, format="json")
        assert answer.status_code < 300, answer.content
        return answer.json()

    return ask


@pytest.mark.django_db(transaction=True)
def test_a_job_reads_the_output_data_of_another(ask: Ask, live_server: LiveServer, tmp_path: Path) -> None:
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
def test_a_mismatching_input_file_reschedules_its_job_until_it_fails(
    ask: Ask, live_server: LiveServer, tmp_path: Path, settings: Settings
) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = 0  # it is to be tried by one pilot until it has failed
    (tmp_path / "lhcb").mkdir()
    (tmp_path / "lhcb/a").write_text("other than before")
    factories.make_storage_element(name="disk", url=tmp_path.as_uri(), sites=[Site.objects.get()])
    ask("post", "replicas/", {"replicas": [{"lfn": "/lhcb/a", "storage_element": "disk", "size_bytes": 3}]})
    (job,) = ask("post", "jobs/", {"executable": "/bin/true", "input_data": ["/lhcb/a"]})["jobs"]

    run(live_server.url, tmp_path / "one")

    ended = ask("get", f"jobs/{job['id']}/")
    assert ended["status"] == "Failed"
    assert "Input data /lhcb/a cannot be read: it has 17 bytes, not 3" in ended["minor_status"]


@pytest.mark.django_db(transaction=True)
def test_output_with_a_logical_name_of_its_own_is_registered_under_it(
    ask: Ask, live_server: LiveServer, tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    factories.make_storage_element(name="disk", url=disk.as_uri(), sites=[Site.objects.get()])
    jdl = """Executable = "/bin/sh"; Arguments = "-c 'echo new > hist.root; echo other > other.root'";
             OutputData = { "LFN:/lhcb/data/run7/hist.root", "other.root" }; OutputSE = "disk";"""
    (job,) = ask("post", "jobs/", {"jdl": jdl})["jobs"]

    run(live_server.url, tmp_path / "one")

    ended = ask("get", f"jobs/{job['id']}/")
    assert (ended["status"], ended["minor_status"]) == ("Done", "Execution complete")
    assert (disk / "lhcb/data/run7/hist.root").read_text() == "new\n"
    assert set(Replica.objects.values_list("lfn", flat=True)) == {
        "/lhcb/data/run7/hist.root",
        f"/lhcb/user/m/mallory/{job['id']}/other.root",
    }


@pytest.mark.django_db(transaction=True)
def test_output_with_a_logical_name_that_is_not_there_fails_the_job(
    ask: Ask, live_server: LiveServer, tmp_path: Path
) -> None:
    factories.make_storage_element(name="disk", url=tmp_path.as_uri(), sites=[Site.objects.get()])
    body = {"executable": "/bin/true", "output_data": ["LFN:/lhcb/data/hist.root"]}
    (job,) = ask("post", "jobs/", body)["jobs"]

    run(live_server.url, tmp_path / "one")

    ended = ask("get", f"jobs/{job['id']}/")
    assert ended["status"] == "Failed"
    assert ended["minor_status"] == (
        "Output data could not be stored: there is no file hist.root, to be stored as /lhcb/data/hist.root"
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("named", [True, False])
def test_an_oversized_output_sandbox_is_stored_at_output_se(
    ask: Ask, live_server: LiveServer, tmp_path: Path, settings: Settings, named: bool
) -> None:
    settings.WMS_SANDBOX_MAX_BYTES = 8000
    disk = tmp_path / "disk"
    disk.mkdir()
    factories.make_storage_element(name="disk", url=disk.as_uri(), sites=[Site.objects.get()])
    body = {
        "executable": "/bin/sh",
        "arguments": "-c 'head -c 20000 /dev/urandom > big; echo out'",
        "output_sandbox": ["big", "absent"],
        **({"output_se": "disk"} if named else {}),
    }
    (job,) = ask("post", "jobs/", body)["jobs"]

    run(live_server.url, tmp_path / "one")

    (listed,) = ask("get", "jobs/")["results"]
    assert listed["status"] == "Done"
    said = (
        "Execution complete; output sandbox: not found: absent; too large: big (20000 bytes; limit 8000 bytes packed); "
    )
    assert listed["minor_status"].startswith(said)
    lfn = f"/lhcb/user/m/mallory/{job['id']}/output_sandbox_{job['id']}.tar.gz"
    if not named:
        assert listed["minor_status"].startswith(f"{said}it is kept at ")
        assert not Replica.objects.exists()
        return
    assert listed["minor_status"] == f"{said}all of it is stored as LFN:{lfn} at disk"
    replica = Replica.objects.select_related("storage_element").get()
    assert (replica.lfn, replica.storage_element.name) == (lfn, "disk")
    with tarfile.open(disk / lfn[1:]) as archive:
        assert {member.name: member.size for member in archive} == {"big": 20000, "std.err": 0, "std.out": 4}


def run(url: str, directory: Path, *, ca: Path | None = None) -> str:
    """Run a pilot until there is no more job for it; return its log."""
    directory.mkdir()
    secret = issue_site_token(Site.objects.get(), purpose=SiteTokenPurpose.REGISTER, now=timezone.now())
    place = ["--vo", "lhcb", "--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", "grid"]
    trusted = [] if ca is None else ["--ca", str(ca)]
    with RunningAgent(url, directory, *place, *trusted, token=secret, packed=True) as agent:
        assert agent.wait() == 0, agent.log
        return agent.log


# ---- A logical name is written once ----------------------------------------------------------------------------------

TAKEN = "LFN:/lhcb/user/m/mallory/same/r.txt"


def minor_of(ask: Ask, job: dict[str, Any]) -> str:
    ended = ask("get", f"jobs/{job['id']}/")
    assert ended["status"] == "Done", ended["minor_status"]
    minor: str = ended["minor_status"]
    return minor


@pytest.fixture(params=["directory", "server"])
def content(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return a function that reads a file of the site's storage element, of each kind, by its logical name."""
    if request.param == "directory":
        disk = tmp_path / "disk"
        disk.mkdir()
        factories.make_storage_element(name="SE", url=disk.as_uri(), sites=[Site.objects.get()])
        yield lambda lfn: (disk / lfn[1:]).read_text()
        return
    with StorageServer(tmp_path, token=SECRET) as storage:
        factories.make_storage_element(name="SE", url=storage.url, credential=SECRET, sites=[Site.objects.get()])
        yield lambda lfn: storage.files[lfn].decode()


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_jobs_with_one_logical_name_keeps_its_output_elsewhere(
    ask: Ask, content: Callable[[str], str], live_server: LiveServer, tmp_path: Path
) -> None:
    lfn = TAKEN.removeprefix("LFN:")
    jobs = []
    for word in ("first", "second"):
        body = {"executable": "/bin/sh", "arguments": f"-c 'echo {word} > r.txt'", "output_data": [TAKEN]}
        jobs += ask("post", "jobs/", body)["jobs"]
    run(live_server.url, tmp_path / "pilot", ca=ca_in(tmp_path))

    # Either job may be drawn first.
    word_of = dict(zip((job["id"] for job in jobs), ("first\n", "second\n"), strict=True))
    first, second = sorted(jobs, key=lambda job: word_of[job["id"]] != content(lfn))
    assert content(lfn) == word_of[first["id"]]
    assert minor_of(ask, first) == "Execution complete"
    own = f"/lhcb/user/m/mallory/{second['id']}/r.txt"
    assert content(own) == word_of[second["id"]]
    said = f"Execution complete; {lfn}: it is a file of job {first['id']}, so it is stored as LFN:{own}"
    assert minor_of(ask, second) == said
    assert set(Replica.objects.values_list("lfn", flat=True)) == {lfn, own}


@pytest.mark.django_db(transaction=True)
def test_a_registered_input_is_not_replaced_by_the_output_of_a_job(
    ask: Ask, content: Callable[[str], str], live_server: LiveServer, tmp_path: Path
) -> None:
    lfn = TAKEN.removeprefix("LFN:")
    body = {"executable": "/bin/sh", "arguments": "-c 'echo precious > r.txt'", "output_data": [TAKEN]}
    ask("post", "jobs/", body)
    run(live_server.url, tmp_path / "one", ca=ca_in(tmp_path))
    factories.make_replica(lfn, vo=Replica.objects.get().vo, storage_element=factories.make_storage_element(name="far"))
    body |= {"input_data": [lfn], "arguments": "-c 'rm r.txt; echo new > r.txt'"}
    # Of a pattern nobody knows before which name it is.
    body |= {"output_data": ["*.txt"], "output_path": lfn.rpartition("/")[0]}
    (job,) = ask("post", "jobs/", body)["jobs"]

    run(live_server.url, tmp_path / "two", ca=ca_in(tmp_path))

    assert content(lfn) == "precious\n"
    assert Replica.objects.filter(lfn=lfn).count() == 2
    assert f"stored as LFN:/lhcb/user/m/mallory/{job['id']}/r.txt" in minor_of(ask, job)


def ca_in(directory: Path) -> Path | None:
    certificate = directory / "storage.pem"
    return certificate if certificate.exists() else None
