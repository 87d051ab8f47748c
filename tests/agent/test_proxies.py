"""Pilots whose node reaches the world only through a proxy: a real one, and a server whose name only it can resolve."""

import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from pilots.backends.interface import BatchRequest, PilotOrder
from pilots.backends.script import pilot_script
from tests.agent.running import INTERPRETERS, RunningAgent
from tests.agent.scripted import ScriptedServer, ScriptedTLSServer
from tests.cases import quick_cases
from tests.pace import within
from tests.proxy import HIDDEN_HOST, TinyProxy
from tests.serving import LoopbackServer
from tests.storage import StorageServer, write_certificate
from wms.wire.http import HttpClient

PASSWORD = "p4ss-of-the-site"
TOKEN = "bearer-of-the-storage"
ORDER = PilotOrder(
    stamp="0f1e",
    secret="wmsr_once",
    vo="lhcb",
    site="LCG.Test.org",
    ce="ce1",
    queue="grid",
    slot=BatchRequest(queue="grid"),
)


class TLSServer(LoopbackServer):
    """A server with this certificate."""

    scheme = "https"

    def __init__(self, handler: type[BaseHTTPRequestHandler], *, certificate: Path) -> None:
        super().__init__(handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._http.socket = context.wrap_socket(self._http.socket, server_side=True)


Ended = subprocess.CompletedProcess[str]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[TinyProxy]:
    with TinyProxy(tmp_path) as proxy:
        yield proxy


@pytest.fixture
def closed_proxy(tmp_path: Path) -> Iterator[TinyProxy]:
    """A proxy with a password."""
    with TinyProxy(tmp_path, password=PASSWORD) as proxy:
        yield proxy


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedTLSServer]:
    with ScriptedTLSServer(tmp_path, HIDDEN_HOST) as server:
        yield server


def hidden(url: str) -> str:
    """Return the address under which only the proxy finds the server."""
    return url.replace("127.0.0.1", HIDDEN_HOST)


def pilot(
    directory: Path,
    url: str,
    ca: Path | None = None,
    *,
    environment: dict[str, str] | None = None,
    option: dict[str, str] | None = None,
    python: str = "",
) -> Ended:
    """Run a pilot by its script, as a batch system does; *option* are the variables by the CE's options."""
    directory = directory / "node"
    directory.mkdir()
    (directory / "secret").write_text(f"{ORDER.secret}\n")
    (directory / "secret").chmod(0o600)
    more = ("--speed", "1", "--max-idle-s", "0", "--patience-s", "0", *(("--ca", str(ca)) if ca else ()))
    script = pilot_script(
        ORDER, server_url=hidden(url), secret_file="secret", more=more, proxy=option or {}, python=python
    )
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=directory,
        env={"PATH": os.environ["PATH"], **(environment or {})},
        capture_output=True,
        text=True,
        timeout=within(60),
        check=False,
    )


@pytest.mark.parametrize("python", quick_cases(INTERPRETERS, quick=1))
def test_a_pilot_reaches_server_and_storage_through_the_proxy_only(
    server: ScriptedTLSServer, closed_proxy: TinyProxy, tmp_path: Path, python: str
) -> None:
    with StorageServer(tmp_path, token=TOKEN, names=(HIDDEN_HOST,)) as storage:
        storage.files["/lhcb/a"] = b"input"
        certificates = tmp_path / "ca.pem"
        certificates.write_bytes(server.certificate.read_bytes() + storage.certificate.read_bytes())
        source = {"lfn": "/lhcb/a", "storage_element": "SE", "size_bytes": 5, "checksum": ""}
        output = {"storage_element": "SE", "url": hidden(storage.url), "path": "/lhcb/7"}
        data = {"input_files": [source | {"url": hidden(f"{storage.url}/lhcb/a")}], "credentials": {"SE": TOKEN}}
        server.add_job(
            "/bin/sh", "-c 'cat a > result; env'", job_data={**data, "destination": output}, output_data=["result"]
        )
        ended = pilot(
            tmp_path, server.url, certificates, environment={"https_proxy": closed_proxy.url()}, python=python
        )

    assert ended.returncode == 0, ended.stdout
    assert server.lease.finished is not None, ended.stdout
    assert server.lease.finished["exit_code"] == 0, server.lease.finished
    assert storage.files["/lhcb/7/result"] == b"input"
    assert all(request.startswith(f"CONNECT {HIDDEN_HOST}:") for request in closed_proxy.requests)
    # Its user's password is no business of a payload, nor of a log.
    assert PASSWORD not in ended.stdout + server.lease.files()["std.out"] + json.dumps(server.node_reports)
    assert "proxy" not in server.lease.files()["std.out"]
    assert server.node_reports[0]["node"]["proxy"] == closed_proxy.url(password="")


def test_the_option_of_a_ce_names_the_proxy_to_pilots_and_payloads(
    server: ScriptedTLSServer, proxy: TinyProxy, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'env | grep -i proxy | sort'")
    option = {"http_proxy": proxy.url(), "https_proxy": proxy.url(), "no_proxy": ".site.example,10.0.0.0/8"}

    ended = pilot(tmp_path, server.url, server.certificate, option=option)

    assert ended.returncode == 0, ended.stdout
    assert server.lease.files()["std.out"].splitlines() == [f"{name}={value}" for name, value in option.items()]


@pytest.mark.parametrize("name", ["https_proxy", "HTTPS_PROXY"])
def test_a_proxy_of_the_node_counts_more_than_that_of_the_ce(
    server: ScriptedTLSServer, proxy: TinyProxy, tmp_path: Path, name: str
) -> None:
    option = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}

    ended = pilot(tmp_path, server.url, server.certificate, environment={name: proxy.url()}, option=option)

    assert ended.returncode == 0, ended.stdout


def test_a_server_without_tls_is_reached_through_the_proxy(proxy: TinyProxy, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.add_job("true")
        ended = pilot(tmp_path, server.url, environment={"http_proxy": proxy.url()})
    assert ended.returncode == 0, ended.stdout
    assert server.lease.finished is not None
    assert any(request.startswith(f"GET http://{HIDDEN_HOST}:") for request in proxy.requests)


@pytest.mark.parametrize(
    ("scheme", "password", "refusal"),
    quick_cases(
        [
            ("https", "wr0ng", "(401 Unauthorized): give the right user and password"),
            ("https", "", "(407 Proxy Authentication Required): give a user and password"),
            ("http", "", "(407 Proxy Authentication Required): give a user and password"),
        ],
        quick=1,
    ),
)
def test_a_refusal_of_the_proxy_is_one_sentence_without_the_password(
    server: ScriptedTLSServer, closed_proxy: TinyProxy, tmp_path: Path, scheme: str, password: str, refusal: str
) -> None:
    variable = f"{scheme}_proxy"
    url = server.url.replace("https", scheme)

    ended = pilot(tmp_path, url, server.certificate, environment={variable: closed_proxy.url(password)})

    assert ended.returncode == 3
    assert ended.stdout.startswith(
        f"The pilot agent could not be fetched from {hidden(url)}/api/v1/pilots/agent.pyz: the proxy "
        f"{closed_proxy.url('')} refuses {refusal} in {variable}."
    )
    assert "wr0ng" not in ended.stdout
    assert len(ended.stdout.splitlines()) == 1
    assert server.seen == []


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("http://127.0.0.1:9", "no connection through the proxy http://127.0.0.1:9: Connection refused."),
        ("socks5://pilot:secret@127.0.0.1:9", "the proxy socks5://127.0.0.1:9 of https_proxy cannot be used"),
        ("http://pilot:sec/ret@127.0.0.1:9", "https_proxy is not the address of a proxy"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_named(
    server: ScriptedTLSServer, tmp_path: Path, address: str, sentence: str
) -> None:
    ended = pilot(tmp_path, server.url, server.certificate, environment={"https_proxy": address})

    assert ended.returncode == 3
    assert sentence in ended.stdout
    assert "sec" not in ended.stdout.replace("secret file", "")
    assert len(ended.stdout.splitlines()) == 1


def test_the_agent_names_the_proxy_that_fails(server: ScriptedTLSServer, tmp_path: Path) -> None:
    options = ("--ca", str(server.certificate), "--patience-s", "0")
    with RunningAgent(
        hidden(server.url), tmp_path, *options, environment={"https_proxy": "http://127.0.0.1:9"}
    ) as agent:
        assert agent.wait() == 3
    assert "no connection through the proxy http://127.0.0.1:9: Connection refused" in agent.log
    assert "Traceback" not in agent.log


def test_a_host_of_no_proxy_is_reached_without_the_proxy(server: ScriptedTLSServer, tmp_path: Path) -> None:
    named = pilot(
        tmp_path,
        server.url,
        server.certificate,
        environment={"https_proxy": "http://127.0.0.1:9", "no_proxy": ".only.example"},
    )

    assert named.returncode == 3
    assert "proxy" not in named.stdout


def test_the_certificate_of_the_server_is_checked_behind_a_proxy(
    server: ScriptedTLSServer, proxy: TinyProxy, tmp_path: Path
) -> None:
    ended = pilot(tmp_path, server.url, environment={"https_proxy": proxy.url()})

    assert ended.returncode == 3
    assert "name the certificates to trust with --ca" in ended.stdout


def test_the_proxys_password_is_sent_to_the_proxy_alone(
    closed_proxy: TinyProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Proxy-Authorization"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    write_certificate(tmp_path / "cert.pem", HIDDEN_HOST)
    monkeypatch.setenv("https_proxy", closed_proxy.url())
    with TLSServer(Handler, certificate=tmp_path / "cert.pem") as server:
        client = HttpClient(
            hidden(server.url),
            user_agent="test",
            timeout_s=within(10),
            tls=ssl.create_default_context(cafile=tmp_path / "cert.pem"),
        )
        with closing(client.send("GET", "/", headers={})) as exchange:
            assert exchange.response.status == 204

    assert seen == [None]
