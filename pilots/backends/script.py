"""The few lines by which a pilot installs itself: fetch the agent, verify it, run it (PIL §2.1)."""

import shlex

from pilots.backends.interface import PilotOrder

_SCRIPT = """\
#!/bin/sh
# A pilot of the workload management system at {server}: fetches its program, verifies it, and becomes it.
exec 2>&1
for python in {first} python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null && break
    python=
done
[ -n "$python" ] || {{ echo "A pilot needs Python 3.9 or newer; this node has none." ; exit 1; }}
umask 077
"$python" -I -c '
import hashlib, sys, urllib.request
answer = urllib.request.urlopen(sys.argv[1] + "api/pilots/agent.pyz", timeout=60)
program = answer.read()
if hashlib.sha256(program).hexdigest() != answer.headers["X-Agent-SHA256"]:
    sys.exit("The agent arrived damaged.")
open(sys.argv[2], "wb").write(program)
' {server} "$PWD/agent-{stamp}.pyz" || exit 3
exec "$python" -I "$PWD/agent-{stamp}.pyz" {arguments}
"""


def pilot_script(
    order: PilotOrder, *, server_url: str, secret_file: str, more: tuple[str, ...] = (), python: str = ""
) -> str:
    """Return the shell script of one pilot; there is no secret in it.

    Args:
        order: of the pilot.
        server_url: where pilots reach the server.
        secret_file: path on the node, or relative to where the script starts; the agent removes it once it was read.
        more: further arguments of the agent.
        python: the interpreter to be tried first.
    """
    server = server_url.rstrip("/") + "/"
    place = ("--vo", order.vo, "--site", order.site, "--ce", order.ce, "--queue", order.queue, "--stamp", order.stamp)
    arguments = ("--server", server, "--token-file", secret_file, "--remove-token-file", *place, *more)
    first = shlex.quote(python) if python else ""
    return _SCRIPT.format(server=shlex.quote(server), stamp=order.stamp, arguments=shlex.join(arguments), first=first)
