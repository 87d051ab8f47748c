"""Requests beyond their JSON: raw bytes, media types, query strings, ids and methods, at every address."""

from typing import Final
from urllib.parse import quote

import pytest
from django.test import Client

from tests.fuzz.conftest import Fresh
from tests.fuzz.sample import SampleData
from tests.fuzz.test_hostile_bodies import GOOD, everything

JSON: Final = "application/json"
#: Bodies that are wrong at every address that takes one, with the code of the refusal.
RAW: Final[dict[str, tuple[bytes, str, int, str]]] = {
    "not JSON": (b"{", JSON, 400, "invalid_json"),
    "not UTF-8": (b'{"a": "\xff"}', JSON, 400, "invalid_json"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), JSON, 400, "invalid_json"),
    "NaN": (b'{"a": NaN}', JSON, 400, "invalid_json"),
    "Infinity": (b'{"a": -Infinity}', JSON, 400, "invalid_json"),
    "a number without end": (b'{"a": 1e999}', JSON, 400, "invalid_json"),
    "an integer of a thousand digits": (b'{"a": ' + b"9" * 1000 + b"}", JSON, 400, "invalid_json"),
    "beyond 63 bits": (b'{"a": 9223372036854775808}', JSON, 400, "invalid_json"),
    "NUL": (b'{"a": "\\u0000"}', JSON, 400, "invalid_json"),
    "half a surrogate pair": (b'{"a": "\\udc00"}', JSON, 400, "invalid_json"),
    "half a surrogate pair as a name": (b'{"\\ud800": 1}', JSON, 400, "invalid_json"),
    "a name twice": (b'{"a": 1, "a": 2}', JSON, 400, "invalid_json"),
    "too deep": (b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}", JSON, 400, "invalid_json"),
    "far too deep": (b"[" * 200_000, JSON, 400, "invalid_json"),
    "two values": (b"{} {}", JSON, 400, "invalid_json"),
    "ten megabytes of text": (b'{"a": "' + b"x" * 10_000_000, JSON, 400, "invalid_json"),
    "a form": (b"a=b", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    "multipart": (b"--x--", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
    "plain text": (b"{}", "text/plain", 415, "unsupported_media_type"),
    "nonsense": (b"{}", "\xff/;;=", 415, "unsupported_media_type"),
    "another charset": (b"{}", f"{JSON}; charset=latin-1", 415, "unsupported_media_type"),
}
#: Where a list, a number and the like are refused as the body, not in a field.
NO_OBJECT: Final = (b"[]", b"[{}]", b"5", b"1.5", b'"text"', b"true", b"null", b"")
LISTS: Final = (
    *(
        "/api/v1/jobs/",
        "/api/v1/jobs/summary/",
        "/api/v1/task-queues/",
        "/api/v1/groups/",
        "/api/v1/sites/",
        "/api/v1/submit-pools/",
    ),
)
#: Query strings that mean nothing at any list.
NO_QUERIES: Final = (
    *(
        "page_size=0",
        "page_size=-1",
        "page_size=1001",
        "page_size=99999999999999999999",
        "page_size=1e2",
        "page_size=x",
    ),
    *(
        "page_size=5&page_size=6",
        "page_size=",
        "ordering=",
        "ordering=-nothing",
        "ordering=id;drop",
        "vo=",
        "vo=%00",
    ),
    *(
        "cursor=",
        "cursor=x",
        "cursor=%ff",
        "cursor=" + "x" * 5000,
        "cursor=eyJ:1:x",
        "nothing=1",
        "page=1",
        "%00=1",
    ),
    *("[]=1", "vo[]=lhcb", "vo.name=lhcb", "pk=1", "id__gt=0", "owner__password__startswith=a", "=", "limit=5"),
    "&".join(f"a{number}=1" for number in range(2000)),
)
#: Of a parameter that takes any text.
ANY_CHARACTERS: Final = (
    "%ff", "%c3%28", "%ed%a0%80", "é", "%F0%9F%98%80", "'", "%25", "x" * 60, "%0a", "..%2f"
)  # fmt: skip
#: Ids that no job has.
NO_IDS: Final = (
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854775808",
    "9" * 400,
    "1.0",
    "1e3",
    "+1",
    "%00",
    "%ff",
    "٣",
)


def client_for(sample: SampleData, name: str) -> tuple[Client, str, str]:
    """Return a client of the caller of a valid request, its method and its address."""
    good = GOOD[name]
    address = good.address.format(job=sample.job_ids[0], match=sample.match_ids[0])
    return Client(headers=sample.headers_of(good.caller)), good.method.upper(), address


@pytest.mark.parametrize("name", GOOD)
def test_invalid_json_is_refused_in_the_same_way_everywhere(sample: SampleData, name: str) -> None:
    client, method, address = client_for(sample, name)
    before = everything()
    for what, (body, media_type, status, code) in RAW.items():
        answer = client.generic(method, address, body, content_type=media_type)
        assert (answer.status_code, answer.json()["code"]) == (status, code), what
        assert len(answer.content) < 1000, what
    assert everything() == before


@pytest.mark.parametrize("name", GOOD)
def test_bodies_that_are_not_objects_are_refused(sample: SampleData, fresh: Fresh, name: str) -> None:
    client, method, address = client_for(sample, name)
    before = everything()
    for body in NO_OBJECT:
        with fresh():
            answer = client.generic(method, address, body, content_type=JSON)
            if body == b"" and answer.status_code < 400:
                continue  # nothing is required here
            assert answer.status_code == 400, body
            assert answer.json()["errors"], body
            assert everything() == before, body


@pytest.mark.parametrize("address", LISTS)
def test_an_invalid_query_string_is_refused(sample: SampleData, address: str) -> None:
    client = Client(headers=sample.headers_of("operator"))
    for query in NO_QUERIES:
        answer = client.get(f"{address}?{query}")
        assert answer.status_code == 400, (query[:40], answer.content[:200])
        assert answer.json()["detail"], query[:40]


@pytest.mark.parametrize("address", LISTS)
def test_a_filter_value_of_any_characters_is_searched_or_refused(sample: SampleData, address: str) -> None:
    client = Client(headers=sample.headers_of("operator"))
    for value in ANY_CHARACTERS:
        answer = client.get(f"{address}?vo={value}")
        assert answer.status_code in {200, 400}, value
        assert b"lhcb_user" not in answer.content, value


def test_a_cursor_of_another_list_is_refused(sample: SampleData) -> None:
    client = Client(headers=sample.headers_of("operator"))
    for address in (
        "/api/v1/jobs/?page_size=1",
        "/api/v1/groups/?page_size=1",
        "/api/v1/jobs/?page_size=1&ordering=id",
    ):
        cursor = client.get(address).json()["next"].partition("cursor=")[2].partition("&")[0]
        for other in LISTS:
            answer = client.get(f"{other}?cursor={cursor}")
            assert answer.status_code in {200, 400}, (address, other)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("", "history/", "output/", "peek/")),
        *(("POST", f"{action}/") for action in ("kill", "reschedule", "delete", "hold", "release")),
        ("PATCH", ""),
    ],
)
def test_an_id_that_no_job_has_is_not_found(sample: SampleData, method: str, path: str) -> None:
    body = '{"priority": 1}' if method == "PATCH" else "{}"
    client = Client(headers=sample.headers_of("operator"))
    for number in NO_IDS:
        answer = client.generic(method, f"/api/v1/jobs/{number}/{path}", body, content_type=JSON)
        # NB: digits of other scripts are digits to Python.
        assert answer.status_code == (400 if number == "%00" else 404), (number, answer.content)
        assert answer.json()["code"] == ("bad_request" if number == "%00" else "not_found"), number


@pytest.mark.parametrize("caller", ["pilot", "job"])
@pytest.mark.parametrize(
    "match_id", ["0", "x", "00000000-0000-0000-0000-000000000000", "{match}x", "{match}%20", "%7B{match}%7D", "%00"]
)
def test_a_lease_that_does_not_exist_is_not_found(sample: SampleData, caller: str, match_id: str) -> None:
    client = Client(headers=sample.headers_of(caller))
    for report in ("status", "heartbeat", "finish"):
        address = f"/api/v1/matches/{match_id.format(match=sample.match_ids[0])}/{report}/"
        answer = client.generic("POST", address, '{"status": "Running"}', content_type=JSON)
        assert answer.status_code in {400, 404}
        assert answer.json()["code"] in {"bad_request", "not_found"}


@pytest.mark.parametrize(
    "digest", ["x", "sha256:x", "sha256:" + "0" * 64, "..", "%2e%2e", "%2fetc%2fpasswd", "%00", "é"]
)
def test_a_sandbox_that_the_job_was_not_given_is_not_found(sample: SampleData, digest: str) -> None:
    client = Client(headers=sample.headers_of("job"))
    answer = client.get(f"/api/v1/matches/{sample.match_ids[0]}/sandboxes/{digest}/")
    assert answer.status_code in {400, 404}
    assert answer.json()["code"] in {"bad_request", "not_found", "no_sandbox"}


@pytest.mark.parametrize("address", LISTS)
def test_head_is_get_without_a_body(sample: SampleData, address: str) -> None:
    client = Client(headers=sample.headers_of("operator"))
    answer = client.head(address)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("name", GOOD)
def test_an_address_to_write_to_without_its_slash_is_refused_in_json(sample: SampleData, name: str) -> None:
    client, method, address = client_for(sample, name)
    before = everything()
    answer = client.generic(method, address.removesuffix("/"), "{}", content_type=JSON)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert address in answer.json()["detail"]
    assert everything() == before


@pytest.mark.parametrize("name", ["file", "", "é", "../x", "a/b", ".", "a\nb", "x" * 300, "x\\y", "%00", '"', "CON"])
def test_a_file_name_of_any_characters_is_accepted_or_refused(sample: SampleData, fresh: Fresh, name: str) -> None:
    before = everything()
    client = Client(headers=sample.headers_of("member"))
    for disposition in (
        f'name="file"; filename="{name}"',
        f"name=\"file\"; filename*=UTF-8''{quote(name)}",
        f'name="{name}"',
    ):
        body = f"--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\nx\r\n--b--\r\n"
        with fresh():
            answer = client.generic("POST", "/api/v1/sandboxes/", body, content_type="multipart/form-data; boundary=b")
            assert answer.status_code in {201, 400}
            if answer.status_code == 400:
                assert answer.json()["detail"]
                assert everything() == before
