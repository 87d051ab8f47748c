"""Bodies of a wrong type or encoding are refused in a sentence that says how to send them."""

import gzip

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_pilot, make_pilot_token, make_queue, make_token, make_user

pytestmark = pytest.mark.django_db
ADDRESSES = ("pilot-register", "pilot-report", "pilot-log", "matches", "jobs")
BODY = b'{"host_name": "wn1", "ok": true}'


@pytest.fixture
def pilot() -> Client:
    return Client(headers={"Authorization": f"Bearer {make_pilot_token(make_pilot(queue=make_queue()))}"})


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_chunked_body_is_refused_as_length_required(pilot: Client, address: str) -> None:
    answer = pilot.generic(
        "POST", reverse(address), BODY, content_type="application/json", HTTP_TRANSFER_ENCODING="chunked",
        CONTENT_LENGTH="",
    )  # fmt: skip
    assert (answer.status_code, answer.json()["code"]) == (400, "length_required")
    assert "Content-Length" in answer.json()["detail"]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity, gzip", "x" * 5000])
def test_a_compressed_body_is_refused_as_unsupported(pilot: Client, address: str, encoding: str) -> None:
    packed = gzip.compress(BODY)
    answer = pilot.generic(
        "POST", reverse(address), packed, content_type="application/json", headers={"Content-Encoding": encoding}
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "without Content-Encoding" in answer.json()["detail"]
    assert len(answer.content) < 400


@pytest.mark.parametrize("encoding", ["identity", ""])
def test_content_encoding_identity_is_accepted(pilot: Client, encoding: str) -> None:
    answer = pilot.post(
        reverse("pilot-report"), BODY, content_type="application/json", headers={"Content-Encoding": encoding}
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/json"])
@pytest.mark.parametrize("address", ["sandboxes", "matches", "portal:log-in"])
def test_a_charset_other_than_utf_8_is_refused_before_anything_is_decoded(address: str, kind: str) -> None:
    """The codec punycode of Python takes quadratic time."""
    form = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nzz\r\n--x--\r\n'
    user = Client(headers={"Authorization": f"Bearer {make_token(make_user())}"})
    for charset, method in (("punycode", "POST"), ("PunyCode", "GET"), ("utf-16", "POST"), ("latin-1", "POST")):
        answer = user.generic(method, reverse(address), form, content_type=f"{kind}; charset={charset}")
        # The page of a refused request has one text for all.
        assert answer.status_code == (400 if address == "portal:log-in" else 415)
        assert address == "portal:log-in" or "send UTF-8" in answer.json()["detail"]


def test_utf_8_may_be_named_in_any_way() -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nb\r\n--x--\r\n'
    user = Client(headers={"Authorization": f"Bearer {make_token(make_user())}"})
    for charset in ("utf-8", "UTF8", "us-ascii", '"utf-8"'):
        kind = f"multipart/form-data; boundary=x; charset={charset}"
        assert user.generic("POST", reverse("sandboxes"), form, content_type=kind).status_code == 201
