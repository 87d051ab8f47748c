"""Every kind of token, and requests with one."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import jwt
from django.test import Client

from pilots.models import Pilot
from resources.domain.enums import SiteTokenPurpose
from resources.models import Site
from resources.services.site_tokens import issue_site_token
from tests.factories import NOW, make_pilot, make_pilot_token, make_site, make_token, make_user
from wms.kernel.tokens import PREFIXES, TokenKind, sign

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

REGISTER, CONFIG, REPORT = "/api/v1/pilots/register/", "/api/v1/pilots/config/", "/api/v1/pilots/report/"
LATER = datetime.now(tz=UTC) + timedelta(hours=1)
CHECK = {"name": "disk", "ok": True, "detail": "40 GB free"}
FIT = {"host_name": "wn1.cern.ch", "batch_id": "4711", "ok": True, "checks": [CHECK], "node": {"cores": 8}}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def post(client: Client, url: str, body: object, *, token: str) -> "Answer":
    return client.post(url, body, content_type="application/json", headers=bearer(token))


def register_token(site: Site) -> str:
    return issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=datetime.now(tz=UTC))


def forged(key: str = "k" * 48, *, algorithm: str = "HS256", kind: str = "pilot", pilot: object = 1) -> str:
    claims = {"pilot": pilot, "kind": kind, "exp": int(LATER.timestamp())}
    return PREFIXES[TokenKind.PILOT] + jwt.encode(claims, key, algorithm=algorithm)


def disguised_job_token() -> str:
    token = sign(TokenKind.JOB, {"pilot": make_pilot().pk}, expires_at=LATER)
    return PREFIXES[TokenKind.PILOT] + token.removeprefix(PREFIXES[TokenKind.JOB])


#: What each kind of credential is answered by the addresses of pilots; each makes a token that is valid, or is not.
CREDENTIALS: Mapping[str, tuple[Callable[[], str], int]] = {
    "user": (lambda: make_token(make_user()), 403),
    "operator": (lambda: make_token(make_user(operator=True)), 403),
    "site that registers": (lambda: register_token(make_site()), 403),
    "site that advertises": (
        lambda: issue_site_token(make_site(), purpose=SiteTokenPurpose.ADVERTISE, now=NOW),
        403,
    ),
    "revoked pilot": (lambda: make_pilot_token(_revoked()), 403),
    "pilot that is gone": (lambda: sign(TokenKind.PILOT, {"pilot": 10**15}, expires_at=LATER), 403),
    "expired pilot": (lambda: make_pilot_token(lifetime=timedelta(seconds=-1)), 401),
    "pilot by another key": (forged, 401),
    "pilot by no key": (lambda: forged("", algorithm="none"), 401),
    "pilot by a word": (lambda: sign(TokenKind.PILOT, {"pilot": "me"}, expires_at=LATER), 401),
    "job in disguise": (disguised_job_token, 401),
    "nothing signed": (lambda: "wmsp_x", 401),
}


def _revoked() -> Pilot:
    pilot = make_pilot()
    Pilot.objects.update(revoked_at=NOW)
    return pilot
