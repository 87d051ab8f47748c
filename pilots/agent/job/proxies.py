"""The proxy that payloads and the programs that run them inherit."""

from collections.abc import Mapping

_NAMES = ("http_proxy", "https_proxy", "no_proxy")


def proxies_of(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that name a proxy, in small and in capital letters as found.

    An address with user and password is left out: payloads are strangers' programs, and apptainer hands its environment
    on to them.
    """
    names = (*_NAMES, *map(str.upper, _NAMES))
    return {name: environ[name] for name in names if "@" not in environ.get(name, "@")}
