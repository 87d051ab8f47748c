"""The client's address of a request behind proxies."""

import pytest
from django.test import RequestFactory
from pytest_django import Settings

from wms.kernel import checks
from wms.kernel.addresses import address_block, client_address, comes_from_proxy

PROXIES = ["10.0.0.5", "10.1.0.0/16", "2001:db8:1::/48", "unix"]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("192.0.2.1", "", "192.0.2.1"),
        ("192.0.2.1", "198.51.100.1", "192.0.2.1"),  # the word of anybody
        ("10.0.0.5", "", "10.0.0.5"),
        ("10.0.0.5", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.5", "203.0.113.9, 198.51.100.1", "198.51.100.1"),  # the first one is the client's own word
        ("10.0.0.5", "203.0.113.9,198.51.100.1, 10.1.2.3", "198.51.100.1"),
        ("10.0.0.5", "10.1.2.3,10.1.2.4", "10.1.2.3"),  # a client in the proxies' own network
        ("10.0.0.5", "198.51.100.1, unknown", "10.0.0.5"),
        ("10.0.0.5", "unknown, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.5", ",", "10.0.0.5"),
        ("::ffff:10.0.0.5", "::ffff:198.51.100.1", "198.51.100.1"),
        ("2001:db8:1::7", "2001:db8:2::8", "2001:db8:2::8"),
        ("2001:db8:2::7", "198.51.100.1", "2001:db8:2::7"),
        ("", "198.51.100.1", "198.51.100.1"),
        ("", "", ""),
    ],
)
def test_the_client_is_the_last_address_that_is_not_a_proxy(
    peer: str, forwarded: str, client: str, settings: Settings
) -> None:
    settings.WMS_TRUSTED_PROXIES = PROXIES
    environ = {"REMOTE_ADDR": peer} | ({"HTTP_X_FORWARDED_FOR": forwarded} if forwarded else {})
    assert client_address(environ) == client
    assert client_address(RequestFactory().get("/", **environ)) == client  # type: ignore[arg-type]


def test_a_socket_is_trusted_only_when_it_is_named(settings: Settings) -> None:
    environ = {"REMOTE_ADDR": "", "HTTP_X_FORWARDED_FOR": "198.51.100.1"}
    settings.WMS_TRUSTED_PROXIES = ["10.0.0.5"]
    assert (client_address(environ), comes_from_proxy(environ)) == ("", False)
    settings.WMS_TRUSTED_PROXIES = ["unix"]
    assert (client_address(environ), comes_from_proxy(environ)) == ("198.51.100.1", True)


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_the_address_block_is_that_of_one_client(address: str, block: str) -> None:
    assert address_block(address) == block


def test_an_invalid_proxy_address_is_reported(settings: Settings) -> None:
    settings.WMS_TRUSTED_PROXIES = ["10.0.0.5", "nginx.example.org", "10.0.0.0/33", "unix"]
    (error,) = checks.check_addresses()
    assert (error.id, error.msg) == (
        "wms.E010",
        "WMS_TRUSTED_PROXIES has values that are not addresses: nginx.example.org, 10.0.0.0/33.",
    )
