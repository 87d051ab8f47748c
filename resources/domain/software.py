"""The software that queues publish: it is compared before a match, and not looked for on the node (ADR 34)."""

from collections.abc import Collection, Hashable, Iterable, Mapping

from resources.domain.parameters import Value, canonical_name, values_of

#: The parameter that lists software, as in RFC7's example; the tags of a queue publish software too.
PARAMETER = canonical_name("SoftwareTag")

_NOTHING: frozenset[str] = frozenset()


def software_of_queue(tags: Iterable[str], value: Value | None) -> frozenset[str]:
    """Return the software that a queue publishes.

    Args:
        tags: of the queue.
        value: of PARAMETER in force there; only its texts name software. None: it has none.
    """
    named = () if value is None else values_of(value)
    return frozenset(tags).union(name for name in named if isinstance(name, str))


class PublishedSoftware:
    """The software that the queues serving one VO publish. Compared by identity; threads share it.

    Sets that are equal are the same object: offers are looked up by them, and a set computes its hash once.
    """

    def __init__(self, of_queue: Mapping[Hashable, frozenset[str]]) -> None:
        """Take the software of each queue; a queue that publishes none may be missing."""
        self._of_queue = of_queue
        self._anywhere = _NOTHING.union(*of_queue.values())
        self._lacking: dict[frozenset[str], frozenset[str]] = {}

    def common_to(self, queues: Collection[Hashable]) -> frozenset[str]:
        """Return the software that every one of these queues publishes; without a queue, none."""
        published = [self._of_queue.get(queue, _NOTHING) for queue in queues]
        return frozenset.intersection(*published) if published else _NOTHING

    def lacking(self, published: frozenset[str]) -> frozenset[str]:
        """Return the software that some queue publishes and that is not among *published*."""
        known = self._lacking.get(published)
        return self._lacking.setdefault(published, self._anywhere - published) if known is None else known
