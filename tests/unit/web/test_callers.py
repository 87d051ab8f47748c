"""Which requests are of machines, and have threads that pages do not take."""

import pytest

from wms.web.callers import is_of_machine


@pytest.mark.parametrize(
    ("path", "authorization", "expected"),
    [
        ("/api/v1/matches/", "Bearer wmsp_x", True),
        ("/api/v1/matches/1/heartbeat/", "bearer  wmsj_x", True),
        ("/api/matches/", "Bearer wmsp_x", True),  # of old agents
        ("/api/v1/pilots/register/", "Bearer any-text", True),
        ("/api/v1/sites/LCG.CERN.ch/advertisements/", "Bearer any-text", True),
        ("/readyz", "", True),
        ("/api/v1/jobs/", "Bearer wmsu_x", False),
        ("/api/v1/jobs/", "", False),
        ("/api/v1/auth/token/", "", False),
        ("/jobs/", "Bearer wmsp_x", False),  # a page, whatever token is beside the session
    ],
)
def test_requests_of_machines_are_known_by_address_and_token(path: str, authorization: str, expected: bool) -> None:
    assert is_of_machine({"PATH_INFO": path, "HTTP_AUTHORIZATION": authorization}) is expected
