"""The address of a request's client: the peer of the connection, or the address that a trusted proxy forwards."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

#: Entry of WMS_TRUSTED_PROXIES: every peer at the server's Unix socket, which only local programs can open.
UNIX = "unix"
#: Prefix length, in bits: providers give one customer a /64 network, so its addresses count as one client.
IPV6_BLOCK = 64


def client_address(request: HttpRequest | Mapping[str, object]) -> str:
    """Return the address of the client that sent *request*: an IP address as text.

    Without a trusted proxy (WMS_TRUSTED_PROXIES) it is the peer of the connection. Behind one it is the last address of
    X-Forwarded-For that is not a trusted proxy: each proxy appends its peer, and earlier entries come from the client
    itself. If the header is missing or unreadable, it is the peer.

    Args:
        request: a request of Django or of REST framework, or a WSGI environment.

    Returns:
        "" if the peer has no address (a Unix socket).
    """
    meta = _meta(request)
    peer = _parsed(str(meta.get("REMOTE_ADDR", "")))
    nearest = "" if peer is None else str(peer)
    proxies = _trusted(tuple(settings.WMS_TRUSTED_PROXIES))
    forwarded = str(meta.get("HTTP_X_FORWARDED_FOR", ""))
    if not forwarded or not _is_trusted(peer, proxies):
        return nearest
    farthest = nearest
    for text in reversed(forwarded.split(",")):
        address = _parsed(text.strip())
        if address is None:
            return nearest
        farthest = str(address)
        if not _is_trusted(address, proxies):
            break
    return farthest


def comes_from_proxy(request: HttpRequest | Mapping[str, object]) -> bool:
    """Return whether the peer of the connection is a trusted proxy, so that its X-Forwarded-… headers are valid."""
    peer = _parsed(str(_meta(request).get("REMOTE_ADDR", "")))
    return _is_trusted(peer, _trusted(tuple(settings.WMS_TRUSTED_PROXIES)))


def is_https(environ: Mapping[str, object]) -> bool:
    """Return whether the request came over HTTPS, according to the server or a trusted proxy."""
    if environ.get("wsgi.url_scheme") == "https":
        return True
    scheme = str(environ.get("HTTP_X_FORWARDED_PROTO", "")).split(",", 1)[0].strip()
    return scheme == "https" and comes_from_proxy(environ)


def address_block(address: str) -> str:
    """Return the unit by which clients are counted: the /64 network of an IPv6 address, the IPv4 address itself.

    A text that is no IP address is returned as it is.
    """
    parsed = _parsed(address)
    if parsed is None:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    return str(IPv6Network((int(parsed), IPV6_BLOCK), strict=False))


def is_among(address: str, entries: Iterable[str]) -> bool:
    """Return whether the address of a client, as ``client_address`` returns it, is one of these or in their networks.

    Args:
        address: "" is a client of a Unix socket.
        entries: as in WMS_TRUSTED_PROXIES.
    """
    return _is_trusted(_parsed(address), _trusted(tuple(entries)))


def not_networks(entries: Iterable[str]) -> list[str]:
    """Return the entries that are not valid in WMS_TRUSTED_PROXIES, or WMS_METRICS_FROM."""
    return [entry for entry in entries if entry != UNIX and _network(entry) is None]


def _meta(request: HttpRequest | Mapping[str, object]) -> Mapping[str, object]:
    # NB: a request of REST framework is no HttpRequest, but has its attributes.
    return request if isinstance(request, Mapping) else request.META


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both families sees IPv4 clients as ::ffff:192.0.2.1.
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=8)
def _trusted(entries: tuple[str, ...]) -> tuple[bool, tuple[Network, ...]]:
    """Return whether the peers of a Unix socket are trusted, and which networks are."""
    networks = (_network(entry) for entry in entries)
    return UNIX in entries, tuple(network for network in networks if network is not None)


def _is_trusted(address: Address | None, proxies: tuple[bool, tuple[Network, ...]]) -> bool:
    unix, networks = proxies
    if address is None:
        return unix
    return any(address.version == network.version and address in network for network in networks)
