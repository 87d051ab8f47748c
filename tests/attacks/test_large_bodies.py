"""Bodies above the limit are refused by their headers, and their memory is freed."""

import json
from contextlib import ExitStack, suppress
from http.client import RemoteDisconnected
from pathlib import Path
from select import select
from time import monotonic

import psutil
import pytest

from tests.attacks.web import Lease, answer_on, head, status_on, web
from tests.factories import make_group, make_token, make_user
from tests.pace import within
from wms.accounts.domain import TokenScope

pytestmark = pytest.mark.django_db(transaction=True)

ANONYMOUS = 64_000_000
MOST_MB = 500


def test_large_anonymous_bodies_are_refused_before_they_are_read(tmp_path: Path) -> None:
    with web(tmp_path) as server, ExitStack() as opened:
        before_mb = server.largest_mb()
        for path in ("/api/v1/jobs/", "/api/v1/auth/token/", "/api/v1/matches/", "/api/v1/replicas/") * 4:
            flood = opened.enter_context(server.send(head(path, length=ANONYMOUS), b'{"jdl": "'))
            status, body = answer_on(flood)
            assert status in {401, 413}
            assert body["code"] in {"not_authenticated", "too_large"}
            assert flood.recv(1) == b""  # and it is closed: nobody has to send the rest
        assert server.largest_mb() < before_mb + 50


def test_large_anonymous_bodies_that_are_sent_anyway_take_no_memory(tmp_path: Path) -> None:
    piece = b"[1," * 300_000
    with web(tmp_path) as server:
        for _ in range(16):
            with server.send(head("/api/v1/auth/token/", length=ANONYMOUS)) as flood:
                try:
                    for _ in range(ANONYMOUS // len(piece)):
                        flood.sendall(piece)
                except OSError:
                    pass  # the server has closed it
            assert server.largest_mb() < MOST_MB
        assert server.ask("GET", "/healthz")[0] == 200


def test_the_body_length_is_bounded_by_the_endpoint(tmp_path: Path) -> None:
    token, lease = make_token(make_user()), Lease.make()
    with web(tmp_path, workers=1) as server:
        for path, length, bearer in (
            ("/api/v1/jobs/1/kill/", 64 * 1024 + 1, token),
            (f"/api/v1/matches/{lease.match_id}/heartbeat/", 512 * 1024 + 1, lease.token),
            (f"/api/v1/matches/{lease.match_id}/finish/", 512 * 1024 + 1, lease.token),
            ("/api/v1/sandboxes/", 10 * 1024 * 1024 + 64 * 1024 + 1, token),
            ("/api/v1/jobs/", 64 * 1024 * 1024 + 1, token),
        ):
            with server.send(head(path, length=length, token=bearer), b"{") as flood:
                assert answer_on(flood)[0] in {404, 413, 415}, path
        # Tails of standard output and error, each character of which is two escapes.
        longest = "\N{GRINNING FACE}" * 16_384
        assert lease.heartbeat(server, std_output=longest, std_error=longest) == 200


def test_a_long_body_with_an_invalid_token_is_refused_unread(tmp_path: Path) -> None:
    with web(tmp_path, workers=1) as server:
        for token in ("wmsu_unknown", "wmsp_unknown", "wmsj_unknown", "something", None):
            with server.send(head("/api/v1/jobs/", length=1_000_000, token=token)) as flood:
                status, body = answer_on(flood)
            assert (status, body["code"]) in {(401, "invalid_token"), (401, "not_authenticated")}


def test_long_bodies_of_one_user_are_counted(tmp_path: Path) -> None:
    owner, other = make_user(), make_token(make_user())
    # Whoever has one makes as many more as he likes.
    greedy = [make_token(owner, scope=scope) for scope in (*TokenScope, TokenScope.MANAGE)]
    with (
        web(tmp_path, workers=1, WMS_WEB_LONG_BODIES_OF_ONE_CALLER="3", WMS_WEB_BODY_S="3600") as server,
        ExitStack() as opened,
    ):
        long = [head("/api/v1/jobs/", length=100_000, token=token) for token in greedy]
        four = [opened.enter_context(server.send(each)) for each in long]
        (refused,), _, _ = select(four, [], [], within(60))
        assert status_on(refused) == 429
        with server.send(head("/api/v1/jobs/", length=100_000, token=other), b" " * 100_000) as allowed:
            assert status_on(allowed) == 400


def test_a_process_that_has_grown_is_replaced_while_requests_are_answered(tmp_path: Path) -> None:
    """Each process is larger than the bound: all of them are replaced again and again, while requests come."""
    with web(tmp_path, WMS_WEB_MAX_RSS_MB="1") as server:
        first = {worker.pid for worker in server.workers()}
        answered = 0
        while first & {worker.pid for worker in server.workers()} or answered < 100:
            # A process that ends closes the connections on which nothing has come yet; clients ask again.
            with suppress(RemoteDisconnected):
                assert server.ask("GET", "/healthz")[0] == 200
                answered += 1


def test_after_a_full_disk_requests_are_answered_again(tmp_path: Path) -> None:
    """Each long body, stored in a file, is answered with an error, and no longer counts as in progress afterwards."""
    token = make_token(make_user())
    with web(tmp_path, workers=1) as server:
        for worker in server.workers():
            worker.rlimit(psutil.RLIMIT_FSIZE, (2_000_000, 2_000_000))  # no file grows further
        for _ in range(10):  # more than one user may have under way
            with server.send(head("/api/v1/jobs/", length=9_000_000, token=token)) as flood:
                with suppress(OSError):  # the server may have closed it
                    flood.sendall(b" " * 9_000_000)
                status, body = answer_on(flood)
            assert (status, body["code"]) == (503, "no_room")
        with server.send(head("/api/v1/jobs/", length=100_000, token=token), b" " * 100_000) as allowed:
            assert status_on(allowed) == 400


def test_a_large_submission_is_accepted(tmp_path: Path) -> None:
    user = make_user(groups=[make_group()])
    body = {"jobs": [{"executable": "/bin/echo", "arguments": "x" * 2000} for _ in range(500)]}
    assert len(json.dumps(body)) > 1_000_000
    with web(tmp_path) as server:
        status, answer = server.ask("POST", "/api/v1/jobs/", body, token=make_token(user, scope=TokenScope.SUBMIT))
        assert (status, len(answer["jobs"])) == (201, 500)


def test_large_bodies_of_one_user_share_a_bounded_rate(tmp_path: Path) -> None:
    token, other = make_token(make_user()), make_token(make_user())
    body = json.dumps({"jobs": [{"jdl": "x" * 1_000_000}]}).encode()
    request = head("/api/v1/jobs/", length=len(body), token=token)
    with web(tmp_path, workers=1, WMS_WEB_CALLER_BYTES_PER_S="1000000") as server, ExitStack() as opened:
        begun_s = monotonic()
        flood = [opened.enter_context(server.send(request, body)) for _ in range(3)]
        assert server.ask("POST", "/api/v1/jobs/", {"jdl": "x" * 100_000}, token=other)[0] == 400
        assert [status_on(each) for each in flood] == [400] * 3
        assert monotonic() - begun_s >= 2.5
