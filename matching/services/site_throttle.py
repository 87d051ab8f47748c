"""The throttle of a pilot's site as one request meets it (SAM, DESIGN §3.6).

The claim refuses by itself what a policy's numbers refuse. Of the policy ``custom`` this asks the site's expression
about a task queue's jobs, in one state of the throttle; the claim gives a job only while it is in that state. To jobs
alike in what the expression may look at it says the same, and is asked once in a state and process.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from enum import Enum
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from matching.services import throttles
from matching.services.claim import SeenThrottle
from resources.domain.classad import ClassAd
from resources.domain.throttles import NO_JOB, PATIENCE_S, Throttle
from resources.domain.words import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from taskqueues.services.targets import targets_of
from wms.kernel.db import DatabaseNow
from wms.kernel.memo import Remembered

#: The site has no room, by what it advertised itself.
_FULL: Final = "throttle"
#: Another match, or advertisement, came between the look and the claim.
_MOVED: Final = "throttle_moved"
#: The claim's reasons that close the whole site; the others say that the server is to count before.
THROTTLED: Final = frozenset({_FULL, _MOVED, "throttle_counted", "throttle_expired"})

#: Kinds of jobs are remembered of so many task queues; then all are forgotten: some 20 MB.
MOST_REMEMBERED: Final = 20_000


class Refusal(Enum):
    """What a site's expression does not take."""

    #: Jobs of this task queue.
    JOB = "job"
    #: Any job.
    ALL = "all"


Seen: TypeAlias = SeenThrottle | Refusal | None
#: Asked only where there is an expression.
Beside: TypeAlias = Callable[[], Collection[int]]


class _Kind(NamedTuple):
    """Jobs that are alike to an expression, and one of them."""

    key: Hashable
    example: ClassAd


class _Kinds:
    """Of which kind the jobs of task queues are, to expressions that look at these attributes of a job."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._kind_of: dict[int, _Kind] = {}
        self._kinds: dict[Hashable, _Kind] = {}

    def kind_of(self, task_queue_id: int, throttle: Throttle, *, beside: Beside) -> _Kind | None:
        """Return the kind, and learn that of those *beside* it; None: it is gone."""
        if task_queue_id not in self._kind_of:
            for pk, job in targets_of(beside()).items():
                key = throttle.kind_of(job)
                self._kind_of[pk] = self._kinds.setdefault(key, _Kind(key, job))
        return self._kind_of.get(task_queue_id)

    @property
    def are_many(self) -> bool:
        """Whether so much is remembered that the next request had better begin anew."""
        return len(self._kind_of) >= MOST_REMEMBERED


class _Memory:
    """What this process knows of one site's expression; threads share it, and replace what they do not like."""

    def __init__(self, site_id: int) -> None:
        self.site_id = site_id
        self._kinds = _Kinds(())
        #: What the expression said of each kind, in the state of the throttle that was met last.
        self._verdicts: tuple[Hashable, dict[Hashable, bool]] = (None, {})

    def kinds(self, throttle: Throttle) -> _Kinds:
        """Return the kinds by what the expression looks at now."""
        if self._kinds.names != throttle.asks_of_the_job or self._kinds.are_many:
            self._kinds = _Kinds(throttle.asks_of_the_job)
        return self._kinds

    def verdicts(self, state: ThrottleState) -> dict[Hashable, bool]:
        """Return what it has said in this state, by kind, to which more is added."""
        moment = (state.measured_at, state.version, state.matched)
        if self._verdicts[0] != moment:
            self._verdicts = (moment, {})
        return self._verdicts[1]


class _Asked:
    """A site's expression in one state of the throttle, for one request."""

    def __init__(self, state: ThrottleState, memory: _Memory) -> None:
        self._throttle = throttle_in(state.site, state)
        self._state = SeenThrottle(state.version, state.matched)
        self._kinds = memory.kinds(self._throttle)
        self._verdicts = memory.verdicts(state)

    def about(self, task_queue_id: int, *, beside: Beside, until: float) -> SeenThrottle | Refusal:
        """Return the state, in which jobs of the queue are accepted, or what is not.

        Args:
            beside: tells task queues, this one among them, that are likely to be asked about too.
            until: when patience ends, by the monotonic clock.
        """
        if not self._throttle.asks_of_the_job:
            return self._state if self._accepts(_Kind((), NO_JOB)) else Refusal.ALL
        kind = self._kinds.kind_of(task_queue_id, self._throttle, beside=beside)
        if kind is None:
            return self._state  # the claim finds that it is gone
        if kind.key not in self._verdicts and monotonic() > until:
            return Refusal.ALL
        return self._state if self._accepts(kind) else Refusal.JOB

    def _accepts(self, kind: _Kind) -> bool:
        verdict = self._verdicts.get(kind.key)
        if verdict is None:
            verdict = self._throttle.accepts(matched=self._state.matched, job=kind.example)
            self._verdicts[kind.key] = verdict
        return verdict


class SiteThrottle:
    """What a request knows of the throttle of its pilot's site; None: no site is known, and nothing is throttled."""

    def __init__(self, site: Site | None, known: Remembered) -> None:
        self._site = site
        self._known = known
        self._is_read = False
        #: None: there is no expression to be asked.
        self._asked: _Asked | None = None
        #: From the first question on.
        self._until: float | None = None

    def seen_by(self, task_queue_id: int, *, beside: Beside) -> Seen:
        """Return for which state jobs of the queue are accepted; None: that is not an expression's to say."""
        if not self._is_read and self._site is not None and self._site.throttle_policy == ThrottlePolicy.CUSTOM:
            self._read(self._site)
        if self._asked is None:
            return None
        if self._until is None:
            self._until = monotonic() + PATIENCE_S
        return self._asked.about(task_queue_id, beside=beside, until=self._until)

    def has_opened(self, reason: str) -> bool:
        """Return whether it is worth trying again, after a claim that was refused for one of ``THROTTLED``."""
        if self._site is None or reason == _FULL:
            return False
        if reason == _MOVED:
            self._read(self._site)
            return True
        self._is_read, self._asked = False, None
        return throttles.count(self._site.pk)

    def _read(self, site: Site) -> None:
        self._is_read = True
        # One that has expired is not asked: the claim says so, and has it counted anew. The site is read with it: the
        # one that is remembered may have had another policy, or another expression, a second ago.
        open_now = ThrottleState.objects.filter(site=site, room=None, expires_at__gt=DatabaseNow())
        state = open_now.select_related("site").first()
        self._asked = None if state is None else _Asked(state, self._known.ask(_Memory, site.pk))
