"""Parameters of sites, computing elements and queues over REST: checked as in the administration and in files."""

from typing import Any

import pytest

from resources.models import Site, SiteAdministrator
from taskqueues.models import StaleSubmitPools
from tests.api.administration.conftest import Administration, changes_of, client_of, history_of
from tests.factories import make_site, make_user

pytestmark = pytest.mark.django_db

SITE = "/api/v1/sites/lhcb.org/"
LEVELS = {
    "site": "parameters/",
    "ce": "ces/ce.lhcb.org/parameters/",
    "queue": "ces/ce.lhcb.org/queues/lhcb_queue/parameters/",
}
NEW: dict[str, Any] = {"parameters": {"os": "el9", "lhcbMemory": 4000}, "vo_parameters": {"lhcb": {"tags": ["a", "b"]}}}


@pytest.mark.parametrize("level", LEVELS)
def test_a_manager_sets_the_parameters_of_each_level(administration: Administration, level: str) -> None:
    manager, row, address = administration.manager, getattr(administration.own, level), SITE + LEVELS[level]
    StaleSubmitPools.objects.all().delete()
    before = manager.get(address).json()
    assert (before["parameters"], before["vo_parameters"]) == ({}, {})
    tried = manager.put(address, {**NEW, "dry_run": True})
    assert tried.status_code == 200, tried.json()
    assert manager.get(address).json() == before
    assert not StaleSubmitPools.objects.exists()
    for _ in range(2):
        answer = manager.put(address, {**NEW, "reason": "new nodes"})
        assert (answer.status_code, answer.json()) == (200, tried.json())
    assert answer.json() == manager.get(address).json() == {**before, **NEW}
    row.refresh_from_db()
    assert (row.parameters, row.vo_parameters) == (NEW["parameters"], NEW["vo_parameters"])
    assert [each.vo for each in StaleSubmitPools.objects.all()] == [administration.own.vo]
    lines = ["parameters lhcbMemory: 4000", "parameters os: el9", "vo_parameters lhcb tags: a, b", "reason: new nodes"]
    assert history_of(row)[-4:] == lines
    kind = "computing_element.changed" if level == "ce" else "configuration.changed"
    assert [who for who, _, _ in changes_of(kind)] == ["mallory"]


@pytest.mark.parametrize(
    ("fields", "code", "field", "sentence"),
    [
        ({"vo_parameters": {"atlas": {"a": 1}}}, "bad_parameters", "vo_parameters", 'serves no VO "atlas"'),
        ({"vo_parameters": {"nope": {}}}, "bad_parameters", "vo_parameters", 'serves no VO "nope"'),
        ({"parameters": {"lhcbMemory": "4000"}}, "bad_parameters", "parameters", "Write 4000, without quotes"),
        ({"vo_parameters": {"lhcb": {"lhcbMemory": -1}}}, "bad_parameters", "vo_parameters", "0 or more"),
        ({"parameters": {"os": {"a": 1}}}, "bad_parameters", "parameters", "use a text, a number"),
        ({"parameters": {"os": 1, "OS": 2}}, "bad_parameters", "parameters", "case is ignored"),
        ({"parameters": {"": 1}}, "bad_parameters", "parameters", "a name is a text"),
        ({"parameters": []}, "invalid_input", "parameters", "dictionary"),
        ({"vo_parameters": {"lhcb": 5}}, "invalid_input", "vo_parameters.lhcb", "dictionary"),
        ({"parameter": {}}, "invalid_input", "parameter", "Unknown field"),
    ],
)
def test_what_no_job_could_require_is_refused_and_nothing_is_stored(
    administration: Administration, fields: dict[str, object], code: str, field: str, sentence: str
) -> None:
    answer = administration.manager.put(f"{SITE}parameters/", {"parameters": {}, "vo_parameters": {}, **fields})
    problem = answer.json()
    assert (answer.status_code, problem["code"], list(problem["errors"])) == (400, code, [field])
    assert sentence in " ".join(problem["errors"][field])
    assert Site.objects.get(name="lhcb.org").parameters == {}


def test_parameters_of_a_vo_that_a_site_served_once_stay(administration: Administration) -> None:
    site = administration.own.site
    Site.objects.filter(pk=site.pk).update(vo_parameters={"atlas": {"a": 1}})
    address, stays = f"{SITE}parameters/", {"parameters": {"os": "el9"}, "vo_parameters": {"atlas": {"a": 1}}}
    assert administration.manager.put(address, stays).status_code == 200


def test_only_managers_of_all_its_vos_and_operators_set_them(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    make_site(name="shared.org")
    both = make_site(name="both.org", vos=[own.vo, administration.other.vo])
    runs_them = make_user(username="carol", manages=[administration.other.vo])
    for run in (own.site, both):
        SiteAdministrator.objects.create(site=run, user=runs_them)
    carol = client_of(runs_them)
    for client, site, status in (
        (manager, "shared.org", 403),
        (manager, "both.org", 403),
        (manager, "atlas.org", 404),
        (carol, "lhcb.org", 403),
        (client_of(own.member), "lhcb.org", 403),
        (administration.operator, "shared.org", 200),
    ):
        address = f"/api/v1/sites/{site}/parameters/"
        assert client.get(address).status_code == status, site
        assert client.put(address, {"parameters": {"os": "el9"}, "vo_parameters": {}}).status_code == status
    assert manager.get(f"{SITE}ces/none/parameters/").status_code == 404
    assert set(Site.objects.exclude(parameters={}).values_list("name", flat=True)) == {"shared.org"}
