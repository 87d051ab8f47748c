"""Many simultaneous log-ins, which need no password; each costs memory and processor time by design."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection

from tests.attacks.web import Lease, web
from tests.factories import make_user
from tests.pace import wait_for
from wms.accounts.models import FailedLogIn
from wms.accounts.services import access

pytestmark = pytest.mark.django_db(transaction=True)

PASSWORD = "correct horse battery staple"
AT_ONCE = 40


def test_a_flood_of_log_ins_neither_grows_memory_nor_delays_pilots(tmp_path: Path) -> None:
    lease = Lease.make()
    with web(tmp_path, workers=1) as server, ThreadPoolExecutor(AT_ONCE) as pool:
        before_mb, first = server.largest_mb(), {worker.pid for worker in server.workers()}

        def log_in(number: int) -> tuple[int, str]:
            status, answer = server.ask("POST", "/api/v1/auth/token/", {"username": f"u{number}", "password": "guess"})
            return status, answer["code"]

        waiting = [pool.submit(log_in, number) for number in range(AT_ONCE)]
        most_mb = before_mb
        while not all(each.done() for each in waiting):
            assert lease.heartbeat(server) == 200
            most_mb = max(most_mb, server.largest_mb())
        answers = {each.result() for each in waiting}
        assert {worker.pid for worker in server.workers()} == first
    assert answers <= {(401, "wrong_credentials"), (429, "too_many_log_ins"), (429, "too_many_failures")}
    assert most_mb < before_mb + 250


def test_a_log_in_beyond_the_queue_is_429_and_no_failure() -> None:
    make_user(username="bob", password=PASSWORD)
    address = "192.0.2.7"

    def log_in(password: str) -> str:
        try:
            return access.log_in(username="bob", password=password, address=address, now=datetime.now(tz=UTC)).username
        except access.WrongCredentialsError:
            return "wrong"
        finally:
            connection.close()

    with ThreadPoolExecutor(access.MAX_LOG_INS) as pool:
        with access._password_lock:  # somebody's password is being looked at
            waiting = [pool.submit(log_in, "guess") for _ in range(access.MAX_LOG_INS)]
            wait_for(lambda: FailedLogIn.objects.count() == access.MAX_LOG_INS, 30)
            wait_for(lambda: access._places._value == 0, 30)
            with pytest.raises(access.TooManyLogInsError):
                access.log_in(username="bob", password=PASSWORD, address=address, now=datetime.now(tz=UTC))
            assert FailedLogIn.objects.count() == access.MAX_LOG_INS
        assert [each.result() for each in waiting] == ["wrong"] * access.MAX_LOG_INS
    assert log_in(PASSWORD) == "bob"
