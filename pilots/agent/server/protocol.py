"""The versions of the agent and of its protocol."""

import platform

VERSION = "0.1.0"
#: Must equal the ``protocol`` of the server's configuration.
PROTOCOL = 1
USER_AGENT = f"wms-pilot-agent/{VERSION} (protocol {PROTOCOL}; Python {platform.python_version()})"
