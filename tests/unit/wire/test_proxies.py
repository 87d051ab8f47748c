"""The proxy that the environment names; tests/agent/test_proxies.py has a real one."""

from http.server import BaseHTTPRequestHandler

import pytest

from tests.serving import LoopbackServer
from wms.wire.http import HttpClient, NotSentError, ProxyError, is_direct

DEAD = "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def flaw_of(url: str) -> str:
    """Return the error of a request."""
    with pytest.raises(NotSentError) as raised:
        HttpClient(url, user_agent="test", timeout_s=5).send("GET", "/", headers={})
    return str(raised.value) if isinstance(raised.value, ProxyError) else "without a proxy"


@pytest.mark.parametrize(
    ("host", "no_proxy"),
    [
        ("localhost", ""),
        ("127.9.9.9", ""),
        ("::1", ""),
        ("wms.example.org", "*"),
        ("wms.example.org", "wms.example.org"),
        ("wms.example.org", "WMS.example.org:443"),
        ("wms.example.org", "a.example.com, .example.org"),
        ("wms.example.org", "example.org"),
        ("wms.example.org", "*.example.org"),
        ("10.1.2.3", "a.example.com 10.0.0.0/8"),
        ("10.1.2.3", "10.1.2.3"),
        ("10.1.2.3", "10.1.2.3:443"),
        ("2001:db8::1", "2001:db8:0::1"),
        ("2001:db8::1", "[2001:db8::1]:443"),
        ("2001:db8::1", "2001:db8::/32"),
    ],
)
def test_loopback_and_hosts_of_no_proxy_are_reached_directly(host: str, no_proxy: str) -> None:
    assert is_direct(host, 443, no_proxy)


@pytest.mark.parametrize(
    ("host", "no_proxy"),
    [
        ("wms.example.org", ""),
        ("wms.example.org", "example.org:80"),
        ("wms.example.org", "ms.example.org"),
        ("wms.example.org", ",., 10.0.0.0/8 10.0.0.0/99"),
        ("11.1.2.3", "10.0.0.0/8,2001:db8::/32"),
        ("10.1.2.3", "2.3"),
        ("2001:db8::1", "[2001:db8::1]:80"),
        ("localhost.example.org", "localhost"),
    ],
)
def test_other_hosts_are_not(host: str, no_proxy: str) -> None:
    assert not is_direct(host, 443, no_proxy)


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])
def test_each_variable_names_the_proxy(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, DEAD)
    assert flaw_of("https://wms.example.org") == f"no connection through the proxy {DEAD}: Connection refused"


def test_a_variable_in_small_letters_hides_the_one_in_capitals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", DEAD)
    monkeypatch.setenv("http_proxy", "")
    assert flaw_of("http://127.0.0.1:9") == "without a proxy"


@pytest.mark.parametrize(
    ("address", "flaw"),
    [
        ("socks5h://u:secret@proxy:1080", "the proxy socks5h://proxy:1080 of https_proxy cannot be used"),
        ("http://u:secret@proxy:port", "https_proxy is not the address of a proxy"),
        ("http://u:sec/secret@proxy:1", "https_proxy is not the address of a proxy"),
        ("http://u:1/secret@proxy:1", "https_proxy is not the address of a proxy"),
        ("http://[::1:secret", "https_proxy is not the address of a proxy"),
        ("http://", "https_proxy is not the address of a proxy"),
    ],
)
def test_an_unusable_proxy_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch, address: str, flaw: str
) -> None:
    monkeypatch.setenv("https_proxy", address)
    assert flaw_of("https://wms.example.org") == f"{flaw}; give one as http://proxy.example.org:3128"


def test_a_plain_proxy_that_wants_a_password_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(407)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with LoopbackServer(Handler) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//alice:p%40ss@"))
        assert flaw_of("http://wms.example.org") == (
            f"the proxy {proxy.url} refuses (407 Proxy Authentication Required): "
            "give the right user and password in http_proxy"
        )
