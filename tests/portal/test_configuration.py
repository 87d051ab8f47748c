"""The page of the configuration as a file: the difference is shown before anything is changed."""

import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from taskqueues.models import Limit
from tests.factories import make_group, make_user, make_vo
from tests.portal.conftest import ClientOf
from wms.accounts.models import VO, Group, SecurityEvent, User

pytestmark = pytest.mark.django_db

ADDRESS = "/configuration/"
FILE = "groups: [{name: lhcb_user, vo: lhcb, priority: 6000}]"


@pytest.fixture
def manager(vo: VO, group: Group, client_of: ClientOf) -> Client:
    return client_of(make_user(username="mallory", manages=[vo]))


def upload(client: Client, text: str) -> Any:
    return client.post(f"{ADDRESS}compare/", {"file": SimpleUploadedFile("configuration.yaml", text.encode())})


def form_of(response: Any) -> dict[str, Any]:
    """Return what the form of the page sends, nothing ticked."""
    return dict(re.findall(r'name="(source|version)" value="([^"]*)"', response.content.decode()))


def test_a_file_is_downloaded_compared_and_applied(manager: Client, group: Group) -> None:
    file = manager.get(f"{ADDRESS}configuration.yaml").content.decode()
    assert "lhcb_user" in file
    assert "The file changes nothing" in upload(manager, file).content.decode()
    compared = upload(manager, file.replace("priority: 1000", "priority: 6000"))
    page = compared.content.decode()
    assert [page.count(word) for word in ("group lhcb_user", "<code>1000</code>", "<code>6000</code>")] == [1, 1, 1]
    assert Group.objects.get(pk=group.pk).priority == 1000
    applied = manager.post(f"{ADDRESS}apply/", form_of(compared), follow=True)
    assert "The file is applied: 1 change." in applied.content.decode()
    assert Group.objects.get(pk=group.pk).priority == 6000
    event = SecurityEvent.objects.get(kind="configuration.changed", target="group lhcb_user")
    assert (event.actor_name, event.facts["door"]) == ("mallory", "file")


def test_what_is_refused_is_shown_by_line(manager: Client) -> None:
    make_group(name="atlas_user", vo=make_vo(name="atlas"))
    answer = upload(manager, FILE.replace("lhcb_user", "atlas_user"))
    assert answer.status_code == 400
    assert "line 1: groups[0]: this group is not yours to change" in answer.content.decode()
    assert form_of(answer) == {}


def test_after_a_change_by_others_the_new_difference_is_shown(manager: Client, group: Group) -> None:
    compared = form_of(upload(manager, FILE))
    Group.objects.filter(pk=group.pk).update(priority=7)
    answer = manager.post(f"{ADDRESS}apply/", compared)
    assert answer.status_code == 409
    assert "is not the one that was compared" in answer.content.decode()
    assert "<code>7</code>" in answer.content.decode()
    assert Group.objects.get(pk=group.pk).priority == 7
    assert manager.post(f"{ADDRESS}apply/", form_of(answer)).status_code == 302
    assert Group.objects.get(pk=group.pk).priority == 6000


def test_deletions_need_the_tick(manager: Client, vo: VO) -> None:
    limit = Limit.objects.create(vo=vo, running=5)
    compared = upload(manager, "limits: []")
    assert "limit scope {vo: lhcb} running 5" in compared.content.decode()
    refused = manager.post(f"{ADDRESS}apply/", form_of(compared))
    assert refused.status_code == 409
    assert Limit.objects.filter(pk=limit.pk).exists()
    assert manager.post(f"{ADDRESS}apply/", {**form_of(refused), "delete": "on"}).status_code == 302
    assert not Limit.objects.exists()


def test_people_are_changed_after_a_fresh_log_in_only(manager: Client, alice: User) -> None:
    compared = upload(manager, f"users: [{{username: {alice}, suspended: true}}]")
    assert "Show that it is you" in compared.content.decode()
    assert form_of(compared) == {}
    assert upload(manager, FILE).content.decode().count("Show that it is you") == 0


@pytest.mark.parametrize("body", [{}, {"source": "%", "version": "x"}])
def test_what_is_no_file_is_refused(manager: Client, body: dict[str, str]) -> None:
    assert manager.post(f"{ADDRESS}compare/", body).status_code == 400
    assert manager.post(f"{ADDRESS}apply/", body).status_code == 400


def test_a_file_that_is_too_long_is_refused(manager: Client) -> None:
    assert "larger than 4 MB" in upload(manager, "#" * (4 * 1024 * 1024 + 1)).content.decode()


def test_there_is_no_such_page_for_others(portal: Client) -> None:
    answers = [portal.get(ADDRESS), portal.get(f"{ADDRESS}configuration.yaml"), upload(portal, FILE)]
    assert [each.status_code for each in [*answers, portal.post(f"{ADDRESS}apply/", {})]] == [404] * 4
    assert "/configuration/" not in portal.get("/").content.decode()
