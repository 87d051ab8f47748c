"""GET /api/v1/pilots/agent.pyz, the program, with its SHA-256 in a header, and pilot.sh, which installs it."""

from hashlib import sha256

import pytest
from pytest_django import Settings
from rest_framework.test import APIClient

from tests import factories

pytestmark = pytest.mark.django_db


def test_the_downloaded_agent_has_the_announced_sha256() -> None:
    pilot = APIClient()
    pilot.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_pilot_token(factories.make_pilot())}")
    agent = pilot.get("/api/v1/pilots/config/").json()["agent"]
    fetched = APIClient().get(agent["url"])
    assert fetched.status_code == 200
    assert sha256(fetched.content).hexdigest() == agent["sha256"] == fetched["X-Agent-SHA256"]
    assert fetched.content.startswith(b"#!/usr/bin/env python3\n")


def test_the_pilot_script_is_public(settings: Settings) -> None:
    settings.WMS_SERVER_URL = "https://wms.example.org/"
    fetched = APIClient().get("/api/v1/pilots/pilot.sh", headers={"Accept": "application/x-nonsense"})
    assert fetched.status_code == 200
    assert fetched["Content-Type"] == "text/x-shellscript"
    assert fetched.content.startswith(b"#!/bin/sh\n")
    assert b' --server https://wms.example.org/ "$@"\n' in fetched.content
