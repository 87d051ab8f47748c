"""The throttle of a pilot's site as one request meets it (SAM, DESIGN §3.6).

The claim refuses by itself what a policy's numbers refuse. Where the throttle depends on an expression, the expression
is evaluated here for the jobs of a task queue, in one state of the throttle; the claim gives a job only while the
throttle is in that state. Jobs that are alike in what the expression may look at get one evaluation for each state and
process. When the state has moved too often in between, it is locked and the expression evaluated under that lock
(ADR 29).
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from matching.services import throttles
from matching.services.claim import SeenThrottle
from resources.domain.classad import ClassAd
from resources.domain.enums import ThrottlePolicy
from resources.domain.throttles import NO_JOB, PATIENCE_S, Throttle
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from taskqueues.services.classads import targets_of
from wms.kernel.db import DatabaseNow
from wms.kernel.errors import UnavailableError
from wms.kernel.memo import Remembered

#: The site has no room, by what it advertised itself.
_FULL: Final = "throttle"
#: Another match, or advertisement, came between the look and the claim.
MOVED: Final = "throttle_moved"
#: The claim's reasons that close the whole site; the others say that the server is to count before.
THROTTLED: Final = frozenset({_FULL, MOVED, "throttle_counted", "throttle_expired"})

#: Claims of a request that may find the state moved; from then on the expression is evaluated under the lock.
OPTIMISTIC_TRIES: Final = 3
#: Longest wait for the lock of a throttle: all others that wait for it hold it for some milliseconds each.
LOCK_WAIT_S: Final = 5.0
#: After which a pilot asks again whose request was not settled.
ASK_AGAIN_S: Final = 2

#: Kinds of jobs are remembered of so many task queues; then all are forgotten: some 20 MB.
MOST_REMEMBERED: Final = 20_000


class ThrottleBusyError(UnavailableError):
    """Whether the site takes a job could not be settled in time; the same request may be repeated."""

    code = "throttle_busy"

    def __init__(self) -> None:
        sentence = "Too many matches at this site compete for its throttle; repeat the request after Retry-After."
        super().__init__(sentence, retry_after_s=ASK_AGAIN_S)


class ExpressionRefusal(Enum):
    """What a site's expression does not take."""

    #: Jobs of this task queue.
    JOB = "job"
    #: Any job.
    ALL = "all"


Seen: TypeAlias = SeenThrottle | ExpressionRefusal | None
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
        #: Whether an expression had to be evaluated when the state was read last: another policy may have one that was
        #: advertised, which the site's configuration does not tell.
        self.has_expression = False
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

    def about(self, task_queue_id: int, *, beside: Beside, budget: "_TimeBudget") -> SeenThrottle | ExpressionRefusal:
        """Return the state, in which jobs of the queue are accepted, or what is not.

        Args:
            task_queue_id: of the queue.
            beside: returns task queues, this one among them, that are likely to be asked about too.
            budget: bounds the evaluations.

        Raises:
            ThrottleBusyError: the evaluations of this request took too long.
        """
        if not self._throttle.asks_of_the_job:
            return self._state if self._accepts(_Kind((), NO_JOB), budget) else ExpressionRefusal.ALL
        kind = self._kinds.kind_of(task_queue_id, self._throttle, beside=beside)
        if kind is None:
            return self._state  # the claim finds that it is gone
        return self._state if self._accepts(kind, budget) else ExpressionRefusal.JOB

    def _accepts(self, kind: _Kind, budget: "_TimeBudget") -> bool:
        verdict = self._verdicts.get(kind.key)
        if verdict is None:
            with budget.spent():
                verdict = self._throttle.accepts(matched=self._state.matched, job=kind.example)
            self._verdicts[kind.key] = verdict
        return verdict


class _TimeBudget:
    """The time that evaluations of one request may take together; neither claims nor waits count."""

    def __init__(self, seconds: float) -> None:
        self._left_s = seconds

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Count the time of the block.

        Raises:
            ThrottleBusyError: there was none left.
        """
        if self._left_s <= 0:
            # Nothing is known of the task queues that are left, so the request does not end with "nothing fits". What
            # was found out so far is remembered, and a repeated request goes on from there.
            raise ThrottleBusyError
        begun_at = monotonic()
        yield
        self._left_s -= monotonic() - begun_at


class ThrottleCheck:
    """The throttle of the pilot's site during one request; without a site nothing is throttled."""

    def __init__(self, site: Site | None, known: Remembered) -> None:
        self._site = site
        self._known = known
        self._is_read = False
        #: None: there is no expression to be asked.
        self._asked: _Asked | None = None
        self._budget = _TimeBudget(PATIENCE_S)
        self._moves = 0

    @property
    def is_to_be_locked(self) -> bool:
        """Whether the optimistic tries are used up, so that the next claim takes the lock of the throttle."""
        return self._moves >= OPTIMISTIC_TRIES

    def seen_by(self, task_queue_id: int, *, beside: Beside) -> Seen:
        """Return for which state jobs of the queue are accepted; None: no expression is asked.

        Raises:
            ThrottleBusyError: the evaluations of this request took too long.
        """
        if not self._is_read and self._site is not None and self._is_to_be_read(self._site):
            self._read(self._site)
        if self._asked is None:
            return None
        return self._asked.about(task_queue_id, beside=beside, budget=self._budget)

    def read_again(self) -> None:
        """Read the state anew, for a claim has found it moved."""
        if self._site is not None:
            self._moves += 1
            self._read(self._site)

    def has_opened(self, reason: str) -> bool:
        """Return whether it is worth trying again, after a claim that was refused for one of ``THROTTLED``."""
        if self._site is None or reason == _FULL:
            return False
        if reason == MOVED:
            self.read_again()
            return True
        self._is_read, self._asked = False, None
        return throttles.count(self._site.pk)

    def _is_to_be_read(self, site: Site) -> bool:
        """Return whether an expression is expected; where one is found by the claim, that says that it moved."""
        if site.throttle_policy in {ThrottlePolicy.NONE, ThrottlePolicy.CUSTOM}:
            return site.throttle_policy == ThrottlePolicy.CUSTOM
        return self._known.ask(_Memory, site.pk).has_expression

    def _read(self, site: Site) -> None:
        self._is_read = True
        memory = self._known.ask(_Memory, site.pk)
        # One that has expired is not asked: the claim says so, and has it counted anew. The site is read with it: the
        # one that is remembered may have had another policy, or another expression, a second ago.
        open_now = ThrottleState.objects.filter(site=site, room=None, expires_at__gt=DatabaseNow())
        state = open_now.select_related("site").first()
        memory.has_expression = state is not None
        self._asked = None if state is None else _Asked(state, memory)


@contextmanager
def throttle_lock() -> Iterator[None]:
    """Open the transaction in which a claim keeps the lock of a throttle.

    Raises:
        ThrottleBusyError: a lock could not be had within LOCK_WAIT_S.
    """
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_WAIT_S * 1000:.0f}"])
            yield
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            raise ThrottleBusyError from error
        raise
