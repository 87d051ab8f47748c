"""GET /api/pilots/agent.pyz: the program, with its SHA-256 in the configuration and in a header."""

from hashlib import sha256

import pytest
from rest_framework.test import APIClient

from tests import factories

pytestmark = pytest.mark.django_db


def test_what_is_fetched_has_the_sha256_of_the_configuration_and_of_the_header() -> None:
    pilot = APIClient()
    pilot.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_pilot_token(factories.make_pilot())}")
    agent = pilot.get("/api/pilots/config/").json()["agent"]
    fetched = APIClient().get(agent["url"])
    assert fetched.status_code == 200
    assert sha256(fetched.content).hexdigest() == agent["sha256"] == fetched["X-Agent-SHA256"]
    assert fetched.content.startswith(b"#!/usr/bin/env python3\n")
