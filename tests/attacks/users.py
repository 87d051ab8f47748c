"""Requests of users who submit jobs, by a token."""

from typing import Any, Final

from rest_framework.test import APIClient

from tests.factories import make_token
from wms.accounts.models import User

JOBS: Final = "/api/v1/jobs/"
JOB: Final = {"executable": "/bin/true"}


def client_of(user: User) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(user)}")
    return client


def post(client: APIClient, jobs: int = 1, **more: object) -> Any:
    return client.post(JOBS, {"jobs": [JOB] * jobs, **more}, format="json")
