"""Requests for jobs, as arguments of the match and as bodies of HTTP requests."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from uuid import UUID

from matching.services.offers import OfferRequest
from tests.benchmarks.workloads.loaded import LoadedWorkload
from tests.benchmarks.workloads.shape import draw_offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request for a job: pilot, request id, and offer."""

    #: Index of the pilot's site.
    site: int
    pilot_id: int
    request_id: UUID
    platform: str
    cpu_time_s: int
    tags: tuple[str, ...]

    def offer(self) -> OfferRequest:
        """Return the offer as an argument of the match."""
        return OfferRequest(platforms=(self.platform,), cpu_time_s=self.cpu_time_s, tags=self.tags)

    def body(self, *, required_tags: Sequence[str] = ()) -> bytes:
        """Return the offer as the body of an HTTP request."""
        fields: Mapping[str, object] = {
            "request_id": str(self.request_id),
            "platforms": [self.platform],
            "cpu_time_s": self.cpu_time_s,
            "tags": self.tags,
            "required_tags": required_tags,
        }
        return json.dumps(fields).encode()


def draw_question(loaded: LoadedWorkload, *, chance: Random) -> Question:
    """Return a random request of a random pilot."""
    offer = draw_offer(loaded.workload, chance=chance)
    return Question(
        site=offer.site,
        pilot_id=chance.choice(loaded.pilots[offer.site]),
        request_id=UUID(int=chance.getrandbits(128), version=4),
        platform=offer.platform,
        cpu_time_s=offer.cpu_time_s,
        tags=offer.tags,
    )
