"""The throttle of a pilot's site as one request meets it (SAM, DESIGN §3.6).

The claim refuses by itself what a policy's numbers refuse. Of the policy ``custom`` this asks the site's expression
about a task queue's jobs, in one state of the throttle; the claim gives a job only while it is in that state.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from matching.services import throttles
from matching.services.claim import SeenThrottle
from resources.domain.throttles import Throttle
from resources.domain.words import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from taskqueues.services.targets import target_of
from wms.kernel.db import DatabaseNow
from wms.kernel.memo import Remembered

_EXPIRED: Final = "throttle_expired"
_MOVED: Final = "throttle_moved"
#: The claim's reasons that close the whole site, or say that its throttle must be looked at again.
THROTTLED: Final = frozenset({"throttle", _EXPIRED, _MOVED})


class Refused(Enum):
    """The site's expression is not TRUE of a task queue's jobs."""

    REFUSED = "refused"


REFUSED: Final = Refused.REFUSED
Seen: TypeAlias = SeenThrottle | Literal[Refused.REFUSED] | None


@dataclass(slots=True)
class SiteThrottle:
    """What a request knows of the throttle of its pilot's site; None: no site is known, and nothing is throttled."""

    site: Site | None
    known: Remembered
    #: As it was read; the expression is asked in this state.
    _state: tuple[SeenThrottle, Throttle] | None = None
    _is_read: bool = False

    def seen_by(self, task_queue_id: int) -> Seen:
        """Return for which state jobs of the queue are accepted; None: that is not an expression's to say."""
        if not self._is_read and self.site is not None and self.site.throttle_policy == ThrottlePolicy.CUSTOM:
            self._read(self.site)
        if self._state is None:
            return None
        seen, throttle = self._state
        job = self.known.ask(target_of, task_queue_id)
        accepted = job is None or throttle.accepts(matched=seen.matched, job=job)
        return seen if accepted else REFUSED

    def has_opened(self, reason: str) -> bool:
        """Return whether it is worth trying again, after a claim that was refused for one of ``THROTTLED``."""
        if self.site is None:
            return False
        if reason == _MOVED:
            self._read(self.site)
            return True
        self._is_read, self._state = False, None
        return throttles.count(self.site.pk)

    def _read(self, site: Site) -> None:
        self._is_read = True
        # One that has expired is not asked: the claim says so, and has it counted anew. The site is read with it: the
        # one that is remembered may have had another policy, or another expression, a second ago.
        open_now = ThrottleState.objects.filter(site=site, room=None, expires_at__gt=DatabaseNow())
        state = open_now.select_related("site").first()
        self._state = (
            None if state is None else (SeenThrottle(state.version, state.matched), throttle_in(state.site, state))
        )
