"""The few lines by which a pilot installs itself: find a Python, fetch the agent, verify it, become it (PIL §2.1)."""

import shlex
from pathlib import Path

from pilots.backends.interface import PilotOrder

#: In the directory where a batch system starts a pilot, next to its script.
SECRET_FILE = "secret"  # noqa: S105 - its name
#: Tried one after the other; on systems whose own Python is too old a newer one often has a name of its own.
PYTHONS = ("python3", *(f"python3.{minor}" for minor in (13, 12, 11, 10, 9, 14)), "python")
_INSTALLER = (Path(__file__).parent / "install.py").read_text(encoding="utf-8")
# A function, so that a script that arrives cut off by "curl | sh" does nothing. The Python that is tried must not read
# standard input, which may hold the secret.
_SCRIPT = """\
#!/bin/sh
# A pilot of a workload management system: fetches its program, verifies it, and becomes it.
# Exit codes: 0 done, 1 the node or the pilot was refused, 2 wrong usage, 3 the server is not reachable.
main() {{
    exec 2>&1
    umask 077
    for python in {pythons}; do
        "$python" -I -c 'import ctypes, ssl, sys; sys.exit(sys.version_info < (3, 9))' </dev/null >/dev/null && break
        python=
    done 2>/dev/null
    [ -n "$python" ] || {{ echo "A pilot needs Python 3.9 or newer with SSL; this node has none."; exit 1; }}
    program={program} || {{ echo "A pilot needs a directory that it can write to: set TMPDIR."; exit 1; }}
    exec "$python" -I -c {installer} "$program" {arguments}
}}
main "$@"
"""


def pilot_script(
    order: PilotOrder, *, server_url: str, secret_file: str, more: tuple[str, ...] = (), python: str = ""
) -> str:
    """Return the shell script of one pilot; there is no secret in it. Its program is put where the script starts.

    Args:
        order: of the pilot.
        server_url: where pilots reach the server.
        secret_file: path on the node, or relative to where the script starts; the agent removes it once it was read.
        more: further arguments of the agent.
        python: the interpreter to be tried first.
    """
    place = ("--vo", order.vo, "--site", order.site, "--ce", order.ce, "--queue", order.queue, "--stamp", order.stamp)
    # Beside the directory where it starts are those of other pilots, with the secrets of those that still wait.
    hidden = ("--hide", "..")
    given = ("--server", server_url, "--token-file", secret_file, "--remove-token-file", *place, *more, *hidden)
    program = f'"$PWD"/{shlex.quote(f"agent-{order.stamp}.pyz")}'
    return _script(program=program, arguments=shlex.join(given), first=(python,) if python else ())


def site_script(*, server_url: str) -> str:
    """Return the script by which a site or a virtual machine starts a pilot of its own; the agent's arguments are its.

    ``curl -s https://wms.example.org/api/pilots/pilot.sh | sh -s -- --vo V --site S --ce C --queue Q --token-file F``
    """
    program = '"$(mktemp "${TMPDIR:-/tmp}/wms-pilot.XXXXXX")"'
    return _script(program=program, arguments=f'{shlex.join(("--server", server_url))} "$@"')


def _script(*, program: str, arguments: str, first: tuple[str, ...] = ()) -> str:
    return _SCRIPT.format(
        pythons=shlex.join((*first, *PYTHONS)),
        program=program,
        installer=shlex.quote(_INSTALLER),
        arguments=arguments,
    )
