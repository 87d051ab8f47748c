"""Software published by queues; it is compared before a match, and not searched for on the node (ADR 34)."""

from collections.abc import Collection, Hashable, Iterable, Mapping

from resources.domain.parameters import Value, canonical_name, values_of

#: The parameter with a list of software, as in RFC7's example; tags of a queue publish software too.
PARAMETER = canonical_name("SoftwareTag")

_NOTHING: frozenset[str] = frozenset()


def software_of_queue(tags: Iterable[str], value: Value | None) -> frozenset[str]:
    """Return the software published by a queue.

    Args:
        tags: the queue's tags.
        value: the value of PARAMETER in force there, of which only texts count; None: it has none.
    """
    named = () if value is None else values_of(value)
    return frozenset(tags).union(name for name in named if isinstance(name, str))


class PublishedSoftware:
    """The software published by the queues that serve one VO. Compared by identity; threads share it.

    Equal sets are the same object: offers are cached by them, and a set computes its hash only once.
    """

    def __init__(self, of_queue: Mapping[Hashable, frozenset[str]]) -> None:
        """Store the software of each queue; queues without any may be missing."""
        self._of_queue = of_queue
        self._anywhere = _NOTHING.union(*of_queue.values())
        self._lacking: dict[frozenset[str], frozenset[str]] = {}

    def common_to(self, queues: Collection[Hashable]) -> frozenset[str]:
        """Return the software published by all of these queues; without queues, none."""
        published = [self._of_queue.get(queue, _NOTHING) for queue in queues]
        return frozenset.intersection(*published) if published else _NOTHING

    def lacking(self, published: frozenset[str]) -> frozenset[str]:
        """Return the software published by some queue and missing in *published*."""
        cached = self._lacking.get(published)
        return self._lacking.setdefault(published, self._anywhere - published) if cached is None else cached
