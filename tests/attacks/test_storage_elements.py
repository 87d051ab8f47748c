"""Storage elements and their credentials are visible only to the VOs that they name."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from pilots.models import Pilot
from resources.models import Replica, Site, StorageElement
from tests import factories
from wms.accounts.models import VO, Group, User
from wms.jobs.models import Job
from wms.jobs.tasks import reevaluate_input_data
from wms.kernel.secrets import decrypt

SECRET = "the credential of another VO"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleData:
    """Mallory manages lhcb and Alice is its user; ATLAS-DST is a storage element of atlas alone."""

    lhcb: VO
    atlas: VO
    users: Group
    alice: User
    mallory: User
    site: Site
    pilot: Pilot
    theirs: StorageElement


@pytest.fixture
def sample(db: None) -> SampleData:
    lhcb, atlas = factories.make_vo(name="lhcb"), factories.make_vo(name="atlas")
    users = factories.make_group(name="lhcb_user", vo=lhcb)
    site = factories.make_site(name="LCG.CERN.ch", vos=[lhcb])
    queue = factories.make_queue(ce=factories.make_ce(site=site))
    return SampleData(
        lhcb=lhcb,
        atlas=atlas,
        users=users,
        alice=factories.make_user(username="alice", groups=[users]),
        mallory=factories.make_user(username="mallory", groups=[users], manages=[lhcb], staff=True),
        site=site,
        pilot=factories.make_pilot(vo=lhcb, queue=queue),
        theirs=factories.make_storage_element(
            name="ATLAS-DST", url="https://atlas.example.org", credential=SECRET, vos=[atlas]
        ),
    )


def bearer(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def lease(pilot: Pilot) -> dict[str, Any]:
    body = {"cpu_time_s": 300_000, "request_id": str(uuid4()), "memory_mb": 4000}
    answer = bearer(factories.make_pilot_token(pilot)).post("/api/v1/matches/", body, format="json")
    assert answer.status_code == 201, answer.content
    found: dict[str, Any] = answer.json()
    return found


def data_of(pilot: Pilot) -> dict[str, Any]:
    found: dict[str, Any] = lease(pilot)["job_data"]
    return found


# ---- catalogue -------------------------------------------------------------------------------------------------------


def test_the_catalogue_gives_no_address_of_an_element_that_does_not_serve_the_vo(sample: SampleData) -> None:
    both = factories.make_storage_element(name="BOTH", vos=[sample.lhcb, sample.atlas])
    for element in (sample.theirs, both):
        factories.make_replica("/lhcb/a", vo=sample.lhcb, storage_element=element)
    for caller in (sample.alice, factories.make_user(operator=True)):
        answer = bearer(str(factories.make_token(caller))).get("/api/v1/replicas/")
        assert {row["storage_element"]: row["url"] for row in answer.json()["results"]} == {
            "ATLAS-DST": None,
            "BOTH": "https://storage.example.org/data/lhcb/a",
        }
        assert b"atlas.example.org" not in answer.content


# ---- submission ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "description",
    [
        {"executable": "/bin/true", "output_data": ["x"], "output_se": "ATLAS-DST"},
        {"jdl": '[Executable = "/bin/true"; OutputData = "x"; OutputSE = "ATLAS-DST"]'},
        {"cfg": "Executable = /bin/true\nOutputData = x\nOutputSE = ATLAS-DST"},
    ],
)
def test_a_user_cannot_name_another_vos_element_for_the_output(sample: SampleData, description: dict[str, Any]) -> None:
    answer = bearer(factories.make_token(sample.alice)).post("/api/v1/jobs/", description, format="json")
    assert answer.status_code == 400, answer.content
    assert "output_se" in answer.json()["errors"]
    assert not Job.objects.exists()


def test_the_refusal_does_not_disclose_whether_the_element_exists(sample: SampleData) -> None:
    client = bearer(factories.make_token(sample.alice))
    said = [
        client.post("/api/v1/jobs/", {"executable": "/bin/true", "output_se": name}, format="json").json()["errors"]
        for name in ("ATLAS-DST", "ATLAS-DXT")
    ]
    assert str(said[0]).replace("ATLAS-DST", "?") == str(said[1]).replace("ATLAS-DXT", "?")


def test_a_file_only_at_an_element_of_another_vo_has_no_replica(sample: SampleData) -> None:
    factories.make_replica("/lhcb/a", vo=sample.lhcb, storage_element=sample.theirs)
    body = {"executable": "/bin/true", "input_data": ["/lhcb/a"]}
    answer = bearer(factories.make_token(sample.alice)).post("/api/v1/jobs/", body, format="json")
    assert answer.status_code == 400, answer.content
    assert "No replica" in answer.json()["detail"]


# ---- registration ----------------------------------------------------------------------------------------------------


def test_a_manager_cannot_register_files_at_another_vos_element(sample: SampleData) -> None:
    body = {"replicas": [{"lfn": "/lhcb/a", "storage_element": "ATLAS-DST"}]}
    answer = bearer(factories.make_token(sample.mallory)).post("/api/v1/replicas/", body, format="json")
    assert answer.status_code == 400, answer.content
    assert not Replica.objects.exists()


@pytest.mark.usefixtures("transactional_db")
def test_a_file_of_replicas_is_refused_where_it_names_another_vos_element(sample: SampleData, tmp_path: Path) -> None:
    path = tmp_path / "replicas.csv"
    path.write_text("/lhcb/a,ATLAS-DST\n")
    with pytest.raises(CommandError, match='"ATLAS-DST" does not serve lhcb'):
        call_command("load_replicas", str(path))
    assert not Replica.objects.exists()


def test_a_vo_may_remove_replicas_at_a_withdrawn_element(sample: SampleData) -> None:
    factories.make_replica("/lhcb/a", vo=sample.lhcb, storage_element=sample.theirs)
    factories.make_replica("/atlas/a", vo=sample.atlas, storage_element=sample.theirs)
    body = {"replicas": [{"lfn": "/lhcb/a", "storage_element": "ATLAS-DST"}]}
    answer = bearer(factories.make_token(sample.mallory)).post("/api/v1/replicas/remove/", body, format="json")
    assert (answer.status_code, answer.json()) == (200, {"removed": 1})
    assert Replica.objects.get().lfn == "/atlas/a"


@pytest.mark.parametrize("named", [True, False])
def test_a_pilot_cannot_register_output_at_another_vos_element(sample: SampleData, named: bool) -> None:
    sample.site.storage_elements.add(sample.theirs)
    mine = factories.make_storage_element(name="LHCB-DST", sites=[sample.site], vos=[sample.lhcb])
    output_se = mine.name if named else None
    factories.make_job(owner=sample.alice, group=sample.users, output_data=["x"], output_se=output_se)
    leased = lease(sample.pilot)
    if named:
        factories.redescribe(Job.objects.get(), output_se="ATLAS-DST")
    body = {"lfn": f"{leased['job_data']['output']['path']}/x", "storage_element": "ATLAS-DST"}
    answer = bearer(leased["token"]).post(f"/api/v1/matches/{leased['match_id']}/replicas/", body, format="json")
    assert answer.status_code == 400, answer.content
    assert not Replica.objects.exists()


# ---- leases ----------------------------------------------------------------------------------------------------------


def test_a_lease_contains_no_element_of_another_vo(sample: SampleData) -> None:
    sample.site.storage_elements.add(sample.theirs)
    factories.make_job(owner=sample.alice, group=sample.users, output_data=["x"])
    data = data_of(sample.pilot)
    assert (data["destination"], data["credentials"]) == (None, {})


def test_a_withdrawn_element_is_missing_from_leases_of_earlier_jobs(
    sample: SampleData,
) -> None:
    sample.site.storage_elements.add(sample.theirs)
    sample.theirs.vos.add(sample.lhcb)
    factories.make_replica("/lhcb/a", vo=sample.lhcb, storage_element=sample.theirs)
    factories.make_job(
        owner=sample.alice, group=sample.users, output_data=["x"], output_se="ATLAS-DST", input_data=["/lhcb/a"]
    )
    sample.theirs.vos.remove(sample.lhcb)
    data = data_of(sample.pilot)
    (file,) = data["input_files"]
    assert (data["destination"], file["url"], data["credentials"]) == (None, None, {})
    assert "atlas" not in str(data)


@pytest.mark.parametrize(("for_pilots", "given"), [(False, {}), (True, {"LHCB-DST": "hush"})])
def test_pilots_get_a_shared_credential_only_if_an_operator_allows_it(
    sample: SampleData, for_pilots: bool, given: dict[str, str]
) -> None:
    factories.make_storage_element(
        name="LHCB-DST", credential="hush", for_pilots=for_pilots, sites=[sample.site], vos=[sample.lhcb]
    )
    factories.make_job(owner=sample.alice, group=sample.users, output_data=["x"])
    data = data_of(sample.pilot)
    assert (data["destination"]["storage_element"], data["credentials"]) == ("LHCB-DST", given)


def test_each_of_two_vos_at_one_site_gets_its_own_element(sample: SampleData) -> None:
    shared = factories.make_site(name="LCG.RAL.uk", vos=[sample.lhcb, sample.atlas])
    shared.storage_elements.add(sample.theirs)
    factories.make_storage_element(name="LHCB-DST", credential="hush", sites=[shared], vos=[sample.lhcb])
    queue = factories.make_queue(ce=factories.make_ce(site=shared))
    factories.make_job(owner=sample.alice, group=sample.users, output_data=["x"])
    factories.make_job(group=factories.make_group(vo=sample.atlas), output_data=["x"])
    of_lhcb = data_of(factories.make_pilot(vo=sample.lhcb, queue=queue))
    of_atlas = data_of(factories.make_pilot(vo=sample.atlas, queue=queue))
    assert (of_lhcb["destination"]["storage_element"], of_lhcb["credentials"]) == ("LHCB-DST", {"LHCB-DST": "hush"})
    assert (of_atlas["output"]["storage_element"], of_atlas["credentials"]) == ("ATLAS-DST", {"ATLAS-DST": SECRET})


# ---- after a withdrawal ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("transactional_db")
def test_jobs_that_wait_for_files_at_a_withdrawn_element_are_checking_and_explain_says_why(sample: SampleData) -> None:
    mine = factories.make_storage_element(name="LHCB-DST", sites=[sample.site], vos=[sample.lhcb])
    factories.make_replica("/lhcb/a", vo=sample.lhcb, storage_element=mine)
    client = bearer(factories.make_token(sample.alice))
    body = {"executable": "/bin/true", "input_data": ["/lhcb/a"]}
    job_id = client.post("/api/v1/jobs/", body, format="json").json()["jobs"][0]["id"]
    reevaluate_input_data()
    assert client.get(f"/api/v1/jobs/{job_id}/").json()["status"] == "Waiting"
    mine.vos.clear()
    reevaluate_input_data()
    assert client.get(f"/api/v1/jobs/{job_id}/").json()["status"] == "Checking"
    assert "no replica is registered of /lhcb/a" in client.get(f"/api/v1/jobs/{job_id}/explain/").json()["summary"]


def test_explain_says_that_the_place_of_the_output_was_withdrawn(sample: SampleData) -> None:
    mine = factories.make_storage_element(name="LHCB-DST", sites=[sample.site], vos=[sample.lhcb])
    job = factories.make_job(owner=sample.alice, group=sample.users, output_data=["x"], output_se="LHCB-DST")
    client = bearer(factories.make_token(sample.alice))
    assert client.get(f"/api/v1/jobs/{job.pk}/explain/").json()["warnings"] == []
    mine.vos.clear()
    (warning,) = client.get(f"/api/v1/jobs/{job.pk}/explain/").json()["warnings"]
    assert warning.startswith('The storage element "LHCB-DST" does not serve the VO any more')


# ---- the admin -------------------------------------------------------------------------------------------------------


@pytest.fixture
def manager(sample: SampleData) -> Client:
    client = Client()
    client.force_login(sample.mallory)
    return client


def site_form(sample: SampleData, *elements: StorageElement) -> dict[str, Any]:
    return {
        "parameters": "{}",
        "vo_parameters": "{}",
        "throttle_policy": "",
        "throttle_when_expired": "count",
        "throttle_advertisement_s": "300",
        "storage_elements": [str(element.pk) for element in elements],
    }


def page_of(row: Site | StorageElement) -> str:
    return reverse(f"admin:resources_{type(row)._meta.model_name}_change", args=[row.pk])


def test_a_manager_cannot_attach_another_vos_element_by_a_crafted_form(sample: SampleData, manager: Client) -> None:
    mine = factories.make_storage_element(name="LHCB-DST", vos=[sample.lhcb])
    answer = manager.post(page_of(sample.site), site_form(sample, mine, sample.theirs))
    assert answer.status_code == 200
    assert "storage_elements" in answer.context["adminform"].form.errors
    assert not sample.site.storage_elements.exists()
    assert manager.post(page_of(sample.site), site_form(sample, mine)).status_code == 302
    assert list(sample.site.storage_elements.all()) == [mine]


def test_a_manager_cannot_attach_another_vos_element_to_a_new_site(sample: SampleData, manager: Client) -> None:
    form = {**site_form(sample, sample.theirs), "name": "LCG.Own.org", "vos": [str(sample.lhcb.pk)]}
    assert manager.post(reverse("admin:resources_site_add"), form).status_code == 200
    assert not Site.objects.filter(name="LCG.Own.org").exists()


def test_an_operator_is_warned_when_an_element_serves_no_vo_of_the_site(sample: SampleData) -> None:
    operator = Client()
    operator.force_login(factories.make_user(operator=True, staff=True))
    form = {**site_form(sample, sample.theirs), "vos": [str(sample.lhcb.pk)]}
    answer = operator.post(page_of(sample.site), form)
    assert "serves no VO of this site" in str(answer.context["adminform"].form.errors["storage_elements"])
    form["vos"].append(str(sample.atlas.pk))
    assert operator.post(page_of(sample.site), form).status_code == 302


def test_hidden_elements_stay_attached_when_a_manager_saves(sample: SampleData, manager: Client) -> None:
    sample.site.storage_elements.add(sample.theirs)
    mine = factories.make_storage_element(name="LHCB-DST", vos=[sample.lhcb], sites=[sample.site])
    assert manager.post(page_of(sample.site), site_form(sample)).status_code == 302
    assert list(sample.site.storage_elements.all()) == [sample.theirs]
    assert manager.post(page_of(sample.site), site_form(sample, mine)).status_code == 302
    assert set(sample.site.storage_elements.all()) == {sample.theirs, mine}


def test_a_manager_sees_neither_name_nor_url_nor_credential_of_another_vos_element(
    sample: SampleData, manager: Client
) -> None:
    shared = factories.make_site(name="LCG.RAL.uk", vos=[sample.lhcb, sample.atlas])
    for site in (sample.site, shared):
        site.storage_elements.add(sample.theirs)
    assert manager.get(page_of(sample.theirs)).status_code in {302, 403, 404}
    for page in (page_of(sample.site), page_of(shared), reverse("admin:resources_storageelement_changelist")):
        shown = manager.get(page)
        assert shown.status_code == 200
        text = shown.content.decode()
        assert "ATLAS-DST" not in text
        assert "atlas.example.org" not in text


def test_a_manager_changes_neither_vos_nor_credential_of_the_own_element(sample: SampleData, manager: Client) -> None:
    mine = factories.make_storage_element(name="LHCB-DST", credential="hush", for_pilots=False, vos=[sample.lhcb])
    form = {"url": "https://evil.example.org", "vos": [str(sample.atlas.pk)], "credential_for_pilots": "on"}
    assert manager.post(page_of(mine), form).status_code == 403
    mine.refresh_from_db()
    assert (mine.url, mine.credential_for_pilots) == ("https://storage.example.org/data", False)
    assert decrypt(mine.credential_encrypted) == "hush"
    assert list(mine.vos.all()) == [sample.lhcb]


# ---- the configuration file ------------------------------------------------------------------------------------------

FILE = """
vos: [{name: lhcb, setup: P}, {name: atlas, setup: P}]
storage_elements: [{name: DST, vos: [%s], url: "https://dst.example.org", credential: hush}]
sites: [{name: S, vos: [lhcb], storage_elements: [DST]}]
"""


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], None]:
    def configure(text: str) -> None:
        path = tmp_path / "wms.yaml"
        path.write_text(text)
        path.chmod(0o600)
        call_command("configure", str(path))

    return configure


@pytest.mark.django_db(transaction=True)
def test_a_file_cannot_attach_an_element_to_a_site_none_of_whose_vos_it_serves(
    configure: Callable[[str], None],
) -> None:
    with pytest.raises(CommandError, match="DST serves atlas and none of the site's VOs"):
        configure(FILE % "atlas")
    assert not StorageElement.objects.exists()
    configure(FILE % "lhcb, atlas")
    element = StorageElement.objects.get()
    assert ({vo.name for vo in element.vos.all()}, element.credential_for_pilots) == ({"lhcb", "atlas"}, False)


@pytest.mark.django_db(transaction=True)
def test_an_earlier_file_is_accepted_with_a_warning_and_its_element_serves_no_vo(
    configure: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(FILE.replace("vos: [%s], ", ""))
    said = capsys.readouterr()
    assert "serves no VO; name the VOs that may use it in vos" in said.out + said.err
    assert not StorageElement.objects.get().vos.exists()
