"""Log-in, tokens, and the addresses that each of them opens."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from tests.factories import make_group, make_token, make_user, make_vo
from tests.problems import of_problem
from wms.accounts import services
from wms.accounts.domain import MAX_FAILURES_OF_NAME_AND_ADDRESS, digest_of
from wms.accounts.models import ApiToken, FailedLogIn, User

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Machine:
    """A caller that is not a user: a pilot, a job or a site."""

    is_authenticated: bool = True
    is_active: bool = True


@pytest.fixture
def alice() -> User:
    return make_user(username="alice", password=PASSWORD, groups=[make_group(name="lhcb_user")])


def client_with(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client


def log_in(username: str = "alice", password: str = PASSWORD, **extra: Any) -> Any:
    return APIClient().post("/api/v1/auth/token/", {"username": username, "password": password}, format="json", **extra)


# ---- who may call what -----------------------------------------------------------------------------------------------


def nobody(alice: User) -> APIClient:
    return APIClient()


def user_with_token(alice: User) -> APIClient:
    return client_with(make_token(alice))


def user_with_session(alice: User) -> APIClient:
    client = APIClient()
    client.force_login(alice)
    return client


def suspended(alice: User) -> APIClient:
    token = make_token(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    return client_with(token)


def suspended_with_session(alice: User) -> APIClient:
    client = user_with_session(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    return client


def expired(alice: User) -> APIClient:
    return client_with(make_token(alice, expires_at=datetime.now(tz=UTC) - timedelta(seconds=1)))


def revoked(alice: User) -> APIClient:
    return client_with(make_token(alice, revoked_at=datetime.now(tz=UTC)))


def unknown(alice: User) -> APIClient:
    return client_with("wmsu_" + "x" * 43)


def of_no_kind(alice: User) -> APIClient:
    return client_with("garbage")


def machine(alice: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user=Machine(), token=object())  # type: ignore[arg-type]
    return client


CALLERS: dict[Callable[[User], APIClient], int | None] = {
    nobody: 401,
    user_with_token: None,
    user_with_session: None,
    suspended: 401,
    suspended_with_session: 401,
    expired: 401,
    revoked: 401,
    unknown: 401,
    of_no_kind: 401,
    machine: 403,
}


@pytest.mark.parametrize(
    ("method", "address", "status_for_users"),
    [
        ("get", "/api/v1/auth/me/", {200}),
        ("get", "/api/v1/groups/", {200}),
        ("post", "/api/v1/auth/revoke/", {204, 400}),
    ],
)
@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
def test_each_endpoint_admits_its_callers_only(
    alice: User, caller: Callable[[User], APIClient], method: str, address: str, status_for_users: set[int]
) -> None:
    answer = getattr(caller(alice), method)(address)
    refusal = CALLERS[caller]
    assert answer.status_code in ({refusal} if refusal else status_for_users)
    if answer.status_code >= 400:
        assert {"code", "detail"} <= set(answer.json())
    assert ("WWW-Authenticate" in answer.headers) is (answer.status_code == 401)


@pytest.mark.parametrize("caller", CALLERS, ids=lambda caller: caller.__name__)
def test_a_log_in_attempt_ignores_other_credentials(alice: User, caller: Callable[[User], APIClient]) -> None:
    answer = caller(alice).post("/api/v1/auth/token/", {"username": "alice", "password": "wrong"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (401, "wrong_credentials")


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Bearer a b", "bearer \xe9", "Bearer " + "x" * 5000, "BEARER wmsu_", "Bearer wmsu_\x7f"],
)
def test_a_header_that_holds_no_token_is_refused(alice: User, header: str) -> None:
    answer = user_with_session(alice).get("/api/v1/auth/me/", HTTP_AUTHORIZATION=header)
    assert answer.status_code == 401


def test_the_bearer_scheme_is_case_insensitive(alice: User) -> None:
    answer = APIClient().get("/api/v1/auth/me/", HTTP_AUTHORIZATION=f"bearer   {make_token(alice)}")
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["put", "patch", "delete"])
@pytest.mark.parametrize(
    "address", ["/api/v1/auth/me/", "/api/v1/auth/token/", "/api/v1/auth/revoke/", "/api/v1/groups/"]
)
def test_other_methods_are_405(alice: User, method: str, address: str) -> None:
    answer = getattr(user_with_token(alice), method)(address)
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")


# ---- sessions --------------------------------------------------------------------------------------------------------


def test_a_session_changes_nothing_without_its_csrf_token(alice: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice)
    assert browser.get("/api/v1/auth/me/").status_code == 200
    answer = browser.post("/api/v1/auth/revoke/")
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")


def test_a_token_needs_no_csrf_token(alice: User) -> None:
    program = Client(enforce_csrf_checks=True)
    assert program.post("/api/v1/auth/revoke/", HTTP_AUTHORIZATION=f"Bearer {make_token(alice)}").status_code == 204


def test_revoking_the_token_of_a_session_is_refused(alice: User) -> None:
    token = make_token(alice)
    answer = user_with_session(alice).post("/api/v1/auth/revoke/")
    assert (answer.status_code, answer.json()["code"]) == (400, "no_token")
    assert client_with(token).get("/api/v1/auth/me/").status_code == 200


# ---- log-in ----------------------------------------------------------------------------------------------------------


def test_a_log_in_returns_a_valid_token(alice: User, settings: Settings) -> None:
    before = datetime.now(tz=UTC)
    answer = log_in()
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert set(body) == {"token", "expires_at"}
    lifetime = datetime.fromisoformat(body["expires_at"]) - before
    assert timedelta(0) <= lifetime - timedelta(seconds=settings.WMS_USER_TOKEN_S) < timedelta(minutes=1)
    assert client_with(body["token"]).get("/api/v1/auth/me/").json()["username"] == "alice"


def test_a_token_is_never_stored_in_clear(alice: User) -> None:
    token = log_in().json()["token"]
    row = ApiToken.objects.values().get()
    assert bytes(row["digest"]) == digest_of(token)
    assert token.startswith("wmsu_")
    assert len(token) == len("wmsu_") + 43  # 32 random bytes
    assert not any(token.removeprefix("wmsu_") in str(value) for value in row.values())


def test_the_repr_of_an_issued_token_hides_the_secret(alice: User) -> None:
    issued = services.issue_token(alice, now=datetime.now(tz=UTC))
    assert issued.token not in f"{issued!r} {issued}"


def test_every_log_in_gets_its_own_token(alice: User) -> None:
    assert log_in().json()["token"] != log_in().json()["token"]


@pytest.mark.parametrize(
    ("username", "password"), [("alice", "wrong"), ("Alice", PASSWORD), ("nobody", PASSWORD), ("alice", PASSWORD + " ")]
)
def test_a_refusal_does_not_say_which_credential_is_wrong(alice: User, username: str, password: str) -> None:
    answer = log_in(username, password)
    assert answer.status_code == 401
    said = "User name or password is wrong, or the user is suspended."
    assert of_problem(answer.json()) == (401, "wrong_credentials", said)
    assert not ApiToken.objects.exists()


def test_a_suspended_user_is_refused_like_one_with_a_wrong_password(alice: User) -> None:
    wrong = log_in(password="wrong").json()
    User.objects.update(is_active=False)
    answer = log_in()
    assert (answer.status_code, answer.json()) == (401, wrong)
    assert not ApiToken.objects.exists()


def test_a_user_without_password_cannot_log_in() -> None:
    make_user(username="robot")
    assert log_in("robot", "").status_code == 400
    assert log_in("robot", "!").status_code == 401


def test_an_unknown_user_name_costs_the_same_password_hash(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def counted(hasher: object, password: str, salt: str) -> str:
        hashed.append(password)
        return f"md5${salt}$"

    monkeypatch.setattr("django.contrib.auth.hashers.MD5PasswordHasher.encode", counted)
    log_in("alice", "wrong")
    of_known = len(hashed)
    log_in("nobody", "wrong")
    assert (of_known, len(hashed) - of_known) == (1, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"username": "alice"}, "password"),
        ({"password": PASSWORD}, "username"),
        ({"username": 5, "password": PASSWORD}, "username"),
        ({"username": None, "password": PASSWORD}, "username"),
        ({"username": "x" * 151, "password": PASSWORD}, "username"),
        ({"username": "alice", "password": "x" * 1025}, "password"),
        ({"username": "alice", "password": ["x"]}, "password"),
        ({"username": "alice", "password": PASSWORD, "remember": True}, "remember"),
        ([], "body"),
    ],
)
def test_a_wrong_body_is_reported_by_field(alice: User, body: object, field: str) -> None:
    answer = APIClient().post("/api/v1/auth/token/", body, format="json")
    assert (answer.status_code, answer.json()["code"], list(answer.json()["errors"])) == (400, "invalid_input", [field])
    assert not ApiToken.objects.exists()


def test_a_misspelt_field_is_refused_with_the_nearest_name(alice: User) -> None:
    answer = APIClient().post("/api/v1/auth/token/", {"user_name": "alice", "password": PASSWORD}, format="json")
    assert answer.json()["errors"]["user_name"] == ['Unknown field. Did you mean "username"?']


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "invalid_json"),
        (b"\xff", "application/json", 400, "invalid_json"),
        (b'{"username": NaN}', "application/json", 400, "invalid_json"),
        (b'{"username": "a\\u0000"}', "application/json", 400, "invalid_json"),
        (b'{"username": "\\ud800"}', "application/json", 400, "invalid_json"),
        (b"[" * 1000 + b"]" * 1000, "application/json", 400, "invalid_json"),
        (b"1" * 100_000, "application/json", 400, "invalid_json"),
        (b"{}", "application/json; charset=utf-16", 415, "unsupported_media_type"),
        (b"username=alice", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
        (b"x", "multipart/form-data; boundary=x", 415, "unsupported_media_type"),
        (b"{}", "text/plain", 415, "unsupported_media_type"),
        (b"{}", "nonsense", 415, "unsupported_media_type"),
        (b"{}", "", 415, "unsupported_media_type"),
    ],
)
def test_every_kind_of_invalid_body_is_one_clear_error(body: bytes, content_type: str, status: int, code: str) -> None:
    answer = Client().generic("POST", "/api/v1/auth/token/", body, content_type=content_type)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_body_beyond_the_limit_is_413(settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = log_in(password="x" * 100)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


# ---- log-in delays ---------------------------------------------------------------------------------------------------


def test_repeated_failed_log_ins_are_delayed(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS):
        assert log_in(password="guess").status_code == 401
    answer = log_in()  # the right one comes too late
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_failures")
    assert 1 <= int(answer.headers["Retry-After"]) <= 10
    assert not ApiToken.objects.exists()


def test_a_login_delay_expires(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS):
        log_in(password="guess")
    FailedLogIn.objects.update(failed_at=datetime.now(tz=UTC) - timedelta(minutes=5))
    assert log_in().status_code == 201
    assert not FailedLogIn.objects.exists()  # what no longer counts is removed


def test_a_login_delay_applies_to_its_address_only(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS):
        log_in(password="guess", REMOTE_ADDR="192.0.2.1")
    assert log_in(REMOTE_ADDR="192.0.2.1").status_code == 429
    assert log_in(REMOTE_ADDR="192.0.2.2").status_code == 201


def test_successful_log_ins_cause_no_delay(alice: User) -> None:
    for _ in range(MAX_FAILURES_OF_NAME_AND_ADDRESS + 1):
        assert log_in().status_code == 201


def test_the_typed_user_name_is_not_stored(alice: User) -> None:
    log_in(username=PASSWORD, password="alice")
    assert PASSWORD not in str(FailedLogIn.objects.values().get())


# ---- revoking --------------------------------------------------------------------------------------------------------


def test_a_revoked_token_is_refused_and_others_stay_valid(alice: User) -> None:
    mine, other = make_token(alice), make_token(alice)
    assert client_with(mine).post("/api/v1/auth/revoke/").status_code == 204
    assert client_with(mine).get("/api/v1/auth/me/").status_code == 401
    assert client_with(other).get("/api/v1/auth/me/").status_code == 200


def test_every_token_of_a_user_can_be_revoked(alice: User) -> None:
    bob = make_user()
    tokens, of_bob = [make_token(alice), make_token(alice)], make_token(bob)
    assert services.revoke_tokens_of(alice, now=datetime.now(tz=UTC)) == 2
    assert [client_with(token).get("/api/v1/auth/me/").status_code for token in tokens] == [401, 401]
    assert client_with(of_bob).get("/api/v1/auth/me/").status_code == 200


# ---- who one is ------------------------------------------------------------------------------------------------------


def test_me_returns_groups_roles_and_certificates() -> None:
    vo = make_vo(name="lhcb")
    users = make_group(name="lhcb_user", vo=vo, priority=1000)
    production = make_group(name="lhcb_prod", vo=vo, priority=3000, shares_jobs=True)
    bob = make_user(
        username="bob", groups=[users, production], default_group=users, dns=["/DC=ch/CN=bob"], manages=[vo]
    )
    assert client_with(make_token(bob)).get("/api/v1/auth/me/").json() == {
        "username": "bob",
        "dns": ["/DC=ch/CN=bob"],
        "groups": [
            {"name": "lhcb_prod", "vo": "lhcb", "priority": 3000.0, "properties": ["JOB_SHARING"]},
            {"name": "lhcb_user", "vo": "lhcb", "priority": 1000.0, "properties": []},
        ],
        "default_group": "lhcb_user",
        "managed_vos": ["lhcb"],
        "roles": ["manager"],
    }


@pytest.mark.parametrize(("operator", "superuser"), [(True, False), (False, True)])
def test_me_shows_that_a_user_is_an_operator(operator: bool, superuser: bool) -> None:
    user = make_user(operator=operator, superuser=superuser)
    assert client_with(make_token(user)).get("/api/v1/auth/me/").json()["roles"] == ["operator"]


def test_me_needs_the_same_queries_for_one_group_and_thirty(django_assert_num_queries: Any) -> None:
    user = make_user(groups=[make_group() for _ in range(30)])
    client = client_with(make_token(user))
    with django_assert_num_queries(4):  # token and user, groups and VOs, managed VOs, DNs
        client.get("/api/v1/auth/me/")


# ---- groups ----------------------------------------------------------------------------------------------------------


def listed(user: User, query: str = "") -> list[str]:
    answer = client_with(make_token(user)).get(f"/api/v1/groups/{query}")
    assert answer.status_code == 200, answer.json()
    return [row["name"] for row in answer.json()["results"]]


def test_users_see_the_groups_of_their_vos_and_operators_all() -> None:
    lhcb, atlas = make_vo(name="lhcb"), make_vo(name="atlas")
    lhcb_user, _ = make_group(name="lhcb_user", vo=lhcb), make_group(name="lhcb_prod", vo=lhcb)
    make_group(name="atlas_user", vo=atlas)
    assert listed(make_user(groups=[lhcb_user])) == ["lhcb_prod", "lhcb_user"]
    assert listed(make_user(manages=[atlas])) == ["atlas_user"]
    assert listed(make_user(operator=True)) == ["atlas_user", "lhcb_prod", "lhcb_user"]
    assert listed(make_user()) == []


def test_a_group_is_listed_once_for_several_memberships() -> None:
    vo = make_vo()
    groups = [make_group(name=f"g{number}", vo=vo) for number in range(3)]
    assert listed(make_user(groups=groups, manages=[vo])) == ["g0", "g1", "g2"]


def test_groups_can_be_filtered_ordered_and_paged() -> None:
    lhcb = make_vo(name="lhcb")
    make_group(name="b", vo=lhcb, priority=1)
    make_group(name="a", vo=lhcb, priority=2)
    make_group(name="c")
    operator = make_user(operator=True)
    assert listed(operator, "?vo=lhcb") == ["a", "b"]
    assert listed(operator, "?vo=lhcb&ordering=priority") == ["b", "a"]
    assert listed(operator, "?page_size=1&ordering=-name") == ["c"]


@pytest.mark.parametrize(
    ("query", "field"),
    [("?vos=lhcb", "vos"), ("?page_size=x", "page_size"), ("?ordering=x", "ordering"), ("?cursor=x", "cursor")],
)
def test_a_wrong_query_is_reported_by_field(alice: User, query: str, field: str) -> None:
    answer = user_with_token(alice).get(f"/api/v1/groups/{query}")
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_a_page_of_groups_needs_the_same_queries_for_one_and_thirty(django_assert_num_queries: Any) -> None:
    operator = client_with(make_token(make_user(operator=True)))
    for _ in range(30):
        make_group()
    with django_assert_num_queries(2):  # token and user, groups and VOs
        operator.get("/api/v1/groups/")
