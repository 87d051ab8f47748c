"""Ids of leases, which are in the order of time (ADR 58)."""

from uuid import UUID

#: Random bits of an id.
RANDOM_BITS = 74
_BITS_OF_B = 62
_VERSION = 7 << 76
_VARIANT = 2 << 62


def lease_id(*, time_ms: int, chance: int) -> UUID:
    """Return a UUID of version 7 (RFC 9562), which begins with a time: ids of the same hour are neighbors in an index.

    After a checkpoint the log gets a whole page for the first entry of each page, so for nearly each random id.

    Args:
        time_ms: milliseconds since 1970.
        chance: random number of RANDOM_BITS bits.
    """
    a, b = divmod(chance, 1 << _BITS_OF_B)
    return UUID(int=time_ms << 80 | _VERSION | a << 64 | _VARIANT | b)
