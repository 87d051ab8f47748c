"""The script of a pilot: finds a Python and runs the installer of the agent (PIL §2.1)."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pilots.backends.interface import PilotOrder
from wms.wire import http
from wms.wire.http import is_in_clear

#: Name of the file with the secret, in the directory where a batch system starts a pilot.
SECRET_FILE = "secret"  # noqa: S105 - its name
#: Interpreters in the order of trial; where the system's own Python is too old, a newer one often has its own name.
PYTHONS = ("python3", *(f"python3.{minor}" for minor in (13, 12, 11, 10, 9, 14)), "python")
_HTTP = Path(http.__file__).read_text(encoding="utf-8")
_INSTALLER = (Path(__file__).parent / "install.py").read_text(encoding="utf-8")
#: Runs the text of the installer, its second argument, with that of the HTTP client, its first, as a module.
_LOADER = """\
import sys, types
for name in "wms", "wms.wire", "wms.wire.http":
    sys.modules[name] = types.ModuleType(name)
exec(sys.argv.pop(1), sys.modules[name].__dict__)
exec(sys.argv.pop(1))
"""
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
# A function, so that a script truncated in "curl | sh" does nothing. The trial of an interpreter must not read standard
# input, which may contain the secret.
_SCRIPT = """\
#!/bin/sh
# A pilot of a workload management system: fetches its program, verifies it, and becomes it.
# Exit codes: 0 done, 1 the node or the pilot was refused, 2 wrong usage, 3 the server is not reachable.
main() {{
    exec 2>&1
    umask 077
{variables}\
    for python in {pythons}; do
        "$python" -I -c 'import ctypes, ssl, sys; sys.exit(sys.version_info < (3, 9))' </dev/null >/dev/null && break
        python=
    done 2>/dev/null
    [ -n "$python" ] || {{ echo "A pilot needs Python 3.9 or newer with SSL; this node has none."; exit 1; }}
    program={program} || {{ echo "A pilot needs a directory that it can write to: set TMPDIR."; exit 1; }}
    exec "$python" -I -c {loader} {http} {installer} "$program" {arguments}
}}
main "$@"
"""


def pilot_script(
    order: PilotOrder,
    *,
    server_url: str,
    secret_file: str,
    more: tuple[str, ...] = (),
    python: str = "",
    proxy: Mapping[str, str] = _NO_VARIABLES,
) -> str:
    """Return the shell script of one pilot; it contains no secret. The agent is stored where the script starts.

    Args:
        order: of the pilot.
        server_url: address of the server for pilots.
        secret_file: path on the node, or relative to where the script starts; the agent removes it after reading it.
        more: further arguments of the agent.
        python: the interpreter to try first.
        proxy: {variable in small letters: value} of the proxy where the node does not have the variable, in small or
            capital letters.
    """
    place = ("--vo", order.vo, "--site", order.site, "--ce", order.ce, "--queue", order.queue, "--stamp", order.stamp)
    # The directory beside it contains other pilots' directories, with the secrets of those that still wait.
    hidden = ("--hide", "..")
    words = (*server_arguments(server_url), "--token-file", secret_file, "--remove-token-file", *place, *more, *hidden)
    program = f'"$PWD"/{shlex.quote(f"agent-{order.stamp}.pyz")}'
    return _script(program=program, arguments=shlex.join(words), first=(python,) if python else (), variables=proxy)


def server_arguments(url: str) -> tuple[str, ...]:
    """Return the agent's arguments for the server's address, of which its operator decides whether it is encrypted."""
    return ("--server", url, "--insecure") if is_in_clear(url) else ("--server", url)


def site_script(*, server_url: str) -> str:
    """Return the script by which a site or a virtual machine starts a pilot; its arguments go to the agent.

    ``curl -s https://example.org/api/v1/pilots/pilot.sh | sh -s -- --vo V --site S --ce C --queue Q --token-file F``
    """
    program = '"$(mktemp "${TMPDIR:-/tmp}/wms-pilot.XXXXXX")"'
    return _script(program=program, arguments=f'{shlex.join(server_arguments(server_url))} "$@"')


def _script(
    *, program: str, arguments: str, first: tuple[str, ...] = (), variables: Mapping[str, str] = _NO_VARIABLES
) -> str:
    return _SCRIPT.format(
        variables="".join(
            f'    [ -n "${{{name}+x}}${{{name.upper()}+x}}" ] || export {name}={shlex.quote(value)}\n'
            for name, value in variables.items()
        ),
        loader=shlex.quote(_LOADER),
        http=shlex.quote(_HTTP),
        pythons=shlex.join((*first, *PYTHONS)),
        program=program,
        installer=shlex.quote(_INSTALLER),
        arguments=arguments,
    )
