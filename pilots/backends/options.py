"""Checks of the ``options`` of computing elements, which come unchecked from the configuration file or the admin."""

from collections.abc import Collection, Mapping

from pilots.backends.interface import BackendError
from wms.kernel.names import did_you_mean
from wms.wire.http import is_server_address

#: Options for pilots whose nodes reach the server only through a proxy.
PROXY_OPTIONS = frozenset({"proxy", "no_proxy"})


def text(options: Mapping[str, object], name: str, *, default: str = "") -> str:
    """Return an option that is a text of one line.

    Raises:
        BackendError: it is something else, or empty.
    """
    value = options.get(name, default)
    if not isinstance(value, str) or (name in options and not value.strip()) or not (value.isprintable() or not value):
        raise BackendError(f"The option {name} must be a text in one line; it is {value!r}.")
    return value


def number(options: Mapping[str, object], name: str, *, default: int, at_least: int = 1) -> int:
    """Return an option that is a whole number.

    Raises:
        BackendError: it is something else, or too small.
    """
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise BackendError(f"The option {name} must be a whole number, at least {at_least}; it is {value!r}.")
    return value


def refuse_unknown(options: Collection[str], *, known: Collection[str], kind: str) -> None:
    """Refuse options that CEs of this kind do not have.

    Args:
        options: names of the configured ones.
        known: names of all that exist.
        kind: type of the CE.

    Raises:
        BackendError: an unknown one; with the nearest name.
    """
    for name in sorted(set(options) - set(known)):
        raise BackendError(
            f"A CE of type {kind} has no option {name}; it has {', '.join(sorted(known))}.{did_you_mean(name, known)}"
        )


def node_processors(options: Mapping[str, object]) -> int | None:
    """Return the configured cores of a node, or None.

    Raises:
        BackendError: the option is not a whole number of at least 1.
    """
    return number(options, "node_processors", default=1) if "node_processors" in options else None


def words_of_node(processors: int | None) -> tuple[str, ...]:
    """Return the arguments of the agent for the configured cores."""
    return () if processors is None else ("--node-processors", str(processors))


def proxy_variables(options: Mapping[str, object]) -> Mapping[str, str]:
    """Return the pilots' variables by the options ``proxy``, an address, and ``no_proxy``, a list.

    Raises:
        BackendError: one is wrong.
    """
    variables = {}
    if url := text(options, "proxy"):
        if not url.startswith("http://") or not is_server_address(url) or any(map(str.isspace, url)):
            raise BackendError(
                "The option proxy must be such as http://squid.example.org:3128, without user and password, which only "
                "the nodes' own variable https_proxy may contain."
            )
        variables = {"http_proxy": url, "https_proxy": url}
    hosts = options.get("no_proxy", [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) and host.isprintable() for host in hosts):
        raise BackendError(f"The option no_proxy must be a list of hosts, domains and networks; it is {hosts!r}.")
    return {**variables, "no_proxy": ",".join(hosts)} if hosts else variables
