"""The protocol between the server and its pilots: all that both sides must say alike.

It is packed into the pilot agent (pilots/agent_package.py): it imports only the standard library, and runs on Python
3.9.
"""

from __future__ import annotations

#: Version of the protocol, in the configuration of a pilot: an agent of another one leaves. Increased when agents of
#: earlier versions can no longer work with this server.
PROTOCOL = 1
#: Version of the agent, in its report on the node and in its User-Agent.
AGENT_VERSION = "0.1.0"
