"""Clients of the portal, by user."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

from tests.factories import make_group, make_site, make_user, make_vo
from tests.memos import without_brief_memos, without_readings_of_changes
from wms.accounts.models import VO, Group, User

__all__ = ["without_brief_memos", "without_readings_of_changes"]


@pytest.fixture
def vo() -> VO:
    return make_vo(name="lhcb")


@pytest.fixture
def group(vo: VO) -> Group:
    make_site(name="LCG.CERN.ch", vos=[vo])
    make_site(name="LCG.PIC.es", vos=[vo])
    return make_group(name="lhcb_user", vo=vo)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", password="correct horse", groups=[group])


ClientOf = Callable[[User], Client]


@pytest.fixture
def client_of() -> ClientOf:
    def log_in(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def portal(alice: User, client_of: ClientOf) -> Client:
    """Return Alice's browser."""
    return client_of(alice)


@pytest.fixture
def sandboxes_apart(settings: Settings, tmp_path: Path) -> None:
    """Store sandboxes in a directory of the test."""
    sandboxes = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(tmp_path)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": sandboxes}
