"""The proxy of docs/nginx.example.conf: it passes on complete requests only, and the answers."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from django.conf import settings

from tests.attacks.web import HOST, Lease, Web, answer_on, free_port, head, web
from tests.factories import make_group, make_token, make_user
from tests.pace import wait_for, within

NGINX = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed"),
]

_MAIN = """
daemon off; pid {directory}/pid; error_log {directory}/error.log; {user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path {directory}/bodies; proxy_temp_path {directory}/answers;
    fastcgi_temp_path {directory}/1; uwsgi_temp_path {directory}/2; scgi_temp_path {directory}/3;
    {example}
}}
"""


@contextmanager
def proxied(server: Web, directory: Path) -> Iterator[Web]:
    """Run nginx with the example in front of the server, without TLS; yield the server at nginx's port."""
    port = free_port()
    example = (settings.BASE_DIR / "docs" / "nginx.example.conf").read_text(encoding="utf-8")
    example = example.replace("listen 443 ssl;", f"listen {HOST}:{port};").replace(
        "127.0.0.1:8000", f"{HOST}:{server.port}"
    )
    example = re.sub(r"ssl_certificate\S* .*;", "", example)
    user = "user root;" if os.geteuid() == 0 else ""
    file = directory / "nginx.conf"
    file.write_text(_MAIN.format(directory=directory, user=user, example=example), encoding="utf-8")
    with subprocess.Popen([str(NGINX), "-c", str(file), "-p", str(directory)]) as process:
        proxied = replace(server, port=port)
        try:
            wait_for(lambda: _answers(proxied), 30)
            yield proxied
        finally:
            process.terminate()
            process.wait(timeout=within(30))


def _answers(server: Web) -> bool:
    try:
        return server.ask("GET", "/healthz")[0] == 200
    except OSError:
        return False


def test_the_proxy_holds_stalled_requests_and_passes_others_on(tmp_path: Path) -> None:
    lease, user = Lease.make(), make_user(groups=[make_group()])
    token = make_token(user)
    with (
        web(tmp_path, WMS_TRUSTED_PROXIES="127.0.0.1") as server,
        proxied(server, tmp_path) as proxy,
        ExitStack() as opened,
    ):
        for _ in range(48):
            opened.enter_context(proxy.send(head("/api/v1/auth/token/", length=100), b"{"))
        for _ in range(4):
            assert proxy.ask("GET", "/api/v1/auth/me/", token=token)[0] == 200
            assert lease.heartbeat(proxy, std_output="x" * 10_000) == 200
        body = {"executable": "/bin/echo", "arguments": "x" * 20_000}
        assert proxy.ask("POST", "/api/v1/jobs/", body, token=token)[0] == 201


def test_the_proxy_passes_on_a_body_in_chunks_with_its_length(tmp_path: Path) -> None:
    with web(tmp_path) as server, proxied(server, tmp_path) as proxy:
        chunks = b'2\r\n{"\r\n17\r\nusername":"a","password\r\n5\r\n":""}\r\n0\r\n\r\n'
        with proxy.send(head("/api/v1/auth/token/", Transfer_Encoding="chunked"), chunks) as asking:
            status, answer = answer_on(asking)
        assert (status, answer["code"]) == (400, "invalid_input")
