"""The versions of the client that are served; older ones are refused by wms.kernel.middleware.StrictRequests."""

import re
from typing import Final

#: Begins the User-Agent of the client, also in programs that use its library; its version follows.
CLIENT: Final = "wms-client/"
#: Oldest version that is served. It is raised when an older one would do harm, not with each release: within a version
#: of the interface nothing is removed (ADR 52).
OLDEST_CLIENT: Final = (0, 1, 0)

_CLIENT_VERSION: Final = re.compile(rf"{CLIENT}((\d{{1,6}})\.(\d{{1,6}})\.(\d{{1,6}}))")


def too_old(user_agent: str) -> str | None:
    """Return the version of a client, from its header User-Agent, if it is older than OLDEST_CLIENT; else None."""
    found = _CLIENT_VERSION.match(user_agent)
    return found[1] if found and tuple(int(number) for number in found.groups()[1:]) < OLDEST_CLIENT else None


def oldest_client() -> str:
    """Return OLDEST_CLIENT as people write it."""
    return ".".join(str(number) for number in OLDEST_CLIENT)
