"""Bombs: small requests that would cost much time or memory if they were unpacked or evaluated as they are written."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.attacks.web import answer_on, head, web
from tests.factories import make_ce, make_group, make_queue, make_site, make_token, make_user, make_vo
from wms.accounts.domain import TokenScope

pytestmark = pytest.mark.django_db(transaction=True)

MORE_MB = 100
#: Zeros that are packed to a thousandth.
PACKED = gzip.compress(bytes(200_000_000), compresslevel=1)
#: An expression of 60 kB, whose every part is evaluated before it is FALSE.
SEARCHES = " || ".join(['regexp("(a*)*(a*)*(a*)*b", strcat(Owner, "' + "a" * 300 + '"))'] * 150)
EXPRESSIONS: Mapping[str, str] = {
    "nested in parentheses": "(" * 30_000 + "1" + ")" * 30_000,
    "nested in functions": "size(" * 10_000 + '"a"' + ")" * 10_000,
    "nested in lists": "{" * 30_000 + "}" * 30_000,
    "never closed": "[a=" * 20_000,
    "a chain of choices": "CurMatches > 1 ? " * 3_600 + "1",
    "searches that backtrack": SEARCHES,
    "a large list": "member(Owner, {" + ",".join(['"a"'] * 9_000) + "})",
    "a long sum": "+".join(["CurMatches"] * 5_900) + " < 5",
    "concatenations of concatenations": "strcat(" * 100 + "Owner" + ", Owner)" * 100 + ' == "a"',
}


def test_expressions_of_throttles_take_bounded_time_and_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
    vo = make_vo(name="lhcb")
    make_queue(ce=make_ce(site=make_site(name="A", vos=[vo])))
    token = make_token(make_user(manages=[vo]), scope=TokenScope.ADMINISTER)
    with web(tmp_path) as server:
        assert server.ask("GET", "/api/v1/sites/A/throttle/", token=token)[0] == 200
        before_mb = server.largest_mb()
        for name, expression in EXPRESSIONS.items():
            with subtests.test(name):
                body = {"policy": "custom", "requirements": expression, "dry_run": True}
                status, answer = server.ask("PUT", "/api/v1/sites/A/throttle/", body, token=token)
                assert status in {200, 400, 409}, answer
                assert server.ask("GET", "/healthz")[0] == 200
        assert server.largest_mb() < before_mb + MORE_MB


def test_requirements_of_jobs_take_bounded_time_and_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
    group = make_group(name="lhcb_user")
    token = make_token(make_user(groups=[group]))
    with web(tmp_path) as server:
        before_mb = server.largest_mb()
        for name, expression in EXPRESSIONS.items():
            with subtests.test(name):
                jdl = f'Executable = "/bin/true"; Requirements = {expression};'
                status, answer = server.ask("POST", "/api/v1/jobs/", {"jdl": jdl, "group": group.name}, token=token)
                assert (status, answer["code"]) == (400, "invalid_jdl"), answer
                assert server.ask("GET", "/healthz")[0] == 200
        assert server.largest_mb() < before_mb + MORE_MB


@pytest.mark.parametrize("path", ["/api/v1/jobs/", "/api/v1/matches/", "/api/v1/sandboxes/", "/api/v1/auth/token/"])
def test_packed_bodies_are_refused_before_they_are_unpacked(tmp_path: Path, path: str) -> None:
    token = make_token(make_user())
    with web(tmp_path, workers=1) as server:
        before_mb = server.largest_mb()
        sent = head(path, length=len(PACKED), token=token, Content_Encoding="gzip")
        with server.send(sent) as bomb:
            status, answer = answer_on(bomb)
        assert 400 <= status < 500, answer
        assert server.largest_mb() < before_mb + MORE_MB


def test_json_that_is_nested_a_million_times_is_refused(tmp_path: Path) -> None:
    token = make_token(make_user())
    with web(tmp_path) as server:
        before_mb = server.largest_mb()
        for opening in (b"[", b'{"a":'):
            body = opening * 1_000_000
            with server.send(head("/api/v1/jobs/", length=len(body), token=token), body) as bomb:
                assert answer_on(bomb)[0] == 400
        assert server.largest_mb() < before_mb + MORE_MB
