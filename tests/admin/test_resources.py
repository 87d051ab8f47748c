"""Rights of managers of a VO on resources and limits; forged requests are refused."""

from typing import Any
from unicodedata import normalize

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoCaptureOnCommitCallbacks

from resources.domain.enums import ResourceState
from resources.models import (
    Queue,
    ReportedPlatform,
    RequirementDefinition,
    Site,
    SiteToken,
    StorageElement,
)
from taskqueues.models import StaleSubmitPools, SubmitPool
from taskqueues.services import submit_pools
from tests.admin.conftest import (
    RowsOfVO,
    Shared,
    act,
    add,
    change,
    changelist,
    client_of,
    errors_of,
)
from tests.factories import NOW, make_ce, make_queue, make_user, make_vo

pytestmark = pytest.mark.django_db

# ---- sites, CEs, queues ----------------------------------------------------------------------------------------------


def of_queue(**others: Any) -> dict[str, Any]:
    return {
        "cpu_time_s": "300000",
        "processors": "1",
        "memory_mb": "2000",
        "wall_time_s": "",
        "gpus": "0",
        "disk_mb": "0",
        "platforms": "b, a, b",
        "job_types": "",
        "tags": "",
        "required_tags": "",
        "max_waiting_pilots": "1",
        "max_pilots": "2",
        "parameters": "{}",
        "vo_parameters": "{}",
        **others,
    }


def of_site(**others: Any) -> dict[str, Any]:
    return {
        "parameters": "{}",
        "vo_parameters": "{}",
        "throttle_policy": "",
        "throttle_when_expired": "count",
        "throttle_advertisement_s": "300",
        **others,
    }


def refreshed(pool: SubmitPool) -> set[Queue]:
    """Return the pool's queues after a refresh, which in production beat or a task starts within seconds."""
    submit_pools.refresh_stale(now=NOW)
    return set(SubmitPool.objects.get(pk=pool.pk).queues.all())


def test_a_manager_changes_a_queue_and_the_submit_pools_follow(
    manager: Client,
    mine: RowsOfVO,
    theirs: RowsOfVO,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    assert not mine.submit_pool.queues.exists()
    with django_capture_on_commit_callbacks() as callbacks:
        response = manager.post(change(mine.queue), of_queue(parameters='{"Memory": 8000}'))
    assert response.status_code == 302
    assert len(callbacks) == 2  # the other one writes the line of the security log
    mine.queue.refresh_from_db()
    assert (mine.queue.parameters, mine.queue.platforms) == ({"Memory": 8000}, ["a", "b"])
    assert set(StaleSubmitPools.objects.values_list("vo", flat=True)) == {mine.vo.pk}
    assert refreshed(mine.submit_pool) == {mine.queue}
    assert refreshed(theirs.submit_pool) == set()


@pytest.mark.parametrize("level", ["site", "ce"])
def test_changes_of_a_site_or_ce_update_the_submit_pools(level: str, operator: Client, mine: RowsOfVO) -> None:
    of_ce = {"type": "local", "identity": "none", "options": "{}", "vo_parameters": "{}"}
    form = of_site(vos=[mine.vo.pk]) if level == "site" else of_ce
    response = operator.post(change(getattr(mine, level)), {**form, "parameters": '{"Memory": 8000}'})
    assert response.status_code == 302
    assert refreshed(mine.submit_pool) == {mine.queue}


def test_a_site_that_serves_another_vo_concerns_the_pools_of_both(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    Queue.objects.filter(pk=mine.queue.pk).update(parameters={"Memory": 8000})
    SubmitPool.objects.get(pk=mine.submit_pool.pk).queues.add(mine.queue)
    assert operator.post(change(mine.site), of_site(vos=[theirs.vo.pk])).status_code == 302
    assert refreshed(mine.submit_pool) == set()
    assert refreshed(theirs.submit_pool) == {mine.queue}


def test_an_added_or_changed_definition_updates_the_submit_pools(operator: Client, mine: RowsOfVO) -> None:
    Queue.objects.filter(pk=mine.queue.pk).update(parameters={"Memory": 8000})
    assert operator.post(add(RequirementDefinition), {"name": "Memory", "kind": "capacity"}).status_code == 302
    assert refreshed(mine.submit_pool) == {mine.queue}
    definition = RequirementDefinition.objects.get(name="Memory")
    assert operator.post(change(definition), {"kind": "exact", "unit": "MB"}).status_code == 302
    assert refreshed(mine.submit_pool) == set()
    # From now on it is somebody else's business.
    narrowed = {"kind": "exact", "unit": "MB", "vos": [str(make_vo().pk)]}
    assert operator.post(change(definition), narrowed).status_code == 302
    assert refreshed(mine.submit_pool) == {mine.queue}


def test_deleting_a_definition_refreshes_the_submit_pools(operator: Client, mine: RowsOfVO) -> None:
    RequirementDefinition.objects.create(name="Memory", kind="exact")
    Queue.objects.filter(pk=mine.queue.pk).update(parameters={"Memory": 8000})
    action = {"action": "delete_selected", "post": "yes"}
    selected = {"_selected_action": [str(RequirementDefinition.objects.get(name="Memory").pk)]}
    assert operator.post(changelist(RequirementDefinition), {**action, **selected}).status_code == 302
    assert refreshed(mine.submit_pool) == {mine.queue}


@pytest.mark.parametrize("level", ["queue", "computingelement"])
def test_a_deleted_queue_leaves_its_submit_pools(level: str, operator: Client, mine: RowsOfVO) -> None:
    queue = make_queue(ce=make_ce(site=mine.site), parameters={"Memory": 8000})
    mine.submit_pool.queues.add(queue)
    path = reverse(f"admin:resources_{level}_delete", args=[queue.pk if level == "queue" else queue.ce_id])
    assert operator.post(path, {"post": "yes"}).status_code == 302
    assert not mine.submit_pool.queues.exists()
    assert refreshed(mine.submit_pool) == set()


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("{", "not valid JSON"),
        ('{"a": NaN}', "JSON"),
        ('{"a": "\\u0000"}', "NUL"),
        ("[1]", "use names with their values"),
        ("[]", "use names with their values"),
        ('""', "use names with their values"),
        ("null", "use names with their values"),
        ('{"a": {"b": 1}}', "a: use a text"),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_parameters_that_cannot_be_stored_are_refused_beside_their_field(
    parameters: str, sentence: str, manager: Client, mine: RowsOfVO
) -> None:
    errors = errors_of(manager.post(change(mine.queue), of_queue(parameters=parameters)))
    assert sentence in errors["parameters"][0]
    mine.queue.refresh_from_db()
    assert mine.queue.cpu_time_s == 300_000


def test_parameters_can_be_emptied(manager: Client, mine: RowsOfVO) -> None:
    for empty in ("", " ", "{}"):
        assert manager.post(change(mine.queue), of_queue(parameters=empty)).status_code == 302, empty
        mine.queue.refresh_from_db()
        assert mine.queue.parameters == {}


def test_options_of_a_ce_are_json_that_can_be_stored(operator: Client, mine: RowsOfVO) -> None:
    form = {"type": "local", "identity": "none", "options": '{"a": NaN}', "parameters": "{}", "vo_parameters": "{}"}
    assert "options" in errors_of(operator.post(change(mine.ce), form))


def test_required_tags_are_among_the_tags(manager: Client, mine: RowsOfVO) -> None:
    response = manager.post(change(mine.queue), of_queue(required_tags="gpu"))
    assert errors_of(response)


def test_a_manager_adds_a_queue_at_an_own_site_only(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    assert manager.post(add(Queue), of_queue(ce=mine.ce.pk, name="q2")).status_code == 302
    assert "ce" in errors_of(manager.post(add(Queue), of_queue(ce=theirs.ce.pk, name="mole")))
    assert not Queue.objects.filter(name="mole").exists()


def test_a_manager_adds_nothing_at_a_shared_site(manager: Client, mine: RowsOfVO, shared: Shared) -> None:
    ce = make_ce(site=shared.site)
    assert "ce" in errors_of(manager.post(add(Queue), of_queue(ce=ce.pk, name="mole")))
    assert not Queue.objects.filter(name="mole").exists()


def test_a_site_of_a_manager_serves_the_own_vo_only(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    assert "vos" in errors_of(manager.post(add(Site), of_site(name="new.org")))
    assert "vos" in errors_of(manager.post(add(Site), of_site(name="new.org", vos=[mine.vo.pk, theirs.vo.pk])))
    assert manager.post(add(Site), of_site(name="new.org", vos=[mine.vo.pk])).status_code == 302
    # Later the choice stays: an empty one would give the site to all.
    assert manager.post(change(mine.site), of_site(vos=[theirs.vo.pk])).status_code == 302
    assert list(mine.site.vos.all()) == [mine.vo]


def test_a_shared_site_is_read_only_for_managers(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    mine.site.vos.add(theirs.vo)
    assert manager.get(change(mine.site)).status_code == 200
    assert manager.post(change(mine.site), of_site(throttle_policy="matches", max_matches="1")).status_code == 403
    assert manager.post(change(mine.queue), of_queue()).status_code == 403
    mine.site.refresh_from_db()
    assert mine.site.throttle_policy == ""


def test_a_throttle_requires_the_values_of_its_policy(manager: Client, mine: RowsOfVO) -> None:
    assert "max_jobs" in errors_of(manager.post(change(mine.site), of_site(throttle_policy="level2")))
    wrong = of_site(throttle_policy="custom", throttle_requirements="a b")
    assert "throttle_requirements" in errors_of(manager.post(change(mine.site), wrong))
    right = of_site(throttle_policy="custom", throttle_requirements="CurMatches < 5")
    assert manager.post(change(mine.site), right).status_code == 302


def test_a_setup_is_one_of_a_vo_of_the_site(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    theirs.vo.setups = ["Atlas", "Production"]
    theirs.vo.save()
    errors = errors_of(manager.post(change(mine.queue), of_queue(setup="Atlas")))
    assert errors["setup"] == ['lhcb has no setup "Atlas".']
    assert manager.post(change(mine.queue), of_queue(setup="Production")).status_code == 302
    ce = {"setup": "Atlas", "middleware": "", "pilot_types": [], "parameters": "{}", "vo_parameters": "{}"}
    assert "setup" in errors_of(manager.post(change(mine.ce), ce))
    mine.site.vos.add(theirs.vo)
    operator = client_of(make_user(operator=True, staff=True))
    assert operator.post(change(mine.queue), of_queue(setup="Atlas")).status_code == 302


def test_requirements_and_setup_of_a_director_are_checked(operator: Client, shared: Shared) -> None:
    form = {"kind": "site", "pilots_per_cycle": "1", "private_fraction": "0", "job_types": ""}
    wrong = {**form, "requirements": "CPUTme < 1", "setup": "Nonsense"}
    errors = errors_of(operator.post(change(shared.director), wrong))
    assert errors["requirements"] == ['A task queue has no attribute "CPUTme". Did you mean "CPUTime"?']
    assert list(errors) == ["requirements", "setup"]
    assert "requirements" in errors_of(operator.post(change(shared.director), {**form, "requirements": "GPUs >"}))
    right = {**form, "requirements": "GPUs > 0", "setup": "Production"}
    assert operator.post(change(shared.director), right).status_code == 302


# ---- states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
def test_a_ban_requires_a_reason(level: str, manager: Client, mine: RowsOfVO) -> None:
    row = getattr(mine, level)
    asked = act(manager, row, "ban")
    assert "Set to banned" in asked.content.decode()
    missing = act(manager, row, "ban", confirmed="1", reason=" ")
    assert "give the reason why it is banned" in missing.content.decode()
    row.refresh_from_db()
    assert row.state == ResourceState.ACTIVE
    done = act(manager, row, "ban", confirmed="1", reason="Cooling fails", until="2090-01-01T00:00")
    assert done.status_code == 302
    row.refresh_from_db()
    assert (row.state, row.state_reason, row.state_until.year) == (ResourceState.BANNED, "Cooling fails", 2090)
    assert row.state_changed_by.username == "bob"
    assert "Cooling fails" in LogEntry.objects.latest("pk").change_message
    act(manager, row, "activate", confirmed="1")
    row.refresh_from_db()
    assert (row.state, row.state_until) == (ResourceState.ACTIVE, None)


def test_a_ban_until_yesterday_is_refused(manager: Client, mine: RowsOfVO) -> None:
    response = act(manager, mine.site, "drain", confirmed="1", reason="x", until="2020-01-01T00:00")
    assert "this time is past" in response.content.decode()
    mine.site.refresh_from_db()
    assert mine.site.state == ResourceState.ACTIVE


def test_a_forged_ban_of_foreign_and_shared_sites_changes_nothing(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO, shared: Shared
) -> None:
    for site in (theirs.site, shared.site):
        form = {"action": "ban", "confirmed": "1", "reason": "war"}
        ids = {"_selected_action": [str(mine.site.pk), str(site.pk)]}
        manager.post(changelist(Site), {**form, **ids})
        assert not Site.objects.filter(pk=site.pk).exclude(state=ResourceState.ACTIVE).exists()


def test_the_form_has_no_state_field(operator: Client, mine: RowsOfVO) -> None:
    assert operator.post(change(mine.site), of_site(state="banned", state_reason="forged")).status_code == 302
    mine.site.refresh_from_db()
    assert (mine.site.state, mine.site.state_reason) == (ResourceState.ACTIVE, "")


# ---- tokens, limits, definitions -------------------------------------------------------------------------------------


def test_a_token_of_a_site_is_shown_once_and_can_be_revoked(manager: Client, mine: RowsOfVO) -> None:
    response = act(manager, mine.site, "issue_advertisement_token")
    assert "wmss_" in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    token = SiteToken.objects.get(site=mine.site, purpose="advertise")
    assert act(manager, token, "revoke").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_no_token_of_a_foreign_or_shared_site(manager: Client, theirs: RowsOfVO, shared: Shared) -> None:
    tokens = SiteToken.objects.count()
    for site in (theirs.site, shared.site):
        assert "wmss_" not in act(manager, site, "issue_registration_token").content.decode()
    act(manager, theirs.site_token, "revoke")
    theirs.site_token.refresh_from_db()
    assert theirs.site_token.revoked_at is None
    assert SiteToken.objects.count() == tokens


def test_selected_rows_of_others_are_not_deleted(manager: Client, theirs: RowsOfVO, shared: Shared) -> None:
    for row in (theirs.group, theirs.queue, theirs.limit, theirs.member, shared.site):
        act(manager, row, "delete_selected", post="yes")
        assert type(row)._default_manager.filter(pk=row.pk).exists()


def test_a_stored_credential_is_never_shown(operator: Client, manager: Client, mine: RowsOfVO, shared: Shared) -> None:
    form = {"name": "x", "url": "https://example.org/", "credential": "hush-hush"}
    assert operator.post(change(shared.storage_element), form).status_code == 302
    shared.storage_element.refresh_from_db()
    kept = bytes(shared.storage_element.credential_encrypted)
    assert kept
    assert b"hush" not in kept
    for client in (operator, manager):
        assert "hush" not in client.get(change(shared.storage_element)).content.decode()
    operator.post(change(shared.storage_element), {**form, "credential": ""})
    shared.storage_element.refresh_from_db()
    assert bytes(shared.storage_element.credential_encrypted) == kept


@pytest.mark.parametrize(
    ("url", "credential", "words"),
    [
        ("https://alice:hush@storage.example.org/", "", "without user and password"),
        ("https://storage.example.org/?token=hush", "", "without user and password"),
        ("https://storage.example.org/", "hush\nhush", "printable ASCII"),
        ("https://storage.example.org/", "hush", ""),
    ],
)
def test_a_storage_element_is_saved_only_as_pilots_can_use_it(
    operator: Client, url: str, credential: str, words: str
) -> None:
    body = {"name": "SE", "url": url, "credential": credential}
    answer = operator.post("/admin/resources/storageelement/add/", body)
    assert StorageElement.objects.filter(name="SE").exists() is (words == "")
    if words:
        assert words in answer.content.decode()


# ---- values that a definition does not allow -------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
@pytest.mark.parametrize("column", ["parameters", "vo_parameters"])
def test_a_non_numeric_capacity_is_refused_on_every_page(
    level: str, column: str, operator: Client, mine: RowsOfVO
) -> None:
    RequirementDefinition.objects.create(name="Memory", kind="capacity", unit="MB")
    form = {
        "site": of_site(vos=[mine.vo.pk]),
        "ce": {"type": "local", "identity": "none", "options": "{}", "parameters": "{}", "vo_parameters": "{}"},
        "queue": of_queue(),
    }[level]
    value = '{"memory": "4000"}' if column == "parameters" else f'{{"{mine.vo}": {{"memory": "4000"}}}}'
    row = getattr(mine, level)
    response = operator.post(change(row), {**form, column: value})
    path = "memory" if column == "parameters" else f"{mine.vo}: memory"
    assert errors_of(response)[column] == [f"{path} is a capacity in MB; give a number. Write 4000, without quotes."]
    row.refresh_from_db()
    assert (row.parameters, row.vo_parameters) == ({}, {})
    assert operator.post(change(row), {**form, column: value.replace('"4000"', "4000")}).status_code == 302


def test_a_definition_that_conflicts_with_stored_values_names_them(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    for vo_rows in (mine, theirs):
        Queue.objects.filter(pk=vo_rows.queue.pk).update(parameters={"Memory": "4000"})
    response = operator.post(add(RequirementDefinition), {"name": "memory", "kind": "capacity", "vos": [mine.vo.pk]})
    (sentence,) = errors_of(response)["kind"]
    assert f"queue {mine.site}/{mine.ce}/{mine.queue}." in sentence
    assert theirs.site.name not in sentence
    assert not RequirementDefinition.objects.filter(name="memory").exists()
    definition = {"name": "memory", "kind": "set", "vos": [mine.vo.pk]}
    assert operator.post(add(RequirementDefinition), definition).status_code == 302
    changed = {"kind": "capacity", "vos": [mine.vo.pk]}
    row = RequirementDefinition.objects.get(name="memory")
    assert "kind" in errors_of(operator.post(change(row), changed))
    Queue.objects.filter(pk=mine.queue.pk).update(parameters={"Memory": 4000})
    assert operator.post(change(row), changed).status_code == 302


def test_a_site_that_begins_to_serve_a_vo_is_checked_against_its_definitions(operator: Client, mine: RowsOfVO) -> None:
    RequirementDefinition.objects.create(name="Memory", kind="capacity").vos.set([mine.vo])
    other = make_vo()
    of_others = of_site(vos=[other.pk], parameters='{"Memory": "4000"}')
    assert operator.post(change(mine.site), of_others).status_code == 302
    response = operator.post(change(mine.site), {**of_others, "vos": [other.pk, mine.vo.pk]})
    assert "parameters" in errors_of(response)


def test_names_and_values_are_stored_in_nfc(operator: Client, mine: RowsOfVO) -> None:
    word = normalize("NFD", "süd")
    form = of_queue(tags=f"b, {word}", parameters=f'{{"{word}": ["{word}"]}}')
    assert operator.post(change(mine.queue), form).status_code == 302
    mine.queue.refresh_from_db()
    composed = normalize("NFC", word)
    assert (mine.queue.tags, mine.queue.parameters) == (["b", composed], {composed: [composed]})


def test_the_queue_page_lists_nodes_with_other_platforms(manager: Client, mine: RowsOfVO) -> None:
    Queue.objects.filter(pk=mine.queue.pk).update(platforms=["el9"])
    assert "No node has reported any yet." in manager.get(change(mine.queue)).content.decode()
    for platform in ("deb12", "el9"):
        ReportedPlatform.objects.create(queue=mine.queue, platform=platform, host_name="wn1", seen_at=NOW)
    page = manager.get(change(mine.queue)).content.decode()
    assert "deb12 (wn1, 2026-06-01 12:00:00 UTC) The node is deb12, but the queue is configured for el9" in page
    assert "<div>el9 (wn1, 2026-06-01 12:00:00 UTC) </div>" in page
