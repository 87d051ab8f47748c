"""Clients that send slowly or nothing: others are answered meanwhile, and slow connections are closed."""

import select
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import pytest

from tests.attacks.web import Lease, Web, head, status_on, web
from tests.cases import quick_cases
from tests.factories import make_token, make_user
from tests.pace import wait_for, within

pytestmark = pytest.mark.django_db(transaction=True)

CONNECTIONS = 48
LOG_IN = "/api/v1/auth/token/"

#: What each connection sends, and no more.
STALLED = {
    "bodies": head(LOG_IN, length=100) + b"{",
    "heads": f"POST {LOG_IN} HTTP/1.1\r\nHost: 127".encode(),
    "bodies of heartbeats with a token that is none": head(
        "/api/v1/matches/7b9f9bd2-0000-4000-8000-000000000000/heartbeat/", length=100, token="wmsj_x"
    )
    + b"{",
    "long bodies": head("/api/v1/jobs/", length=1_000_000) + b"{",
    "bodies that wait for 100 Continue": head(LOG_IN, length=100, Expect="100-continue"),
    "connections": b"",
    "chunked bodies without end": head(LOG_IN, Transfer_Encoding="chunked") + b"1\r\n{\r\n",
    "bodies of the log-in page": b"POST /accounts/login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\na",
}


def assert_others_are_answered(server: Web, lease: Lease, token: str) -> None:
    for _ in range(4):  # whichever process takes it
        assert server.ask("GET", "/healthz")[0] == 200
        assert server.ask("GET", "/api/v1/auth/me/", token=token)[0] == 200
        assert lease.heartbeat(server) == 200


@pytest.mark.parametrize("what", quick_cases(STALLED, quick=2))
def test_stalled_requests_do_not_block_others(tmp_path: Path, what: str) -> None:
    lease, token = Lease.make(), make_token(make_user())
    with web(tmp_path) as server, ExitStack() as opened:
        for _ in range(CONNECTIONS):
            opened.enter_context(server.send(STALLED[what]))
        assert_others_are_answered(server, lease, token)


def test_slow_requests_do_not_block_others_and_are_ended(tmp_path: Path) -> None:
    lease, token = Lease.make(), make_token(make_user())
    over = Event()
    with web(tmp_path, WMS_WEB_BODY_S="2", WMS_WEB_HEAD_S="2") as server, ExitStack() as opened:
        dripping = [
            opened.enter_context(server.send(head("/api/v1/jobs/", length=1_000_000, token=token))) for _ in range(4)
        ]
        dripping += [opened.enter_context(server.send(head(LOG_IN, length=4000))) for _ in range(CONNECTIONS // 2)]
        dripping += [opened.enter_context(server.send(b"GET / HTTP/1.1\r\n")) for _ in range(CONNECTIONS // 2)]

        def drip() -> None:
            left = list(dripping)
            while left and not over.wait(0.2):
                for each in list(left):
                    try:
                        each.sendall(b"a")
                    except OSError:
                        left.remove(each)

        dripper = Thread(target=drip)
        dripper.start()
        try:
            assert_others_are_answered(server, lease, token)
            # A body that comes at a byte now and then is no body; neither is such a head.
            statuses = {status_on(each) for each in dripping[:-1]}
        finally:
            over.set()
            dripper.join()
    assert statuses <= {0, 408}
    assert 408 in statuses


def test_a_body_at_the_minimum_rate_is_accepted(tmp_path: Path) -> None:
    token = make_token(make_user())
    body = b'{"executable": "/bin/true"' + b" " * 40_000 + b"}"
    with web(tmp_path, WMS_WEB_BODY_S="1", WMS_WEB_BODY_BYTES_PER_S="1000") as server:
        slow = server.send(head("/api/v1/jobs/", length=len(body), token=token))
        for at in range(0, len(body), 4000):
            slow.sendall(body[at : at + 4000])
            time.sleep(0.2)
        assert status_on(slow) in {201, 400, 403}  # of the application: nobody is in a group here
        slow.close()


def test_the_oldest_of_too_many_incomplete_bodies_are_dropped(tmp_path: Path) -> None:
    """A flood that would outlast every deadline: a true body is among the newest, and is read."""
    lease, token = Lease.make(), make_token(make_user())
    with (
        web(tmp_path, workers=1, WMS_WEB_BODY_S="3600", WMS_WEB_INCOMPLETE_BODIES="20") as server,
        ExitStack() as opened,
    ):
        stalled = {opened.enter_context(server.send(STALLED["bodies"])) for _ in range(60)}
        # Which they are is not told by the order of sending: several threads of the server take them.
        while len(stalled) > 20:
            answered, _, _ = select.select(stalled, [], [], within(60))
            assert [status_on(each) for each in answered] == [503] * len(answered) != []
            stalled -= set(answered)
        true = opened.enter_context(server.send(head("/api/v1/auth/token/", length=30)))
        assert_others_are_answered(server, lease, token)
        true.sendall(b'{"username":"a","password":""}')
        assert status_on(true) == 400


def test_an_idle_connection_is_closed_and_one_that_is_used_is_kept(tmp_path: Path) -> None:
    with web(tmp_path, workers=1, WMS_WEB_HEAD_S="2") as server, server.connect() as used, server.connect() as idle:
        asked = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        for _ in range(3):
            used.sendall(asked)
            assert status_on(used) == 200
        assert idle.recv(1) == b""
        assert used.recv(1) == b""


def test_the_server_stops_while_bodies_are_awaited(tmp_path: Path) -> None:
    with web(tmp_path, WMS_WEB_BODY_S="3600") as server, ExitStack() as opened:
        for _ in range(CONNECTIONS):
            opened.enter_context(server.send(STALLED["bodies"]))
        assert server.ask("GET", "/healthz")[0] == 200
        workers = server.workers()
        server.process.terminate()
        wait_for(lambda: not any(worker.is_running() for worker in workers), 10)


def test_the_server_stops_while_its_processes_are_starting(tmp_path: Path) -> None:
    with web(tmp_path, workers=4, ready=False) as server:
        wait_for(lambda: len(server.workers()) == 4)
        workers = server.workers()
        server.process.terminate()
        wait_for(lambda: not any(worker.is_running() for worker in workers), 10)
